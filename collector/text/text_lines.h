// Collects the lines of a text: sections with headings, rows of figures and titles. The first
// screen, the report and the views are made with it.
//
// in    a row: 1793064960 bytes of 2 GiB, 3 blocks, "load_weights ← main"
// out   " 1.67 GiB  83.5        3  load_weights ← main", no wider than the terminal
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/text/text_format.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {

inline constexpr size_t kRowCountColumns = 8;

class TextLines {
 public:
  /// `indent`: of the later lines of a text that is broken. `count_columns`: of a row's count.
  explicit TextLines(const TextStyle& style, size_t indent = 4,
                     size_t count_columns = kRowCountColumns, int least_width = 1)
      : style_(style),
        width_(static_cast<size_t>(std::max(style.width, least_width))),
        indent_(indent),
        count_columns_(count_columns) {}

  const TextStyle& style() const { return style_; }
  size_t width() const { return width_; }
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  /// The text, or the size, in a column of sizes.
  std::string cell(std::string_view text) const { return right(text, size_columns(style_)); }
  std::string cell(const std::optional<uint64_t>& bytes) const { return cell(size(bytes)); }

  /// A line as it is.
  void add(std::string line) { lines_.push_back(std::move(line)); }
  template <class Arg, class... Args>
  void add(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    add(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  void add(const TextLines& more) {
    lines_.insert(lines_.end(), more.lines_.begin(), more.lines_.end());
  }
  /// A line that is cut where the terminal ends.
  void line(std::string_view text) { add(cut(text, width_, style_)); }
  template <class Arg, class... Args>
  void line(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    line(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  /// As many lines as the text takes. `paint`: bold, alarm or faint.
  void wrap(std::string_view text,
            std::string (*paint)(std::string_view, const TextStyle&) = nullptr) {
    for (const std::string& one : wrapped(text, width_, indent_, style_))
      add(paint != nullptr ? paint(one, style_) : one);
  }
  template <class Arg, class... Args>
  void wrap(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    wrap(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }

  /// The same behind a section's name, which takes no room of it.
  template <class Arg, class... Args>
  void wrap_behind(std::string_view name, fmt::format_string<Arg, Args...> format, Arg&& arg,
                   Args&&... args) {
    const size_t first = lines_.size();
    wrap(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
    lines_[first].insert(0, bold(name, style_) + "  ");
  }

  /// "PEAK  device: 750 MiB" in one line: the name is bold, the rest is cut.
  void heading(std::string_view name, std::string_view rest = "") {
    const size_t used = name.size() + 2;
    add(bold(name, style_) +
        (rest.empty() ? "" : "  " + cut(rest, width_ > used ? width_ - used : 0, style_)));
  }
  template <class Arg, class... Args>
  void heading(std::string_view name, fmt::format_string<Arg, Args...> format, Arg&& arg,
               Args&&... args) {
    heading(name, fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  /// The same with all of the rest, in as many lines as it takes.
  void whole_heading(std::string_view name, std::string_view rest, bool is_alarm = false);
  /// The same behind an empty line.
  void section(std::string_view name, std::string_view rest, bool is_alarm = false) {
    add("");
    whole_heading(name, rest, is_alarm);
  }

  /// A row whose title has the room that its figures and its marks leave.
  void row(const std::string& figures, std::string_view title, const std::string& marks = "",
           size_t telling = 0) {
    line(title_row(figures, title, marks, width_, style_, telling));
  }
  /// A row of a part: its size, how much of the whole it is, its count, and what it is.
  void part(uint64_t bytes, uint64_t whole, std::string_view count, std::string_view title,
            const std::string& marks = "", size_t telling = 0) {
    row(figures(bytes, whole, count), title, marks, telling);
  }
  std::string figures(uint64_t bytes, uint64_t whole, std::string_view count) const {
    return figures(size(bytes), percent(bytes, whole), count);
  }
  std::string figures(std::string_view size, std::string_view share, std::string_view count) const {
    return fmt::format("{} {} {}  ", cell(size), right(share, 5), right(count, count_columns_));
  }
  /// What stands above such rows.
  void part_head(std::string_view title) { add(figures("size", "%", "n") + std::string(title)); }

  size_t count() const { return lines_.size(); }
  bool empty() const { return lines_.empty(); }
  void keep(size_t most) {
    if (lines_.size() > most) lines_.resize(most);
  }
  void write(std::ostream& out) const {
    for (const std::string& line : lines_) out << line << '\n';
  }

 private:
  TextStyle style_;
  size_t width_, indent_, count_columns_;
  std::vector<std::string> lines_;
};

}  // namespace gpupeak::collector
