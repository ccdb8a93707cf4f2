#include "collector/text/text_format.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace gpupeak::collector {
namespace {

constexpr double kKiB = 1024;
constexpr size_t kGroupDigits = 3;
constexpr std::string_view kNotMeasured = "–";

std::string group_digits(std::string digits) {
  const size_t end = std::min(digits.find('.'), digits.size());
  for (size_t at = end; at > kGroupDigits;) {
    at -= kGroupDigits;
    digits.insert(at, 1, ' ');
  }
  return digits;
}

/// How many bytes of the text fit into `width` columns, in whole characters.
size_t bytes_within(std::string_view text, size_t width) {
  size_t bytes = 0, columns = 0;
  while (bytes < text.size()) {
    const Character next = first_character(text.substr(bytes));
    columns += next.columns;
    if (columns > width) break;
    bytes += next.bytes;
  }
  return bytes;
}

/// Whether the space at that place is between a number and its unit.
bool is_within_size(std::string_view text, size_t space) {
  if (space == 0 || text[space - 1] < '0' || text[space - 1] > '9') return false;
  const std::string_view unit =
      text.substr(space + 1, text.find_first_of(" ,.:;)", space + 1) - space - 1);
  return unit == "B" || unit == "KiB" || unit == "MiB" || unit == "GiB" || unit == "TiB" ||
         unit == "%";
}

/// The last space at which a line may end, between `indent` and `room`; npos: there is none.
size_t last_break(std::string_view text, size_t room, size_t indent) {
  size_t space = text.rfind(' ', room);
  while (space != std::string_view::npos && space > 0 && is_within_size(text, space))
    space = text.rfind(' ', space - 1);
  return space == std::string_view::npos || space < indent ? std::string_view::npos : space;
}

}  // namespace

Character first_character(std::string_view text) {
  const auto* const begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  if (*begin < 0x80) return {};
  utf8proc_int32_t code_point = 0;
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const utf8proc_ssize_t bytes = utf8proc_iterate(begin, size, &code_point);
  if (bytes <= 0) return {};
  return {static_cast<size_t>(bytes), static_cast<size_t>(utf8proc_charwidth(code_point)),
          static_cast<uint32_t>(code_point)};
}

std::string grouped(uint64_t value) {
  return group_digits(fmt::format("{}", value));
}

std::string size_text(uint64_t bytes, const TextStyle& style) {
  if (style.bytes) return fmt::format("{}", bytes);
  if (bytes == 0) return "0";
  constexpr double kThreeDigits = 999.5;  // from here on four digits would be shown
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= kThreeDigits && unit + 1 < kUnits.size(); ++unit) value /= kKiB;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string size_text(const std::optional<uint64_t>& bytes, const TextStyle& style) {
  return bytes ? size_text(*bytes, style) : std::string(kNotMeasured);
}

std::string signed_size(const std::optional<int64_t>& bytes, const TextStyle& style) {
  if (!bytes) return std::string(kNotMeasured);
  const auto size = static_cast<uint64_t>(*bytes);
  return *bytes < 0 ? "-" + size_text(0 - size, style) : size_text(size, style);
}

std::string change_size(uint64_t before, uint64_t after, const TextStyle& style) {
  if (before == after) return size_text(0, style);
  return after > before ? "+" + size_text(after - before, style)
                        : "-" + size_text(before - after, style);
}

size_t size_columns(const TextStyle& style) {
  return style.bytes ? 15 : 9;
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0 || part > whole) return std::string(kNotMeasured);
  return fmt::format("{:.1f}", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string error_percent(uint64_t error, uint64_t estimate) {
  if (estimate == 0) return "";
  const double share = 100.0 * static_cast<double>(error) / static_cast<double>(estimate);
  return fmt::format("± {:.{}f} %", std::max(share, 0.1), share < 10 ? 1 : 0);
}

std::string exact_mib(uint64_t bytes) {
  // 20 digits, since a byte is 2^-20 MiB.
  std::string text = fmt::format("{:.20f}", static_cast<double>(bytes) / (1 << 20));
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + '0' : text;
}

std::string instant(int64_t ns) {
  return fmt::format("+{} s",
                     group_digits(fmt::format("{:.2f}", static_cast<double>(ns) / kNsPerSecond)));
}

std::string duration(int64_t ns) {
  const double seconds = static_cast<double>(ns) / kNsPerSecond;
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return group_digits(fmt::format("{:.1f}", seconds)) + " s";
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Character next = first_character(text);
    width += next.columns;
    text.remove_prefix(next.bytes);
  }
  return width;
}

std::string fit(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  return std::string(text.substr(0, bytes_within(text, width - 1))) + "…";
}

std::string cut(std::string_view text, size_t width, const TextStyle& style) {
  return style.whole_lines ? std::string(text) : fit(text, width);
}

size_t name_columns(size_t usual, size_t longest, const TextStyle& style) {
  return style.whole_lines ? std::max(usual, longest) : usual;
}

std::string name_cell(std::string_view name, size_t columns, const TextStyle& style) {
  return left(cut(name, columns, style), columns);
}

std::vector<std::string> wrapped(std::string_view text, size_t width, size_t indent,
                                 const TextStyle& style) {
  std::vector<std::string> lines;
  while (!style.whole_lines && display_width(text) > width) {
    const size_t room = bytes_within(text, width);
    size_t end = last_break(text, room, indent);
    if (end == std::string_view::npos) {
      end = std::max(room, first_character(text).bytes);  // a word that is too wide is broken
      lines.emplace_back(text.substr(0, end));
    } else {
      lines.emplace_back(text.substr(0, end));
      ++end;  // the space
    }
    text.remove_prefix(end);
    if (lines.size() == 1) width -= std::min(width - 1, indent);
  }
  lines.emplace_back(text);
  for (size_t i = 1; i < lines.size(); ++i) lines[i].insert(0, indent, ' ');
  return lines;
}

std::string left(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string right(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  return std::string(columns < width ? width - columns : 0, ' ') + std::string(text);
}

std::string_view bar_cell(uint64_t value, uint64_t most, size_t height, size_t row) {
  constexpr std::string_view kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (value == 0) return kEighths[0];
  const double part = static_cast<double>(value) / static_cast<double>(most);
  const auto filled =
      std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(height * 8) + 0.5));
  return kEighths[filled > row * 8 ? std::min<size_t>(filled - row * 8, 8) : 0];
}

std::string bold(std::string_view text, const TextStyle& style) {
  return style.color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string alarm(std::string_view text, const TextStyle& style) {
  return style.color ? fmt::format("\x1b[1;31m{}\x1b[0m", text) : std::string(text);
}

std::string faint(std::string_view text, const TextStyle& style) {
  return style.color ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const char* const behind = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), behind, number);
  const bool is_number = error == std::errc() && end == behind && std::isfinite(number);
  return is_number ? std::optional(number) : std::nullopt;
}

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
