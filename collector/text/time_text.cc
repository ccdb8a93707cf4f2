#include "collector/text/time_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace gpupeak::collector {

std::optional<int64_t> parse_instant(std::string_view text) {
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return std::nullopt;
  const bool negative = text.front() == '-';
  text.remove_prefix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error == std::errc::invalid_argument || text.find_first_of("0123456789.") != 0) {
    return std::nullopt;  // from_chars() takes "inf" and another sign, too
  }
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"µs", 1e3}, {"ns", 1}};
  for (const auto& [name, ns] : kUnits) {
    if (unit != name) continue;
    constexpr auto kMost = std::numeric_limits<int64_t>::max();
    const double exact = error == std::errc::result_out_of_range ? HUGE_VAL : value * ns;
    const int64_t rounded = exact < static_cast<double>(kMost) ? std::llround(exact) : kMost;
    return negative ? -rounded : rounded;
  }
  return std::nullopt;
}

}  // namespace gpupeak::collector
