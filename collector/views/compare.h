// Several runs side by side: their peaks, their phases and the largest sites at the peak, in text
// and in JSON.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

using Profiles = std::vector<std::unique_ptr<Profile>>;

/// `scope`: the phases and sites of this scope are shown; empty: the scope that a view of the first
/// run shows by default. Throws UsageError if no run has the scope.
void write_compare(const Profiles& runs, const std::string& scope, size_t top, std::ostream& out,
                   const TextStyle& style);
void write_compare_json(const Profiles& runs, const std::string& scope, size_t top,
                        std::ostream& out);

}  // namespace gpupeak::collector
