#include "collector/text/text_format.h"

#include <fmt/format.h>

#include <cmath>

namespace gpupeak::collector {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = kKiB * 1024;
constexpr size_t kGroupDigits = 3;
constexpr std::string_view kNotMeasured = "–";
constexpr double kNsPerSecond = 1e9;

std::string group_digits(std::string digits) {
  const size_t end = std::min(digits.find('.'), digits.size());
  for (size_t at = end; at > kGroupDigits;) {
    at -= kGroupDigits;
    digits.insert(at, 1, ' ');
  }
  return digits;
}

bool starts_code_point(char c) {
  return (static_cast<uint8_t>(c) & 0xc0) != 0x80;
}

}  // namespace

std::string grouped(uint64_t value) {
  return group_digits(fmt::format("{}", value));
}

std::string mib(uint64_t bytes, int digits) {
  return group_digits(fmt::format("{:.{}f}", static_cast<double>(bytes) / kMiB, digits));
}

std::string mib(const std::optional<uint64_t>& bytes, int digits) {
  return bytes ? mib(*bytes, digits) : std::string(kNotMeasured);
}

int mib_digits(uint64_t largest_bytes) {
  return largest_bytes < 10 * kMiB ? 3 : 1;
}

std::string compact_size(const std::optional<uint64_t>& bytes) {
  if (!bytes) return std::string(kNotMeasured);
  if (*bytes == 0) return "0";
  if (*bytes < kKiB) return fmt::format("{} B", *bytes);
  if (*bytes < kMiB) return fmt::format("{:.1f} KiB", static_cast<double>(*bytes) / kKiB);
  if (*bytes < 1000 * kMiB) return mib(*bytes) + " MiB";
  return group_digits(fmt::format("{:.0f}", static_cast<double>(*bytes) / kMiB)) + " MiB";
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::string(kNotMeasured);
  return fmt::format("{:.1f}", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string signed_mib(const std::optional<int64_t>& bytes, int digits) {
  if (!bytes) return mib(std::nullopt, digits);
  const auto size = static_cast<uint64_t>(*bytes < 0 ? -*bytes : *bytes);
  return (*bytes < 0 ? "-" : "") + mib(size, digits);
}

std::string exact_mib(uint64_t bytes) {
  std::string text =
      fmt::format("{:.20f}", static_cast<double>(bytes) / (1 << 20));  // a byte: 2^-20
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
  for (const char c : text) width += starts_code_point(c);
  return width;
}

std::string fit(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t bytes = 0;
  size_t columns = 0;
  while (bytes < text.size() && (columns < width - 1 || !starts_code_point(text[bytes]))) {
    ++bytes;
    columns += bytes < text.size() && starts_code_point(text[bytes]);
  }
  return std::string(text.substr(0, bytes)) + "…";
}

std::string left(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string right(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  return std::string(columns < width ? width - columns : 0, ' ') + std::string(text);
}

std::string bold(std::string_view text, const TextStyle& style) {
  return style.color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string alarm(std::string_view text, const TextStyle& style) {
  return style.color ? fmt::format("\x1b[1;31m{}\x1b[0m", text) : std::string(text);
}

}  // namespace gpupeak::collector
