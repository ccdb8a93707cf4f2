// The text of each page of `gpupeak view`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "collector/summary/run_text.h"
#include "collector/text/title_text.h"
#include "tools/mcp/log_walk.h"
#include "tools/top/text.h"

namespace gpupeak::tools {
namespace {

using collector::CallTree;

constexpr size_t kCurveLabel = 11;
constexpr size_t kHoldersUnderCurve = 6;
constexpr std::array<std::string_view, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 4> kNames{"tree", "flame", "table", "curve"};

/// The first line to show, so that line `at` is among the `rows` lines shown.
size_t first_shown(size_t at, size_t rows) {
  return rows == 0 || at < rows ? 0 : at - rows + 1;
}

std::string blocks(uint64_t count) {
  return collector::grouped(count) + (count == 1 ? " block" : " blocks");
}

}  // namespace

TopLines LogWalk::text(size_t rows, const collector::TextStyle& style) {
  TopLines lines;
  add_heading(lines, style);
  const size_t left = rows > lines.size() ? rows - lines.size() : 1;
  switch (page_) {
    case Page::kTree:
      add_tree(lines, left, style);
      break;
    case Page::kFlame:
      add_flame(lines, left, style);
      break;
    case Page::kTable:
      add_table(lines, left, style);
      break;
    case Page::kCurve:
      add_curve(lines, left, style);
      break;
  }
  return lines;
}

void LogWalk::add_heading(TopLines& lines, const collector::TextStyle& style) {
  const collector::Quality quality = profile_->quality();
  const std::optional<std::string> phase =
      is_peak_ ? profile_->phase_at_peak(scope_) : std::nullopt;
  lines.push_back({fmt::format("{}: {} at {}, {}{}", profile_->scope_text(scope_),
                               collector::size_text(bytes_, style), collector::instant(time_ns_),
                               what_, phase ? ", phase " + *phase : ""),
                   TopLine::Look::kBold});
  const bool fine = quality.exact && quality.log_complete;
  const std::string losses = collector::losses_text(quality);
  lines.push_back({fine && quality.warnings.empty() ? losses
                   : quality.warnings.empty()       ? losses
                                              : losses + "; " + quality.warnings.front().message,
                   fine ? TopLine::Look::kFaint : TopLine::Look::kAlarm});
  std::string tabs;
  for (size_t i = 0; i < kPages; ++i) {
    const bool chosen = static_cast<size_t>(page_) == i;
    const std::string name = fmt::format("{} {}", i + 1, kNames[i]);
    tabs += chosen ? "[" + name + "]  " : " " + name + "   ";
  }
  lines.push_back({tabs});
}

void LogWalk::add_tree(TopLines& lines, size_t rows, const collector::TextStyle& style) {
  lines.push_back({fmt::format("{} {} {}  call", collector::right("size", size_columns(style)),
                               collector::right("%", 5), collector::right("n", 9)),
                   TopLine::Look::kFaint});
  const size_t shown = rows > 1 ? rows - 1 : 1, first = first_shown(tree_at_, shown);
  for (size_t i = first; i < std::min(first + shown, tree_rows_.size()); ++i) {
    const TreeRow& row = tree_rows_[i];
    const CallTree::Node& node = tree_->node(row.node);
    const bool inner = !node.children.empty();
    const char* sign = !inner ? " " : expanded_.contains(row.node) ? "▾" : "▸";
    lines.push_back(
        {fmt::format("{} {} {}  {}{} {}",
                     collector::right(collector::size_text(node.bytes, style), size_columns(style)),
                     collector::right(collector::percent(node.bytes, bytes_), 5),
                     collector::right(collector::grouped(node.count), 9),
                     std::string(2 * std::min(row.indent, 40U), ' '), sign, title(row.node)),
         i == tree_at_ ? TopLine::Look::kChosen : TopLine::Look::kPlain});
  }
}

void LogWalk::add_flame_cells(uint32_t node, size_t depth, size_t begin, size_t end,
                              std::vector<std::string>& rows) {
  if (depth >= rows.size() || end <= begin) return;
  const bool chosen = node == flame_at_;
  const bool found = !search_.empty() && matches(title(node));
  const size_t width = end - begin;
  const char* fill = chosen ? "═" : found ? "━" : "─";
  std::string cell = chosen ? "<" : "[";
  if (width > 2) {
    const std::string name = collector::fit(title(node), width - 2);
    cell += name;
    for (size_t i = collector::display_width(name); i < width - 2; ++i) cell += fill;
  }
  if (width > 1) cell += chosen ? ">" : "]";
  std::string& row = rows[depth];
  const size_t used = collector::display_width(row);
  if (used < begin) row.append(begin - used, ' ');
  row += cell;
  const CallTree::Node& of = tree_->node(node);
  uint64_t before = 0;
  for (const uint32_t child : of.children) {
    const uint64_t bytes = tree_->node(child).bytes;
    const auto place = [&](uint64_t at) {
      return begin + static_cast<size_t>(static_cast<double>(at) / static_cast<double>(of.bytes) *
                                         static_cast<double>(width));
    };
    add_flame_cells(child, depth + 1, place(before), place(before + bytes), rows);
    before += bytes;
  }
}

void LogWalk::add_flame(TopLines& lines, size_t rows, const collector::TextStyle& style) {
  const CallTree::Node& chosen = tree_->node(flame_at_);
  lines.push_back({fmt::format("{} {} %  {}  {}", collector::size_text(chosen.bytes, style),
                               collector::percent(chosen.bytes, bytes_), blocks(chosen.count),
                               title(flame_at_))});
  if (bytes_ == 0) return;
  size_t depth = 0;
  for (uint32_t node = flame_at_; node != flame_root_ && node != 0; node = parents_[node]) ++depth;
  const size_t shown = rows > 1 ? rows - 1 : 1, first = first_shown(depth, shown);
  std::vector<std::string> cells(first + shown);
  add_flame_cells(flame_root_, 0, 0, static_cast<size_t>(style.width), cells);
  for (size_t i = first; i < cells.size() && !cells[i].empty(); ++i) lines.push_back({cells[i]});
}

void LogWalk::add_table(TopLines& lines, size_t rows, const collector::TextStyle& style) {
  const std::vector<size_t> found = table_rows();
  table_at_ = std::min(table_at_, found.empty() ? 0 : found.size() - 1);
  lines.push_back({fmt::format("{} {} {}  site{}", collector::right("size", size_columns(style)),
                               collector::right("%", 5), collector::right("n", 9),
                               search_.empty() ? "" : "  with '" + search_ + "'"),
                   TopLine::Look::kFaint});
  if (shows_stack_ && !found.empty()) {
    const size_t row = found[table_at_];
    const collector::HolderTable whole = profile_->sites().table(held_, row + 1, true);
    if (row < whole.rows.size()) {
      const collector::Holder& holder = whole.rows[row];
      lines.push_back({fmt::format("{} in {}, {}", collector::size_text(holder.bytes, style),
                                   blocks(holder.count), holder.kind)});
      const size_t shown = rows > 3 ? rows - 3 : 1;
      stack_at_ = std::min(stack_at_, holder.stack.size() - std::min(shown, holder.stack.size()));
      for (size_t i = stack_at_; i < std::min(stack_at_ + shown, holder.stack.size()); ++i) {
        const collector::Frame& frame = holder.stack[i];
        std::string place;
        if (!frame.file.empty()) place = fmt::format("  {}:{}", frame.file, frame.line);
        lines.push_back({"  " + collector::short_frame_name(frame) + place});
      }
    }
    return;
  }
  const size_t shown = rows > 2 ? rows - 2 : 1, first = first_shown(table_at_, shown);
  for (size_t i = first; i < std::min(first + shown, found.size()); ++i) {
    const collector::Holder& holder = table_.rows[found[i]];
    lines.push_back(
        {fmt::format(
             "{} {} {}  {}",
             collector::right(collector::size_text(holder.bytes, style), size_columns(style)),
             collector::right(collector::percent(holder.bytes, bytes_), 5),
             collector::right(collector::grouped(holder.count), 9),
             collector::cut_title(holder.title, static_cast<size_t>(style.width) - 28, style,
                                  holder.telling_part)),
         i == table_at_ ? TopLine::Look::kChosen : TopLine::Look::kPlain});
  }
  if (table_.other_rows > 0 && search_.empty())
    lines.push_back({fmt::format("{} in {} more", collector::size_text(table_.other_bytes, style),
                                 collector::grouped(table_.other_rows))});
}

std::vector<LogWalk::Column> LogWalk::columns(size_t count) const {
  std::vector<Column> columns(count);
  const collector::Series* series = times_.find(profile_->scope_info(scope_).name);
  if (series == nullptr || series->buckets.empty()) return columns;
  const size_t buckets = times_.bucket_count();
  Column last;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * buckets / count, end = std::max((i + 1) * buckets / count, begin + 1);
    Column column;
    bool any = false;
    for (size_t at = begin; at < end; ++at) {
      if (at < series->first_bucket || at - series->first_bucket >= series->buckets.size())
        continue;
      const collector::SeriesBucket& bucket = series->buckets[at - series->first_bucket];
      if (bucket.max_event != collector::kNoEvent) {
        last.event = bucket.max_event;
        last.bytes = bucket.max;
      }
      if (any && bucket.max <= column.bytes) continue;
      any = true;
      column.bytes = bucket.max;
      column.event = bucket.max_event != collector::kNoEvent ? bucket.max_event : last.event;
    }
    column.time_ns = times_.begin_ns(begin, profile_->log().clock());
    columns[i] = column;
  }
  return columns;
}

