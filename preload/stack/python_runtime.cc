#include "stack/python_runtime.h"

#include <cstring>

#include "base/copied_memory.h"
#include "base/elf_lookup.h"
#include "base/lock.h"
#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxRuntimes = 8;  // loaded one after the other, or at once under other names
constexpr uint32_t kMaxFailures = 8;  // without a single success

constinit PythonRuntime g_runtimes[kMaxRuntimes];
constinit std::atomic<uint32_t> g_count{0};
constinit FutexLock g_lock;  // around checks

Text<32> version_text(uint32_t version) {
  Text<32> text;
  text.add(uint64_t{version >> 24}).add(".").add(uint64_t{version >> 16 & 255});
  text.add(".").add(uint64_t{version >> 8 & 255});
  return text;
}

bool is_release(uint32_t version) {
  return (version & 0xf0) >= 0xc0;  // release candidates are binary compatible already
}

}  // namespace

bool python_is_met() {
  return g_count.load(std::memory_order_relaxed) > 0;
}

PythonRuntime* python_runtime_at(uintptr_t ip) {
  const uint32_t count = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (g_runtimes[i].holds(ip)) return &g_runtimes[i];
  }
  return nullptr;
}

void meet_python(const dl_phdr_info& object, uintptr_t begin, uintptr_t end) {
  const auto address = [&](const char* name) {
    return reinterpret_cast<uintptr_t>(find_symbol(object, name).at);
  };
  const uintptr_t runtime = address("_PyRuntime");
  if (runtime == 0) return;
  const uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index == kMaxRuntimes) return;
  PythonRuntime& python = g_runtimes[index];
  const Symbol evaluate = find_symbol(object, "_PyEval_EvalFrameDefault");
  python.begin_ = begin;
  python.end_ = end;
  python.runtime_ = runtime;
  python.evaluate_ = reinterpret_cast<uintptr_t>(evaluate.at);
  python.evaluate_bytes_ = evaluate.bytes;
  python.code_type_ = address("PyCode_Type");
  python.frame_type_ = address("PyFrame_Type");
  python.string_type_ = address("PyUnicode_Type");
  python.bytes_type_ = address("PyBytes_Type");
  python.version_number_ = address("Py_Version");
  python.get_version_ = reinterpret_cast<const char* (*)()>(address("Py_GetVersion"));
  python.this_thread_state_ =
      reinterpret_cast<void* (*)()>(address("PyGILState_GetThisThreadState"));
  python.loaded_ = true;
  g_count.store(index + 1, std::memory_order_release);
}

void forget_python(uintptr_t begin, uintptr_t end) {
  const uint32_t count = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (g_runtimes[i].begin_ == begin && g_runtimes[i].end_ == end) g_runtimes[i].loaded_ = false;
  }
}

void redefine_python_runtimes(bool forked) {
  if (forked) g_lock.reset();
  for (uint32_t i = 0; i < g_count.load(); ++i) g_runtimes[i].say_state();
}

/// PY_VERSION_HEX; 0: cannot be told.
uint32_t PythonRuntime::read_version(CopiedMemory& memory) const {
  uint64_t number = 0;
  if (version_number_ != 0) {
    return memory.load(version_number_, number) ? static_cast<uint32_t>(number) : 0;
  }
  if (get_version_ == nullptr) return 0;
  // "3.9.18 (main, …": before Py_Version there was the text alone.
  char text[16] = {};
  if (!memory.load(reinterpret_cast<uintptr_t>(get_version_()), text)) return 0;
  uint32_t parts[3] = {};
  size_t at = 0;
  for (uint32_t& part : parts) {
    if (text[at] < '0' || text[at] > '9') return 0;
    for (; at < sizeof text && text[at] >= '0' && text[at] <= '9'; ++at) {
      part = part * 10 + static_cast<uint32_t>(text[at] - '0');
    }
    if (at + 1 >= sizeof text || part > 255) return 0;
    if (text[at] == '.') ++at;
  }
  const bool release = text[at] == ' ' || text[at] == '+';
  return parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | (release ? 0xf0u : 0);
}

