#include "tools/top/curve.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/top/words.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kCurveRows = 5;
constexpr std::array<std::string_view, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

TopLines curve_text(const TopCurve& curve, const collector::TextStyle& style) {
  TopLines lines;
  const size_t columns = static_cast<size_t>(style.width) - kTopLabelColumns - 2;
  if (curve.size() < 2) return lines;
  const double begin = curve.front().seconds, end = curve.back().seconds;
  std::vector<uint64_t> values(columns);
  uint64_t most = 1, current = 0;
  size_t at = 0;
  for (const CurvePoint& point : curve) {
    const double part = end > begin ? (point.seconds - begin) / (end - begin) : 0;
    const auto column =
        static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns));
    // The value stays as it was until the next point.
    while (at < std::min(columns - 1, column)) values[++at] = current;
    current = point.bytes;
    values[at] = std::max(values[at], current);
    most = std::max(most, current);
  }
  for (size_t row = kCurveRows; row-- > 0;) {
    std::string cells;
    for (const uint64_t value : values) {
      const auto height =
          static_cast<size_t>(static_cast<double>(value) / static_cast<double>(most) *
                                  static_cast<double>(kCurveRows * 8) +
                              0.5);
      const size_t eighths = value > 0 ? std::max<size_t>(height, 1) : 0;
      cells += kEighths[eighths > row * 8 ? std::min<size_t>(eighths - row * 8, 8) : 0];
    }
    const std::string most_text =
        row + 1 == kCurveRows ? collector::size_text(most, style) : std::string();
    lines.push_back({collector::right(most_text, kTopLabelColumns) + "│" + cells});
  }
  lines.push_back({collector::right(span_text(begin), kTopLabelColumns) + "└" +
                       collector::right(span_text(end), columns),
                   TopLine::Look::kFaint});
  return lines;
}

}  // namespace gpupeak::tools
