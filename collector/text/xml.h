// Text for XML and HTML: SVG charts, JUnit reports, Markdown that may hold tags.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// For text and attributes. `text` must have gone through escape(). Then only U+FFFE and U+FFFF are
/// left that XML does not allow; they become "?".
std::string xml_text(std::string_view text);

}  // namespace gpupeak::collector