/// nullptr, or why the interpreter cannot be used.
const char* PythonRuntime::check(CopiedMemory& memory) {
  if (!CopiedMemory::is_allowed()) {
    return "the system call process_vm_writev, by which they are read, is not permitted here";
  }
  if (this_thread_state_ == nullptr || code_type_ == 0 || frame_type_ == 0 || string_type_ == 0 ||
      bytes_type_ == 0) {
    return "the interpreter does not export what CPython does";
  }
  version_ = read_version(memory);
  if (version_ == 0) return "the interpreter's version cannot be told";
  if (!is_release(version_)) return "the interpreter is no release";
  if (const PythonLayout* known = known_python_layout(version_)) {
    layout_ = *known;
    return nullptr;
  }
  const uint8_t* published = memory.read(runtime_, kPythonOffsetsBytes);
  return published != nullptr ? read_python_offsets(published, version_, layout_)
                              : "the interpreter's published offsets cannot be read";
}

void PythonRuntime::say_state() const {
  const State state = state_.load();
  if (state == State::kUnchecked) return;
  if (version_ != 0) define_fact("python", version_text(version_).view());
  if (state == State::kUsable) return;
  define_fact("python.off", trouble_);
  set_quality(GPUPEAK_Q_PYTHON_OFF);
}

bool PythonRuntime::is_usable(CopiedMemory& memory) {
  if (state_.load(std::memory_order_acquire) == State::kUnchecked) {
    LockGuard guard(g_lock);
    if (state_.load() == State::kUnchecked) {
      trouble_ = check(memory);
      state_ = trouble_ == nullptr ? State::kUsable : State::kOff;
      say_state();
    }
  }
  return state_.load(std::memory_order_acquire) == State::kUsable;
}

void PythonRuntime::note_stack(bool read) {
  if (read) {
    if (read_.load(std::memory_order_relaxed) == 0) read_ = 1;
    return;
  }
  count(&gpupeak_counters_page::unread_python_stacks);
  if (read_.load() != 0 || ++failed_ != kMaxFailures) return;
  LockGuard guard(g_lock);
  trouble_ = "the interpreter's structures are not those of its version";
  state_ = State::kOff;
  say_state();
}

bool PythonRuntime::stands(uintptr_t state) const {
  const auto word = [](uintptr_t at) {
    return __atomic_load_n(reinterpret_cast<const uintptr_t*>(at), __ATOMIC_RELAXED);
  };
  if (state == 0 || state_.load(std::memory_order_acquire) != State::kUsable ||
      read_.load(std::memory_order_relaxed) == 0 || layout_.runtime_finalizing == 0) {
    return false;
  }
  // New interpreters and threads come to the front of their lists.
  const uintptr_t interpreter = word(runtime_ + layout_.runtime_interpreters);
  return word(runtime_ + layout_.runtime_finalizing) == 0 && interpreter != 0 &&
         word(interpreter + layout_.interpreter.next) == 0 &&
         word(state + layout_.thread.next) == 0;
}

PythonLineTable PythonRuntime::line_table() const {
  switch (layout_.frames) {
    case PythonFrames::kObjects:
      return PythonLineTable::kLnotab;
    case PythonFrames::kObjectsByCFrame:
      return PythonLineTable::kLineTable;
    default:
      return PythonLineTable::kLocations;
  }
}

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

/// Where _Py_DebugOffsets has the offsets that we use, and the sizes of the structures that these
/// lie in, as indices of 64-bit words.
struct Published {
  const bool is_3_14;
  uint8_t runtime_size = 3, runtime_finalizing = 4, runtime_interpreters = 5;
  uint8_t interpreter_size = 6, interpreter_next = 8, interpreter_threads = 9;
  uint8_t thread_size = is_3_14 ? 22 : 19, thread_next = is_3_14 ? 24 : 21;
  uint8_t thread_frame = is_3_14 ? 26 : 23, thread_id = is_3_14 ? 27 : 24;
  uint8_t frame_size = is_3_14 ? 31 : 28, frame_previous = is_3_14 ? 32 : 29;
  uint8_t frame_code = is_3_14 ? 33 : 30, frame_instruction = is_3_14 ? 34 : 31;
  uint8_t frame_owner = is_3_14 ? 36 : 33;
  uint8_t code_size = is_3_14 ? 39 : 34, code_filename = is_3_14 ? 40 : 35;
  uint8_t code_qualname = is_3_14 ? 42 : 37, code_line_table = is_3_14 ? 43 : 38;
  uint8_t code_first_line = is_3_14 ? 44 : 39, code_instructions = is_3_14 ? 48 : 43;
  uint8_t object_type = is_3_14 ? 51 : 45, type_flags = is_3_14 ? 55 : 49;
  uint8_t bytes_size = is_3_14 ? 75 : 65, bytes_data = is_3_14 ? 76 : 66;
  uint8_t string_size = is_3_14 ? 77 : 67, string_state = is_3_14 ? 78 : 68;
  uint8_t string_length = is_3_14 ? 79 : 69, string_ascii_bytes = is_3_14 ? 80 : 70;
};

}  // namespace