void LogWalk::add_curve(TopLines& lines, size_t rows, const collector::TextStyle& style) {
  const auto width = static_cast<size_t>(style.width);
  curve_columns_ = width > kCurveLabel + 2 ? width - kCurveLabel - 2 : 1;
  const std::vector<Column> all = columns(curve_columns_);
  const auto fewer = [](const Column& a, const Column& b) { return a.bytes < b.bytes; };
  if (!curve_moved_)
    curve_at_ = static_cast<size_t>(std::max_element(all.begin(), all.end(), fewer) - all.begin());
  curve_at_ = std::min(curve_at_, curve_columns_ - 1);
  const Column& here = all[curve_at_];
  const int64_t end_ns = times_.begin_ns(times_.bucket_count(), profile_->log().clock());
  lines.push_back(
      {fmt::format("{} at {}; the curve ends at {}", collector::size_text(here.bytes, style),
                   collector::instant(here.time_ns), collector::instant(end_ns))});
  uint64_t most = 1;
  for (const Column& column : all) most = std::max(most, column.bytes);
  const size_t height =
      std::clamp<size_t>(rows > kHoldersUnderCurve + 6 ? rows - kHoldersUnderCurve - 6 : 3, 3, 20);
  for (size_t row = height; row-- > 0;) {
    std::string cells;
    for (const Column& column : all) {
      const auto eighths =
          static_cast<size_t>(static_cast<double>(column.bytes) / static_cast<double>(most) *
                                  static_cast<double>(height * 8) +
                              0.5);
      const size_t filled = column.bytes > 0 ? std::max<size_t>(eighths, 1) : 0;
      cells += kEighths[filled > row * 8 ? std::min<size_t>(filled - row * 8, 8) : 0];
    }
    lines.push_back(
        {collector::right(row + 1 == height ? collector::size_text(most, style) : "", kCurveLabel) +
         "│" + cells});
  }
  lines.push_back({std::string(kCurveLabel, ' ') + "└" + std::string(curve_at_, ' ') + "▲"});
  lines.push_back({fmt::format("who held {} ({}):", what_, collector::size_text(bytes_, style)),
                   TopLine::Look::kFaint});
  for (size_t i = 0; i < std::min(table_.rows.size(), kHoldersUnderCurve); ++i) {
    lines.push_back({fmt::format(
        "{}  {}",
        collector::right(collector::size_text(table_.rows[i].bytes, style), size_columns(style)),
        table_.rows[i].title)});
  }
}

TopFooter LogWalk::footer() const {
  if (is_typing_) return {"search: " + search_ + "▏ Enter, Esc", {}};
  TopFooter footer{note_, {{"q", "quit"}, {"?", "keys"}, {"1-4 Tab", "page"}}};
  footer.keys.push_back(page_ == Page::kTree    ? TopFooter::Key{"→ ← Enter", "open, close"}
                        : page_ == Page::kFlame ? TopFooter::Key{"Enter Esc", "zoom, all"}
                        : page_ == Page::kTable ? TopFooter::Key{"Enter", "stack"}
                                                : TopFooter::Key{"← → Enter", "choose a moment"});
  if (page_ != Page::kCurve) footer.keys.push_back({"/ n", "search, next"});
  footer.keys.insert(footer.keys.end(), {{"s", "other memory"}, {"p", "the peak"}});
  return footer;
}

}  // namespace gpupeak::tools
