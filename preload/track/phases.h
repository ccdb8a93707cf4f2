// Where phases begin and end. HOOK-SAFE, outside any HookScope.
#pragma once

#include <string_view>

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// On the calling thread.
void phase_push(gpupeak_phase_source source, std::string_view name);
void phase_pop();
/// The process as a whole goes on to `name`: start, main, exit.
void enter_process_phase(std::string_view name);

}  // namespace gpupeak::preload
