// The calling thread's own Python frames. It is inside a call that they made, so that they stand
// still; they are read as memory, without the GIL and without running any of the interpreter's code
// but for one lookup of a thread-specific value. Each structure is checked to be what it should,
// and what cannot be read or does not fit is given up. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/copied_memory.h"
#include "gpupeak/log_format.h"
#include "stack/python_runtime.h"

namespace gpupeak::preload {

class PythonStack {
 public:
  static constexpr uint32_t kMaxFrames = GPUPEAK_MAX_FRAMES;
  /// The anchor lies beyond the frames that were looked at.
  static constexpr uintptr_t kFarAnchor = UINTPTR_MAX;

  /// Reads the frames anew. If anything is not as it should be, there are none; also counted if
  /// there are none though the native stack `evaluates` Python code.
  void read(PythonRuntime& python, bool evaluates);

  /// Innermost first; at most kMaxFrames.
  uint32_t frame_count() const { return count_; }
  /// Number of the frame in the log (python_frames.h); 0 if there was no more room for it.
  uint32_t number(uint32_t i) const { return numbers_[i]; }
  /// An address in the native frame of the evaluation function that runs the frame; the same for
  /// all frames that one call runs. 0: not known (3.9), each frame has a call of its own.
  uintptr_t anchor(uint32_t i) const { return anchors_[i]; }

 private:
  static constexpr uint32_t kMaxStates = 8;

  /// Of an object without its reference count, which changes all the time; indexed from its start.
  const uint8_t* read_object(uintptr_t object, size_t bytes);

  bool read_frames(const PythonRuntime& python);
  uint32_t find_states(const PythonRuntime& python, uintptr_t (&states)[kMaxStates]);
  bool read_state(const PythonRuntime& python, uintptr_t state);
  void sort_by_anchor();
  bool read_objects(const PythonRuntime& python, uintptr_t state, uintptr_t frame);
  bool read_flagged(const PythonRuntime& python, uintptr_t cframe);
  bool read_chain(const PythonRuntime& python, uintptr_t frame);
  bool add(const PythonRuntime& python, uintptr_t code, uint64_t instruction,
           bool may_be_incomplete, uintptr_t anchor);
  bool read_text(const PythonRuntime& python, uintptr_t object, char* buffer,
                 std::string_view& text);
  bool read_line(const PythonRuntime& python, uintptr_t table, int first_line, uint32_t offset,
                 uint32_t& line);

  const PythonRuntime* last_python_ = nullptr;  ///< of the last stack, if it could be read
  uintptr_t last_state_ = 0;
  uint32_t count_ = 0;
  uint32_t numbers_[kMaxFrames];
  uintptr_t anchors_[kMaxFrames];
  CopiedMemory memory_;
  char function_[1024], file_[1024];  ///< scratch: hooks may run on small stacks
};

}  // namespace gpupeak::preload
