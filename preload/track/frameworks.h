// What ONNX Runtime and XLA tell of themselves.
// ONNX Runtime's sessions, numbered in the order of their creation, and its asynchronous runs.
// HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "track/phases.h"

namespace gpupeak::preload {

/// Gives a number to the session that is about to be created, and logs it with `model`. 0: not
/// recording.
uint64_t number_ort_session(std::string_view model);
void ort_session_created(const void* session, uint64_t number);
void ort_session_released(const void* session);
/// The session's number; 0: it was created before recording began, or nothing is recorded.
uint64_t ort_session_number(const void* session);

/// ONNX Runtime gets this in place of the program's callback and its argument.
struct OrtAsyncRun {
  void (*callback)(void* user_data, void* outputs, uint64_t output_count, void* status);
  void* user_data;
  uint64_t range;     ///< the range that ends when the run ends
  OrtAsyncRun* next;  ///< the next free one, while this one is free
};
/// nullptr: no memory, or not recording.
OrtAsyncRun* new_ort_async_run();
void free_ort_async_run(OrtAsyncRun* run);

// ONNX Runtime's own profile of a session, if the program or --ort-nodes has turned it on. The log
// says which file it is and when its clock began, so that the report can put its nodes between our
// events. HOOK-SAFE, outside any HookScope.

/// Whether gpupeak is to turn the profile on: --ort-nodes asks for it, and the program has not
/// turned it on itself for any session. So the program's own file stays as it is.
bool wants_ort_profile();
/// The program turns a profile on.
void ort_profile_is_the_programs();
/// What the name of the profile's file begins with: the log's name and the session's number.
void ort_profile_prefix(uint64_t session, Path& prefix);

/// The session has a profile. `start_ns`: what ONNX Runtime's own clock showed when the profile's
/// clock was at 0. `called_ns`: CLOCK_MONOTONIC before the session was made. From now on each event
/// has a time stamp.
void ort_session_profiled(uint64_t session, uint64_t start_ns, uint64_t called_ns);

// The names of XLA's compiled programs. HOOK-SAFE, outside any HookScope.

/// The name of a loaded program; empty: not known in this log.
Name xla_program_name(uint64_t program);
/// Gives a name to a program, and returns the name with its id in this log.
Name name_xla_program(uint64_t program, std::string_view name);
void xla_program_gone(uint64_t program);

/// In a forked child.
void reset_frameworks();

}  // namespace gpupeak::preload