const PythonLayout* known_python_layout(uint32_t version) {
  constexpr const PythonLayout* kKnown[] = {&k39, &k310, &k311, &k312};
  const uint32_t since_39 = (version >> 16) - 0x309;
  return since_39 < 4 ? kKnown[since_39] : nullptr;
}

const char* read_python_offsets(const uint8_t* published, uint32_t version, PythonLayout& layout) {
  if (version >> 16 != 0x30d && version >> 16 != 0x30e) return "its version is not known";
  const Published at{.is_3_14 = version >> 16 != 0x30d};
  const auto word = [&](size_t index) {
    uint64_t value;
    memcpy(&value, published + 8 * index, sizeof value);
    return value;
  };
  if (memcmp(published, "xdebugpy", 8) != 0 || word(1) != version) {
    return "its published offsets are not where they should be";
  }
  if (word(2) != 0) return "it is free-threaded";
  layout = {};
  layout.frames = PythonFrames::kEntryFrameDirect;
  const struct {
    uint16_t& offset;
    uint8_t index, size, bytes;
  } wanted[] = {
      {layout.runtime_finalizing, at.runtime_finalizing, at.runtime_size, 8},
      {layout.runtime_interpreters, at.runtime_interpreters, at.runtime_size, 8},
      {layout.interpreter.next, at.interpreter_next, at.interpreter_size, 8},
      {layout.interpreter.threads, at.interpreter_threads, at.interpreter_size, 8},
      {layout.thread.next, at.thread_next, at.thread_size, 8},
      {layout.thread.thread_id, at.thread_id, at.thread_size, 8},
      {layout.thread.frame, at.thread_frame, at.thread_size, 8},
      {layout.frame.code, at.frame_code, at.frame_size, 8},
      {layout.frame.previous, at.frame_previous, at.frame_size, 8},
      {layout.frame.instruction, at.frame_instruction, at.frame_size, 8},
      {layout.frame.owner, at.frame_owner, at.frame_size, 1},
      {layout.code.filename, at.code_filename, at.code_size, 8},
      {layout.code.name, at.code_qualname, at.code_size, 8},
      {layout.code.line_table, at.code_line_table, at.code_size, 8},
      {layout.code.first_line, at.code_first_line, at.code_size, 4},
      {layout.code.instructions, at.code_instructions, at.code_size, 1},
  };
  // Those that all versions share must be as expected; the others must lie within their structure.
  bool sound = word(at.code_instructions) >= 32 && word(at.thread_size) >= 64 &&
               word(at.frame_size) >= 64 && word(at.object_type) == kPythonObjectType &&
               word(at.type_flags) == kPythonTypeFlags && word(at.bytes_size) == kPythonBytesSize &&
               word(at.bytes_data) == kPythonBytesData &&
               word(at.string_state) == kPythonStringState &&
               word(at.string_length) == kPythonStringLength && word(at.string_ascii_bytes) == 40 &&
               word(at.string_size) == 64;
  for (const auto& it : wanted) {
    sound = sound && word(it.index) <= 0xffff && word(it.index) + it.bytes <= word(it.size);
    it.offset = static_cast<uint16_t>(word(it.index));
  }
  if (!sound) return "its published offsets make no sense";
  // Not published: an int, then a pointer, then the instructions.
  layout.code.first_traceable = static_cast<uint16_t>(layout.code.instructions - 16);
  layout.ascii_bytes = 40;
  layout.compact_bytes = k312.compact_bytes;
  return nullptr;
}

}  // namespace gpupeak::preload
