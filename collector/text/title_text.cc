#include "collector/text/title_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "collector/text/lists.h"
#include "collector/text/text_lines.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kShortName = 12;  // the least columns that a name keeps
constexpr std::string_view kLeftOut = "…";
constexpr std::string_view kNoFunction = "<module> ";  // Python's code outside of functions

std::vector<std::string> frames_of(std::string_view title) {
  std::vector<std::string> frames;
  for (size_t at = 0; at <= title.size();) {
    const size_t end = std::min(title.find(kArrow, at), title.size());
    frames.emplace_back(title.substr(at, end - at));
    at = end + kArrow.size();
  }
  return frames;
}

std::string joined(const std::vector<std::string>& frames) {
  return fmt::format("{}", fmt::join(frames, kArrow));
}

/// The beginning and the end of a text, with "…" between them.
std::string without_middle(std::string_view text, size_t width) {
  const size_t columns = display_width(text);
  if (columns <= width) return std::string(text);
  if (width == 0) return "";
  const size_t behind = (width - 1) / 2;
  const size_t before = width - 1 - behind;
  std::string out;
  size_t column = 0;
  bool marked = false;
  while (!text.empty()) {
    const Character next = first_character(text);
    const bool is_behind = column >= columns - behind;
    column += next.columns;
    if (column <= before || is_behind) {
      out += text.substr(0, next.bytes);
    } else if (!marked) {
      out += "…";
      marked = true;
    }
    text.remove_prefix(next.bytes);
  }
  return out;
}

/// " file.cc:12" at a frame's end; empty: it has none.
std::string_view place_of(std::string_view frame) {
  const size_t colon = frame.rfind(':');
  const size_t space = frame.rfind(' ');
  if (colon == std::string_view::npos || space == std::string_view::npos || space > colon)
    return "";
  const std::string_view line = frame.substr(colon + 1);
  if (line.empty() || line.find_first_not_of("0123456789") != std::string_view::npos) return "";
  return frame.substr(space);
}

/// Cuts the middle of a frame's name and leaves its line. If the line alone is too long, cuts the
/// whole.
std::string without_middle_of_name(std::string_view frame, size_t width) {
  const std::string_view place = place_of(frame);
  const size_t columns = display_width(place);
  if (place.empty() || columns >= width) return without_middle(frame, width);
  return without_middle(frame.substr(0, frame.size() - place.size()), width - columns) +
         std::string(place);
}

/// Shortens the frame with the longest name, except number `but`, by as much as is too much, but
/// not below kShortName. False: no frame can be shortened.
bool shorten_longest(std::vector<std::string>& frames, size_t but, size_t width) {
  const size_t columns = display_width(joined(frames));
  if (columns <= width) return false;
  size_t longest = frames.size(), most = 0;  // columns of the name, without its line
  for (size_t i = 0; i < frames.size(); ++i) {
    const size_t name = display_width(frames[i]) - display_width(place_of(frames[i]));
    if (i == but || name <= std::max(kShortName, most)) continue;
    longest = i;
    most = name;
  }
  if (longest == frames.size()) return false;
  const size_t place = display_width(place_of(frames[longest]));
  const size_t left = most - std::min(most, columns - width);
  frames[longest] = without_middle_of_name(frames[longest], place + std::max(kShortName, left));
  return true;
}

}  // namespace

std::string fit_title(std::string_view title, size_t width, size_t telling) {
  if (display_width(title) <= width) return std::string(title);
  std::vector<std::string> frames = frames_of(title);
  telling = std::min(telling, frames.size() - 1);
  const size_t last = frames.size() - 1;
  for (const bool with_last : {true, false}) {
    for (const bool with_first : {true, false}) {
      if (!with_first && with_last) continue;  // the last frame goes first
      // Frames in a row that are left out become one "…".
      std::vector<std::string> wanted;
      size_t told = 0;  // where in `wanted` the telling frame is
      for (size_t i = 0; i < frames.size(); ++i) {
        const bool is_wanted = i == telling || (i == 0 && with_first) || (i == last && with_last);
        if (!is_wanted && !wanted.empty() && wanted.back() == kLeftOut) continue;
        if (i == telling) told = wanted.size();
        wanted.push_back(is_wanted ? frames[i] : std::string(kLeftOut));
      }
      while (shorten_longest(wanted, told, width)) {
      }
      while (with_last && shorten_longest(wanted, wanted.size(), width)) {
      }
      if (display_width(joined(wanted)) <= width) return joined(wanted);
    }
  }
  return without_middle_of_name(frames[telling], width);
}

