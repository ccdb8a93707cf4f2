// Where phases, ranges and marks begin and end. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

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

/// 0: it is empty, or the table is full. Inside a HookScope.
uint32_t id_of(const Name& name);

/// What a phase, a range or a mark is called, and whose it is.
struct Label {
  gpupeak_phase_source source;
  Name name;
  uint64_t instance = 0;  ///< tells apart what has the same name: a session, a domain
  Name category{};        ///< empty: none
};

/// On the calling thread. A pop closes the innermost phase with this source and instance. `frame`:
/// the exported function's own __builtin_frame_address(0).
void phase_push(const Label& label, const void* frame);
void phase_pop(gpupeak_phase_source source, uint64_t instance, const void* frame);
/// The process as a whole goes on to `name`: start, main, exit.
void enter_process_phase(std::string_view name);
/// A phase that overlaps others freely and that any thread may end, by the id returned; 0: not
/// recording.
uint64_t range_begin(const Label& label);
void range_end(uint64_t id);
/// An instant.
void mark(const Label& label);
/// What the calling thread allocates from here on is for `name`.
void tag_push(const Name& name);
void tag_pop();

/// A call that we wrap, as a phase of its thread. If the call is left by longjmp or by an
/// exception, so that the destructor never runs, its phase is closed when the thread next comes
/// here from no deeper in the stack. `frame` as above, of the wrapper.
class CallPhase {
 public:
  CallPhase(const Label& label, const void* frame);
  ~CallPhase();
  CallPhase(const CallPhase&) = delete;
  CallPhase& operator=(const CallPhase&) = delete;

 private:
  uint32_t index_;  ///< among the thread's open calls
};

}  // namespace gpupeak::preload
