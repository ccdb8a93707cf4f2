#include "stack/python_layout.h"

#include <cstring>

namespace gpupeak::preload {
namespace {

constexpr PythonLayout k39{
    .frames = PythonFrames::kObjects,
    .runtime_finalizing = 16,
    .runtime_interpreters = 32,
    .interpreter = {.next = 0, .threads = 8},
    .thread = {.next = 8, .thread_id = 176, .frame = 24, .cframe = 0},
    .cframe = {},
    .frame = {.code = 32, .previous = 24, .instruction = 104, .owner = 0, .is_entry = 0},
    .code = {.filename = 104,
             .name = 112,
             .line_table = 120,
             .first_line = 40,
             .instructions = 48,
             .first_traceable = 0,
             .version = 0},
    .ascii_bytes = 48,
    .compact_bytes = 72};

constexpr PythonLayout k310{
    .frames = PythonFrames::kObjectsByCFrame,
    .runtime_finalizing = 16,
    .runtime_interpreters = 32,
    .interpreter = {.next = 0, .threads = 8},
    .thread = {.next = 8, .thread_id = 176, .frame = 24, .cframe = 48},
    .cframe = {.current_frame = 0, .previous = 8},
    .frame = {.code = 32, .previous = 24, .instruction = 96, .owner = 0, .is_entry = 0},
    .code = {.filename = 104,
             .name = 112,
             .line_table = 120,
             .first_line = 40,
             .instructions = 48,
             .first_traceable = 0,
             .version = 0},
    .ascii_bytes = 48,
    .compact_bytes = 72};

// From 3.11 on, `name` is co_qualname in place of co_name.
constexpr PythonLayout k311{
    .frames = PythonFrames::kEntryFlag,
    .runtime_finalizing = 24,
    .runtime_interpreters = 40,
    .interpreter = {.next = 0, .threads = 16},
    .thread = {.next = 8, .thread_id = 152, .frame = 56, .cframe = 0},
    .cframe = {.current_frame = 8, .previous = 16},
    .frame = {.code = 32, .previous = 48, .instruction = 56, .owner = 69, .is_entry = 68},
    .code = {.filename = 112,
             .name = 128,
             .line_table = 136,
             .first_line = 72,
             .instructions = 184,
             .first_traceable = 168,
             .version = 0},
    .ascii_bytes = 48,
    .compact_bytes = 72};

// From 3.13 on, each interpreter counts versions of code from the beginning: they are not used.
constexpr PythonLayout k312{
    .frames = PythonFrames::kEntryFrame,
    .runtime_finalizing = 24,
    .runtime_interpreters = 40,
    .interpreter = {.next = 0, .threads = 72},
    .thread = {.next = 8, .thread_id = 136, .frame = 56, .cframe = 0},
    .cframe = {.current_frame = 0, .previous = 8},
    .frame = {.code = 0, .previous = 8, .instruction = 56, .owner = 70, .is_entry = 0},
    .code = {.filename = 112,
             .name = 128,
             .line_table = 136,
             .first_line = 68,
             .instructions = 192,
             .first_traceable = 176,
             .version = 92},
    .ascii_bytes = 40,
    .compact_bytes = 56};

/// Where _Py_DebugOffsets has the offsets that we use, as indices of 64-bit words.
struct Published {
  uint8_t runtime_size, runtime_finalizing, runtime_interpreters;
  uint8_t interpreter_size, interpreter_next, interpreter_threads;
  uint8_t thread_size, thread_next, thread_frame, thread_id;
  uint8_t frame_size, frame_previous, frame_code, frame_instruction, frame_owner;
  uint8_t code_size, code_filename, code_qualname, code_line_table, code_first_line,
      code_instructions;
  uint8_t object_type, type_flags;
  uint8_t bytes_size, bytes_data;
  uint8_t string_size, string_state, string_length, string_ascii_bytes;
};

constexpr Published k313{.runtime_size = 3,
                         .runtime_finalizing = 4,
                         .runtime_interpreters = 5,
                         .interpreter_size = 6,
                         .interpreter_next = 8,
                         .interpreter_threads = 9,
                         .thread_size = 19,
                         .thread_next = 21,
                         .thread_frame = 23,
                         .thread_id = 24,
                         .frame_size = 28,
                         .frame_previous = 29,
                         .frame_code = 30,
                         .frame_instruction = 31,
                         .frame_owner = 33,
                         .code_size = 34,
                         .code_filename = 35,
                         .code_qualname = 37,
                         .code_line_table = 38,
                         .code_first_line = 39,
                         .code_instructions = 43,
                         .object_type = 45,
                         .type_flags = 49,
                         .bytes_size = 65,
                         .bytes_data = 66,
                         .string_size = 67,
                         .string_state = 68,
                         .string_length = 69,
                         .string_ascii_bytes = 70};

constexpr Published k314{.runtime_size = 3,
                         .runtime_finalizing = 4,
                         .runtime_interpreters = 5,
                         .interpreter_size = 6,
                         .interpreter_next = 8,
                         .interpreter_threads = 9,
                         .thread_size = 22,
                         .thread_next = 24,
                         .thread_frame = 26,
                         .thread_id = 27,
                         .frame_size = 31,
                         .frame_previous = 32,
                         .frame_code = 33,
                         .frame_instruction = 34,
                         .frame_owner = 36,
                         .code_size = 39,
                         .code_filename = 40,
                         .code_qualname = 42,
                         .code_line_table = 43,
                         .code_first_line = 44,
                         .code_instructions = 48,
                         .object_type = 51,
                         .type_flags = 55,
                         .bytes_size = 75,
                         .bytes_data = 76,
                         .string_size = 77,
                         .string_state = 78,
                         .string_length = 79,
                         .string_ascii_bytes = 80};

}  // namespace

const PythonLayout* known_python_layout(uint32_t version) {
  switch (version >> 16) {
    case 0x309:
      return &k39;
    case 0x30a:
      return &k310;
    case 0x30b:
      return &k311;
    case 0x30c:
      return &k312;
    default:
      return nullptr;
  }
}

const char* read_python_offsets(const uint8_t* published, uint32_t version, PythonLayout& layout) {
  if (version >> 16 != 0x30d && version >> 16 != 0x30e) return "its version is not known";
  const Published& at = version >> 16 == 0x30d ? k313 : k314;
  const auto word = [&](size_t index) {
    uint64_t value;
    memcpy(&value, published + 8 * index, sizeof value);
    return value;
  };
  if (memcmp(published, "xdebugpy", 8) != 0 || word(1) != version) {
    return "its published offsets are not where they should be";
  }
  if (word(2) != 0) return "it is free-threaded";
  // Each offset must lie within its structure; those that all versions share must be as expected.
  const auto inside = [&](size_t index, size_t size, uint64_t bytes) {
    return word(index) <= 0xffff && word(index) + bytes <= word(size);
  };
  const bool sound =
      inside(at.runtime_finalizing, at.runtime_size, 8) &&
      inside(at.runtime_interpreters, at.runtime_size, 8) &&
      inside(at.interpreter_next, at.interpreter_size, 8) &&
      inside(at.interpreter_threads, at.interpreter_size, 8) &&
      inside(at.thread_next, at.thread_size, 8) && inside(at.thread_frame, at.thread_size, 8) &&
      inside(at.thread_id, at.thread_size, 8) && inside(at.frame_previous, at.frame_size, 8) &&
      inside(at.frame_code, at.frame_size, 8) && inside(at.frame_instruction, at.frame_size, 8) &&
      inside(at.frame_owner, at.frame_size, 1) && inside(at.code_filename, at.code_size, 8) &&
      inside(at.code_qualname, at.code_size, 8) && inside(at.code_line_table, at.code_size, 8) &&
      inside(at.code_first_line, at.code_size, 4) &&
      inside(at.code_instructions, at.code_size, 1) && word(at.code_instructions) >= 32 &&
      word(at.thread_size) >= 64 && word(at.frame_size) >= 64 &&
      word(at.object_type) == kPythonObjectType && word(at.type_flags) == kPythonTypeFlags &&
      word(at.bytes_size) == kPythonBytesSize && word(at.bytes_data) == kPythonBytesData &&
      word(at.string_state) == kPythonStringState &&
      word(at.string_length) == kPythonStringLength && word(at.string_ascii_bytes) == 40 &&
      word(at.string_size) == 64;
  if (!sound) return "its published offsets make no sense";
  const auto offset = [&](size_t index) { return static_cast<uint16_t>(word(index)); };
  layout = {};
  layout.frames = PythonFrames::kEntryFrameDirect;
  layout.runtime_finalizing = offset(at.runtime_finalizing);
  layout.runtime_interpreters = offset(at.runtime_interpreters);
  layout.interpreter.next = offset(at.interpreter_next);
  layout.interpreter.threads = offset(at.interpreter_threads);
  layout.thread.next = offset(at.thread_next);
  layout.thread.thread_id = offset(at.thread_id);
  layout.thread.frame = offset(at.thread_frame);
  layout.frame.code = offset(at.frame_code);
  layout.frame.previous = offset(at.frame_previous);
  layout.frame.instruction = offset(at.frame_instruction);
  layout.frame.owner = offset(at.frame_owner);
  layout.code.filename = offset(at.code_filename);
  layout.code.name = offset(at.code_qualname);
  layout.code.line_table = offset(at.code_line_table);
  layout.code.first_line = offset(at.code_first_line);
  layout.code.instructions = offset(at.code_instructions);
  // Not published: an int, then a pointer, then the instructions.
  layout.code.first_traceable = static_cast<uint16_t>(layout.code.instructions - 16);
  layout.ascii_bytes = offset(at.string_ascii_bytes);
  layout.compact_bytes = k312.compact_bytes;
  return nullptr;
}

}  // namespace gpupeak::preload
