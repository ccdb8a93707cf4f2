#include "collector/text/xml.h"

namespace gpupeak::collector {

std::string xml_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (text.substr(i).starts_with("\xef\xbf\xbe") ||
            text.substr(i).starts_with("\xef\xbf\xbf")) {
          out += "?";
          i += 2;
        } else {
          out += text[i];
        }
    }
  }
  return out;
}

}  // namespace gpupeak::collector
