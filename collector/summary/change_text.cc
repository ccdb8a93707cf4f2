#include "collector/summary/change_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

std::string change_mib(uint64_t a, uint64_t b, int digits) {
  return (b >= a ? "+" : "-") + mib(b >= a ? b - a : a - b, digits);
}

std::string change_percent(uint64_t a, uint64_t b) {
  if (a == 0) return "";
  return fmt::format("{:+.1f} %", 100.0 * (static_cast<double>(b) - static_cast<double>(a)) /
                                      static_cast<double>(a));
}

std::string change_text(const SiteDiff& site) {
  const int digits = mib_digits(std::max(site.a_bytes, site.b_bytes));
  return fmt::format("{} MiB  ({}{}{})  {}  [{}]", change_mib(site.a_bytes, site.b_bytes, digits),
                     mib(site.a_bytes, digits), kChangeArrow, mib(site.b_bytes, digits), site.title,
                     site.kind);
}

}  // namespace gpupeak::collector
