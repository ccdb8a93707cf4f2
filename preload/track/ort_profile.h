// ONNX Runtime's own profile of a session, if the program or --ort-nodes has turned it on. The log
// says which file it is and when its clock began, so that the report can put its nodes between our
// events. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

#include "base/text.h"

namespace gpupeak::preload {

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

}  // namespace gpupeak::preload
