#include "hooks/ort_profile.h"

#include "track/ort_profile.h"

namespace gpupeak::preload {
namespace {

/// Slots of OrtApi, which only ever grows at its end.
enum Slot : size_t {
  kCreateSessionOptions = 10,
  kCloneSessionOptions = 12,
  kEnableProfiling = 14,
  kReleaseStatus = 93,
  kReleaseSessionOptions = 100,
  kSessionGetProfilingStartTimeNs = 146,
};
/// The oldest release with which all of this was seen to work. Much older releases have shorter
/// tables.
constexpr int kOldestMinor = 15;

template <typename... Arguments>
OrtWord call(const OrtWord* api, Slot slot, Arguments... arguments) {
  return reinterpret_cast<OrtWord (*)(Arguments...)>(api[slot])(arguments...);
}

bool went_well(const OrtWord* api, OrtWord status) {
  if (status != 0) call(api, kReleaseStatus, status);
  return status == 0;
}

}  // namespace

OrtWord ort_options_with_profile(const OrtWord* api, int minor, OrtWord options, uint64_t number) {
  if (number == 0 || minor < kOldestMinor || !wants_ort_profile()) return 0;
  OrtWord copy = 0;
  const OrtWord made = options != 0 ? call(api, kCloneSessionOptions, options, &copy)
                                    : call(api, kCreateSessionOptions, &copy);
  if (!went_well(api, made) || copy == 0) return 0;
  Path prefix;
  ort_profile_prefix(number, prefix);
  if (went_well(api, call(api, kEnableProfiling, copy, prefix.c_str()))) return copy;
  call(api, kReleaseSessionOptions, copy);
  return 0;
}

void ort_forget_options(const OrtWord* api, OrtWord options, OrtWord status) {
  if (status != 0) call(api, kReleaseStatus, status);
  call(api, kReleaseSessionOptions, options);
}

void ort_note_profile(const OrtWord* api, int minor, const void* session, uint64_t number,
                      uint64_t called_ns) {
  if (number == 0 || minor < kOldestMinor) return;
  uint64_t start_ns = 0;
  if (!went_well(api, call(api, kSessionGetProfilingStartTimeNs, session, &start_ns))) return;
  if (start_ns != 0) ort_session_profiled(number, start_ns, called_ns);
}

}  // namespace gpupeak::preload
