#include "collector/summary/change_text.h"

#include <fmt/format.h>

#include <cmath>

namespace gpupeak::collector {

std::string change_percent(uint64_t a, uint64_t b) {
  if (a == 0) return "";
  const double percent =
      100.0 * (static_cast<double>(b) - static_cast<double>(a)) / static_cast<double>(a);
  return std::abs(percent) < 0.05 ? "0.0 %" : fmt::format("{:+.1f} %", percent);
}

std::string change_text(const SiteDiff& site, const TextStyle& style) {
  return fmt::format("{}  ({}{}{})  {}  [{}]", change_size(site.a_bytes, site.b_bytes, style),
                     size_text(site.a_bytes, style), kChangeArrow, size_text(site.b_bytes, style),
                     site.title, site.kind);
}

}  // namespace gpupeak::collector
