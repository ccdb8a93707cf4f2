// The page as the build makes it from collector/page.
#pragma once

#include <string_view>

namespace gpupeak::collector {

/// Empty if this program was built without the page. Its data goes where kDataMark stands.
std::string_view page_template();

inline constexpr std::string_view kDataMark = "\"@GPUPEAK_DATA@\"";

}  // namespace gpupeak::collector