std::vector<std::string> fit_titles(const std::vector<std::string>& titles, size_t width) {
  std::map<std::string, size_t> ends;
  std::map<std::pair<size_t, std::string>, size_t> places;
  std::vector<std::vector<std::string>> all;
  for (const std::string& title : titles) {
    const std::vector<std::string>& frames = all.emplace_back(frames_of(title));
    ++ends[frames.back()];
    for (size_t i = 0; i < frames.size(); ++i) ++places[{i, frames[i]}];
  }
  std::vector<std::string> fitted;
  for (size_t i = 0; i < titles.size(); ++i) {
    const std::vector<std::string>& frames = all[i];
    size_t telling = 0;
    while (telling + 1 < frames.size() && places[{telling, frames[telling]}] > 1) ++telling;
    if (ends[frames.back()] == 1) telling = frames.size() - 1;
    fitted.push_back(fit_title(titles[i], width, telling));
  }
  return fitted;
}

std::string cut_title(std::string_view title, size_t width, const TextStyle& style,
                      size_t telling) {
  return style.whole_lines ? std::string(title) : fit_title(title, width, telling);
}

std::string title_row(const std::string& figures, std::string_view title, const std::string& marks,
                      size_t width, const TextStyle& style, size_t telling) {
  const size_t used = display_width(figures) + display_width(marks);
  return figures + cut_title(title, width > used ? width - used : 0, style, telling) + marks;
}

std::string spoken_title(std::string_view title) {
  const auto file_of = [](std::string_view frame) {
    return place_of(frame).substr(0, place_of(frame).rfind(':'));
  };
  const std::vector<std::string> frames = frames_of(title);
  size_t own = frames.size() - 1;
  while (own > 0 && place_of(frames[own]).empty()) --own;
  const std::string_view file = file_of(frames[own]);
  if (file.empty()) own = frames.size() - 1;
  std::string_view name = frames[own];
  if (name.find("+0x") != std::string_view::npos || name.ends_with(" frames)"))
    return std::string(title);
  if (name.starts_with(kNoFunction)) name.remove_prefix(kNoFunction.size());
  if (own == 0) return std::string(name);
  const std::string& called = frames[own - 1];
  const bool is_own = file_of(called) == file;  // the line is the person's own, too
  return fmt::format("{} ({})", name,
                     called.substr(0, called.size() - (is_own ? 0 : place_of(called).size())));
}

void TextLines::whole_heading(std::string_view name, std::string_view rest, bool is_alarm) {
  const size_t first = lines_.size();
  for (const std::string& one : wrapped(fmt::format("{}  {}", name, rest), width_, 2, style_)) {
    const size_t behind = lines_.size() == first ? std::min(name.size(), one.size()) : 0;
    const std::string more = one.substr(behind);
    add((behind > 0 ? bold(one.substr(0, behind), style_) : "") +
        (is_alarm ? alarm(more, style_) : more));
  }
}

TextTable TextLines::parts(std::string_view count, const std::vector<TextColumn>& more) {
  std::vector<TextColumn> columns{{"size"}, {"%", 5}, {count, count_columns_}};
  columns.insert(columns.end(), more.begin(), more.end());
  return {*this, std::move(columns)};
}

void TextLines::part(uint64_t bytes, uint64_t whole, std::string_view count, std::string_view title,
                     const std::string& marks, size_t telling) {
  parts().row(of_whole(bytes, whole, std::string(count)), title, marks, telling);
}

std::string TextTable::figures(const Cells& cells, bool has_title) const {
  std::string line(before_);
  for (size_t i = 0; i < cells.size(); ++i) {
    const TextColumn& column = columns_[i];
    const size_t width = column.width > 0 ? column.width : size_columns(text_.style());
    if (i > 0) line += column.is_name && !columns_[i - 1].is_name ? "  " : " ";
    line += column.is_name ? name_cell(cells[i], width, text_.style()) : right(cells[i], width);
  }
  return line + (!has_title ? "" : columns_[cells.size() - 1].is_name ? " " : "  ");
}

void TextTable::head(std::optional<std::string_view> title) const {
  line(list_of(columns_, [](const TextColumn& column) { return std::string(column.head); }), title);
}

void TextTable::row(const Cells& cells, std::string_view title, const std::string& marks,
                    size_t telling) const {
  text_.line(title_row(figures(cells), title, marks, text_.width(), text_.style(), telling));
}

void TextTable::line(const Cells& cells, std::optional<std::string_view> text) const {
  text_.line(figures(cells, text.has_value()) + std::string(text.value_or("")));
}

}  // namespace gpupeak::collector
