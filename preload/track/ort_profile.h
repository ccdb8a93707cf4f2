// ONNX Runtime's own profile of a session, where the program or --ort-nodes has turned it on: which
// file it is, and when its clock began, so that the report can put its nodes between our events.
// HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

#include "base/text.h"

namespace gpupeak::preload {

/// Whether gpupeak is to turn the profile on: asked for, and the program has not turned it on
/// itself for any session, so that its own file stays what it is.
bool wants_ort_profile();
/// The program turns a profile on.
void ort_profile_is_the_programs();
/// What its file's name begins with: the log's name and the session's number.
void ort_profile_prefix(uint64_t session, Path& prefix);

/// The session has a profile, whose clock was at 0 when the library's own showed `start_ns`.
/// `called_ns`: CLOCK_MONOTONIC before the session was made. From now on each event has a time.
void ort_session_profiled(uint64_t session, uint64_t start_ns, uint64_t called_ns);

}  // namespace gpupeak::preload
