// Two runs compared, for people and as JSON (docs/diff.md). `gpupeak diff` calls it.
#pragma once

#include <ostream>

#include "collector/summary/diff.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// `top`: rows a table; what is left out stands in a row of its own.
void write_diff(const Summary& a, const Summary& b, size_t top, std::ostream& out,
                const TextStyle& style = {});
void write_diff_json(const Summary& a, const Summary& b, std::ostream& out);

/// One line: "+512.0 MiB  0.0 → 512.0  site  [kind]". The gates' messages use it too.
std::string change_text(const SiteDiff& site);
/// "+9.5 %"; empty if there is nothing to compare with.
std::string change_percent(uint64_t a, uint64_t b);
/// In MiB: "+512.0".
std::string change_mib(uint64_t a, uint64_t b, int digits = 1);

}  // namespace gpupeak::collector
