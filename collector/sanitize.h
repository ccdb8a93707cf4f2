// Makes text from a log, a file or the environment safe to show. Everything that enters a Summary
// or the dump goes through here.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// Valid UTF-8 without control characters: those (C0, DEL, C1, the marks that reorder or hide text)
/// and bytes that are no UTF-8 become \xNN or \u{NNNN}.
std::string sanitize(std::string_view text);

}  // namespace gpupeak::collector
