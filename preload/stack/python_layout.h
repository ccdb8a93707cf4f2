// Where CPython's structures keep what a traceback needs, by version. Sources: the headers of
// CPython 3.9 to 3.12 (Include/cpython, Include/internal), which do not change within a minor
// version; from 3.13 on what the interpreter publishes itself (_Py_DebugOffsets).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpupeak::preload {

/// How the frames of one thread are linked.
enum class PythonFrames : uint8_t {
  kObjects,          ///< 3.9: frame objects, one for each call of the evaluation function
  kObjectsByCFrame,  ///< 3.10: the same; each call has a CFrame on the C stack
  kEntryFlag,        ///< 3.11: calls run several frames; the outermost of each is marked
  kEntryFrame,       ///< 3.12: each call has an entry frame below its frames, on the C stack
  kEntryFrameDirect  ///< 3.13, 3.14: the same, without CFrames
};

/// Offsets in bytes; what a version does not have is 0.
struct PythonLayout {
  PythonFrames frames;
  uint16_t runtime_finalizing;    ///< in _PyRuntime: the thread that shuts the interpreter down
  uint16_t runtime_interpreters;  ///< the list of interpreters …
  struct {
    uint16_t next;
    uint16_t threads;  ///< … and that of one's thread states
  } interpreter;
  struct {
    uint16_t next;
    uint16_t thread_id;
    uint16_t frame;   ///< current frame, or the CFrame that leads to it
    uint16_t cframe;  ///< 3.10: CFrame beside the frame
  } thread;
  struct {
    uint16_t current_frame, previous;
  } cframe;
  struct {
    uint16_t code, previous;
    uint16_t instruction;  ///< pointer to the instruction; in frame objects its index
    uint16_t owner;
    uint16_t is_entry;
  } frame;
  struct {
    uint16_t filename, name, line_table, first_line;
    uint16_t instructions;     ///< inline, or the bytes object that holds them
    uint16_t first_traceable;  ///< where a frame begins to run code of its own
    /// A number that no other code object of the process has. It lies shortly before the file name.
    uint16_t version;
  } code;
  uint16_t ascii_bytes, compact_bytes;  ///< sizes of str's heads
};

/// The same in all versions.
inline constexpr uint16_t kPythonObjectType = 8, kPythonTypeFlags = 168, kPythonStringLength = 16,
                          kPythonStringState = 32, kPythonBytesSize = 16, kPythonBytesData = 32;

/// The layout of 3.9 to 3.12; nullptr for other versions. `version` is PY_VERSION_HEX.
const PythonLayout* known_python_layout(uint32_t version);

/// The beginning of _PyRuntime since 3.13.
inline constexpr size_t kPythonOffsetsBytes = 81 * 8;
/// Reads the published offsets. Returns nullptr, or why they cannot be used.
const char* read_python_offsets(const uint8_t* published, uint32_t version, PythonLayout& layout);

}  // namespace gpupeak::preload
