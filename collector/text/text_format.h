// How figures and tables look in text. The text writers share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

/// The caller knows the terminal; files get the defaults.
struct TextStyle {
  bool color = false;
  int width = 100;  ///< columns
};

/// 2964 → "2 964".
std::string grouped(uint64_t value);
/// MiB: "5 412.3".
std::string mib(uint64_t bytes, int digits = 1);
/// "–" for what was not measured.
std::string mib(const std::optional<uint64_t>& bytes, int digits = 1);
/// "-2.5" where it shrank.
std::string signed_mib(const std::optional<int64_t>& bytes, int digits);
/// For files: every byte counts, without groups of digits.
std::string exact_mib(uint64_t bytes);
/// How many digits a table of MiB needs whose largest figure is this: more where all are small.
int mib_digits(uint64_t largest_bytes);
/// With its unit, as short as it stays readable: "0", "72.4 KiB", "64.0 MiB", "1 203 MiB".
std::string compact_size(const std::optional<uint64_t>& bytes);
/// "85.1", "–" if there is no whole.
std::string percent(uint64_t part, uint64_t whole);
/// "+9.81 s".
std::string instant(int64_t ns);
/// "140 ms", "41.8 s".
std::string duration(int64_t ns);

/// Columns that UTF-8 text takes, one a code point.
size_t display_width(std::string_view text);
/// At most `width` columns, the end replaced by "…" if it must be cut.
std::string fit(std::string_view text, size_t width);
/// Padded with spaces to `width` columns, text to the left or to the right.
std::string left(std::string_view text, size_t width);
std::string right(std::string_view text, size_t width);

std::string bold(std::string_view text, const TextStyle& style);
std::string alarm(std::string_view text, const TextStyle& style);

}  // namespace gpupeak::collector
