// Text for XML and HTML: SVG charts, JUnit reports, Markdown that may hold tags.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// For text and attributes. `text` is escape()'s: what XML has no place for are only U+FFFE and
/// U+FFFF then, which become "?".
std::string xml_text(std::string_view text);

}  // namespace gpupeak::collector
