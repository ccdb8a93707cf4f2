// Logs phases, ranges, marks and tags. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/compiler.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// A text, or the id that intern_string() gave for it.
struct Name {
  std::string_view text{};
  uint32_t id = 0;

  Name() = default;
  Name(std::string_view of) : text(of) {}
  Name(const char* of) : text(of) {}
  explicit Name(uint32_t of) : id(of) {}
};

/// The name's string id; 0: the name is empty, or the table of strings is full. Inside a HookScope.
uint32_t id_of(const Name& name);

/// The name of a phase, a range or a mark, and where it comes from.
struct Label {
  gpupeak_phase_source source;
  Name name;
  uint64_t instance = 0;  ///< which session or domain; a pop closes a phase of the same instance
  Name category{};        ///< empty: none
};

/// A phase of the calling thread begins or ends. A pop closes the innermost phase with this source
/// and instance. `frame`: __builtin_frame_address(0) of the exported function.
void phase_push(const Label& label, const void* frame);
void phase_pop(gpupeak_phase_source source, uint64_t instance, const void* frame);
/// The whole process enters the phase `name`: start, main or exit.
void enter_process_phase(std::string_view name);
/// A range may overlap others. Any thread may end it by the id returned; 0: not recording.
uint64_t range_begin(const Label& label);
void range_end(uint64_t id);
/// Logs a named instant.
void mark(const Label& label);
/// Blocks that the calling thread allocates from here on have the tag `name`.
void tag_push(const Name& name);
void tag_pop();

/// Makes a call that we wrap a phase of its thread. If a longjmp or an exception leaves the call,
/// the destructor never runs. Then the phase is closed when the thread next begins or ends a phase
/// from no deeper in the stack. `frame`: __builtin_frame_address(0) of the wrapper.
class CallPhase : NoCopies {
 public:
  CallPhase(const Label& label, const void* frame);
  ~CallPhase();

 private:
  uint32_t index_;  ///< among the thread's open calls
};

}  // namespace gpupeak::preload
