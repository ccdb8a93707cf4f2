// Formats figures and tables as text. The text writers share it.
//
// in    a value: 2964 blocks, 1793064960 bytes, a name of any length; the terminal's width
// out   "2 964", "1.67 GiB", the name in its column, cut where it must be
//
//   left("←", 3)  "←  "       fit("A ← B ← C", 5)  "A ← …"       right("–", 3)  "  –"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

// The last part of a path.

/// "libc.so.6" of "/lib/libc.so.6", and of "libc.so.6".
inline std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// A file of the same name as `path` in the folder of `other`: files that belong together may have
/// been copied together.
inline std::string path_beside(const std::string& other, std::string_view path) {
  return other.substr(0, other.rfind('/') + 1) + std::string(file_name(path));
}

inline constexpr double kNsPerSecond = 1e9;

/// The caller knows the terminal; files get the defaults.
struct TextStyle {
  bool color = false;
  int width = 100;           ///< columns
  bool bytes = false;        ///< sizes as plain bytes
  bool whole_lines = false;  ///< lines are never cut, since they do not go to a terminal
};

/// How a view is written: as text in this style, or in another form.
struct ViewStyle : TextStyle {
  enum class Form { kText, kJson, kCsv };
  ViewStyle(const TextStyle& style = {}, Form as = Form::kText) : TextStyle(style), form(as) {}
  bool is_json() const { return form == Form::kJson; }
  bool is_csv() const { return form == Form::kCsv; }

  Form form;
};
inline const ViewStyle kAsJson({}, ViewStyle::Form::kJson), kAsCsv({}, ViewStyle::Form::kCsv);

/// 2964 → "2 964".
std::string grouped(uint64_t value);
/// A size with its unit, in three digits: "0", "512 B", "39.5 KiB", "1.67 GiB"; from 1000 on the
/// next unit. With style.bytes all digits, to be pasted: "1793064960".
std::string size_text(uint64_t bytes, const TextStyle& style = {});
/// "–" for what was not measured.
std::string size_text(const std::optional<uint64_t>& bytes, const TextStyle& style = {});
/// As size_text(), with a "-" if it shrank: "-2.50 MiB".
std::string signed_size(const std::optional<int64_t>& bytes, const TextStyle& style = {});
/// "+2.50 MiB", "-2.50 MiB", "0".
std::string change_size(uint64_t before, uint64_t after, const TextStyle& style = {});
/// The width of a column of sizes.
size_t size_columns(const TextStyle& style);
/// The width of a column of counts.
inline constexpr size_t kCountColumns = 9;
/// MiB for files that others read, exact to the byte.
std::string exact_mib(uint64_t bytes);
/// "85.1"; "–" if the whole is 0 or less than the part.
std::string percent(uint64_t part, uint64_t whole);
/// The error of an estimate: "± 0.4 %".
std::string error_percent(uint64_t error, uint64_t estimate);
/// "+9.81 s".
std::string instant(int64_t ns);
/// "140 ms", "41.8 s".
std::string duration(int64_t ns);

/// One character of UTF-8, or one byte that belongs to none.
struct Character {
  size_t bytes = 1, columns = 1;
  uint32_t code_point = 0;  ///< 0: it is ASCII, or a byte that belongs to none
};
/// The first character of a text that is not empty.
Character first_character(std::string_view text);
/// The columns that UTF-8 text takes on a terminal: two for a Chinese character, none for a
/// combining one.
size_t display_width(std::string_view text);
/// The text in at most `width` columns: if it is cut, it ends in "…".
std::string fit(std::string_view text, size_t width);
/// fit(), unless style.whole_lines.
std::string cut(std::string_view text, size_t width, const TextStyle& style);
/// The width of a column of names: `usual`, or as wide as the longest if lines are whole.
size_t name_columns(size_t usual, size_t longest, const TextStyle& style);
/// A name padded to its column, and cut if it is longer.
std::string name_cell(std::string_view name, size_t columns, const TextStyle& style);
/// The text in lines of `width` columns, the later ones indented. Lines are broken between words,
/// but not between a number and its unit. One line with style.whole_lines.
std::vector<std::string> wrapped(std::string_view text, size_t width, size_t indent,
                                 const TextStyle& style);
/// The text padded with spaces to `width` columns, on the left or on the right side.
std::string left(std::string_view text, size_t width);
std::string right(std::string_view text, size_t width);

/// The block character of a bar in one row of a chart, the lowest of which is row 0; `most` is as
/// high as the chart. Whatever is not 0 can be seen.
std::string_view bar_cell(uint64_t value, uint64_t most, size_t height, size_t row);

/// The text in a terminal's style, if style.color; else as it is.
std::string bold(std::string_view text, const TextStyle& style);
std::string alarm(std::string_view text, const TextStyle& style);
std::string faint(std::string_view text, const TextStyle& style);

/// The text as a number; none: it is no number, infinite, or more than a number.
std::optional<double> number_of(std::string_view text);

// Reads instants as they are written, so that times from reports can be pasted where an instant is
// asked for.

/// The nanoseconds of "+9.81 s", "+1.25s", "+40ms", "+17.5 us", "+9810000000ns", rounded; "-1s" is
/// negative. What is too large becomes the largest value. nullopt: it is no such text.
std::optional<int64_t> parse_instant(std::string_view text);

}  // namespace gpupeak::collector
