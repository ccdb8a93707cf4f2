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

/// A column of a table. Figures stand at its right; names stand at its left, and are cut.
struct TextColumn {
  std::string_view head;
  size_t width = 0;  ///< 0: that of sizes
  bool is_name = false;
};

class TextLines;

/// A table in a text: each row has cells, and behind them a title that takes the room that is left.
/// A cell that is missing at the end of a row takes no room.
class TextTable {
 public:
  using Cells = std::vector<std::string>;

  /// `before`: stands before each row.
  TextTable(TextLines& text, std::vector<TextColumn> columns, std::string_view before = "")
      : text_(text), columns_(std::move(columns)), before_(before) {}

  /// `title`: none if the rows have none.
  void head(std::optional<std::string_view> title = std::nullopt) const;
  /// `title`: of a site.
  void row(const Cells& cells, std::string_view title, const std::string& marks = "",
           size_t telling = 0) const;
  /// `text`: any other, which is cut where the terminal ends.
  void line(const Cells& cells, std::optional<std::string_view> text = std::nullopt) const;
  /// A row for so many others together, if there are any.
  void more(uint64_t others, const Cells& cells) const {
    if (others > 0) row(cells, grouped(others) + " more");
  }
  /// The row up to its title.
  std::string figures(const Cells& cells, bool has_title = true) const;

 private:
  TextLines& text_;
  const std::vector<TextColumn> columns_;
  const std::string_view before_;
};

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

  /// What the rows above come to, at the right edge.
  template <class... Args>
  void sum(fmt::format_string<Args...> format, Args&&... args) {
    add(right(fmt::format(format, std::forward<Args>(args)...), width_));
  }
  /// Calls row(item) for the first items, and says how many more there are.
  template <class Items, class Row>
  void first(const Items& items, size_t most, const Row& row, std::string_view of = "") {
    for (size_t i = 0; i < std::min(most, items.size()); ++i) row(items[i]);
    if (items.size() > most) add("  … {} more{}", items.size() - most, of);
  }

  /// The table of parts of a whole: its columns are size, percentage, count, and what is given.
  TextTable parts(std::string_view count = "n", const std::vector<TextColumn>& more = {});
  /// Cells of it.
  TextTable::Cells of_whole(uint64_t bytes, uint64_t whole, const auto&... more) const {
    return {size(bytes), percent(bytes, whole), more...};
  }
  /// A row of it.
  void part(uint64_t bytes, uint64_t whole, std::string_view count, std::string_view title,
            const std::string& marks = "", size_t telling = 0);

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
