// `gpupeak temporary`: sites whose blocks were freed at once; docs/metrics.md says how soon.
#pragma once

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// `scope`: empty: all memory that was measured.
void write_temporary(Profile& profile, const std::string& scope, size_t top, std::ostream& out,
                     const TextStyle& style);
void write_temporary_json(Profile& profile, const std::string& scope, size_t top,
                          std::ostream& out);

}  // namespace gpupeak::collector
