// The functions that gpupeak.h refers to.
#include "hooks/export.h"
#include "track/phases.h"
#include "track/process.h"

using namespace gpupeak::preload;

GPUPEAK_EXPORT void gpupeak_api_phase_push(const char* name) {
  ensure_started();
  phase_push({GPUPEAK_PHASE_API, name != nullptr ? name : ""}, __builtin_frame_address(0));
}

GPUPEAK_EXPORT void gpupeak_api_phase_pop(void) {
  phase_pop(GPUPEAK_PHASE_API, 0, __builtin_frame_address(0));
}
