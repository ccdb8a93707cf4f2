#include "collector/summary/change_text.h"

#include <fmt/format.h>

namespace gpupeak::collector {

std::string change_percent(uint64_t a, uint64_t b) {
  if (a == 0) return "";
  return fmt::format("{:+.1f} %", 100.0 * (static_cast<double>(b) - static_cast<double>(a)) /
                                      static_cast<double>(a));
}

std::string change_text(const SiteDiff& site, const TextStyle& style) {
  return fmt::format("{}  ({}{}{})  {}  [{}]", change_size(site.a_bytes, site.b_bytes, style),
                     size_text(site.a_bytes, style), kChangeArrow, size_text(site.b_bytes, style),
                     site.title, site.kind);
}

}  // namespace gpupeak::collector
