// The CPython interpreters of this process: found by their symbols as modules are met, and trusted
// only once their version and layout are known. HOOK-SAFE, inside a HookScope.
#pragma once

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stack/python_lines.h"

namespace gpupeak::preload {

// Where CPython's structures keep what a traceback needs, by version. Sources: the headers of
// CPython 3.9 to 3.12 (Include/cpython, Include/internal), which do not change within a minor
// version; from 3.13 on what the interpreter publishes itself (_Py_DebugOffsets).

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

class CopiedMemory;

class PythonRuntime {
 public:
  /// Whether `ip` is code of this interpreter. A thread that has such a frame keeps it loaded.
  bool holds(uintptr_t ip) const { return loaded_.load() && ip - begin_ < end_ - begin_; }
  /// Whether `ip` is in _PyEval_EvalFrameDefault, but for parts that a compiler moved elsewhere.
  bool evaluates(uintptr_t ip) const { return ip - evaluate_ < evaluate_bytes_; }

  /// True if frames can be read. The first call finds that out; if not, it says why in the log.
  bool is_usable(CopiedMemory& memory);
  /// Counts a stack: `read`, or else its structures were not as they should be. If no stack was
  /// ever read, the interpreter is not what it says, and is_usable() turns false.
  void note_stack(bool read);

  /// Whether stacks were read before, and only the calling thread could end the interpreter: it is
  /// the only interpreter, it is not about to end, and the thread of `state` is its first one,
  /// which alone ends it. Then all that the thread's frames refer to stays valid while it is read.
  bool stands(uintptr_t state) const;

  /// Valid once usable.
  const PythonLayout& layout() const { return layout_; }
  PythonLineTable line_table() const;
  /// The address of _PyRuntime.
  uintptr_t address() const { return runtime_; }
  uintptr_t code_type() const { return code_type_; }
  uintptr_t frame_type() const { return frame_type_; }
  uintptr_t string_type() const { return string_type_; }
  uintptr_t bytes_type() const { return bytes_type_; }
  /// The calling thread's PyThreadState, whether it holds the GIL or not; 0: it has none.
  uintptr_t thread_state() const { return reinterpret_cast<uintptr_t>(this_thread_state_()); }

 private:
  friend void meet_python(const dl_phdr_info& object, uintptr_t begin, uintptr_t end);
  friend void forget_python(uintptr_t begin, uintptr_t end);
  friend void redefine_python_runtimes(bool forked);
  enum class State : uint8_t { kUnchecked, kUsable, kOff };

  const char* check(CopiedMemory& memory);
  uint32_t read_version(CopiedMemory& memory) const;
  void say_state() const;

  std::atomic<bool> loaded_{false};
  std::atomic<State> state_{State::kUnchecked};
  std::atomic<uint32_t> read_{0}, failed_{0};
  uint32_t version_ = 0;  ///< PY_VERSION_HEX
  const char* trouble_ = nullptr;
  uintptr_t begin_ = 0, end_ = 0;
  uintptr_t runtime_ = 0, evaluate_ = 0, evaluate_bytes_ = 0;
  uintptr_t code_type_ = 0, frame_type_ = 0, string_type_ = 0, bytes_type_ = 0;
  uintptr_t version_number_ = 0;  ///< the address of Py_Version, since 3.11
  const char* (*get_version_)() = nullptr;
  void* (*this_thread_state_)() = nullptr;
  PythonLayout layout_{};
};

/// Whether an interpreter was ever met.
bool python_is_met();
/// The interpreter that `ip` belongs to, or nullptr.
PythonRuntime* python_runtime_at(uintptr_t ip);

/// A module was met. Runs under the loader's lock.
void meet_python(const dl_phdr_info& object, uintptr_t begin, uintptr_t end);
/// A module was unloaded.
void forget_python(uintptr_t begin, uintptr_t end);
/// In a forked child, or a new log: says again in the log what is known of the interpreters.
void redefine_python_runtimes(bool forked);

}  // namespace gpupeak::preload
