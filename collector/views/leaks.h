// `gpupeak leaks`: what was live when the process ended, by site, the devices first.
#pragma once

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// A table of `top` rows for `scope`. Empty: one for each device, for managed memory and for the
/// host.
void write_leaks(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                 const TextStyle& style);
void write_leaks_json(Profile& profile, const std::string& scope, size_t top, std::ostream& out);

}  // namespace gpupeak::collector
