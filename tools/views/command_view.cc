// `gpupeak view`: the pages of a finished log (call tree, flame graph, table of sites and curve),
// each as a frame of text, and what keys do on each page.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "collector/analyze/call_tree.h"
#include "collector/analyze/profile.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/text_lines.h"
#include "collector/timeline/moment.h"
#include "collector/timeline/time_series.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/top/top.h"

namespace gpupeak::tools {
namespace {

using collector::CallTree;

constexpr size_t kTableRows = 1000;

constexpr size_t kHoldersUnderCurve = 6;

/// The first line to show, so that line `at` is among the `rows` lines shown.
size_t first_shown(size_t at, size_t rows) {
  return rows == 0 || at < rows ? 0 : at - rows + 1;
}

std::string blocks(uint64_t count) {
  return collector::grouped(count) + (count == 1 ? " block" : " blocks");
}

constexpr size_t kMostFrames = 100'000;
constexpr size_t kHeadRows = 3;

size_t moved(size_t at, size_t count, TopKey key, size_t page) {
  const auto to = static_cast<ptrdiff_t>(at) + step_of(key, page);
  return count == 0
             ? 0
             : static_cast<size_t>(std::clamp<ptrdiff_t>(to, 0, static_cast<ptrdiff_t>(count) - 1));
}

class LogWalk {
 public:
  /// Replays the log. `scope`: as in Profile::scope(). Throws LogError and UsageError.
  LogWalk(const std::string& log, const std::string& scope, const collector::Progress& progress,
          const collector::Reading& reading)
      : profile_(std::make_unique<collector::Profile>(log, progress, &times_, reading)) {
    times_.finish(profile_->replay());
    scope_ = profile_->scope(scope);
    scopes_ = profile_->scopes();
    for (size_t i = 0; i < scopes_.size(); ++i) {
      if (scopes_[i] == scope_) scope_at_ = i;
    }
    hold_peak();
  }

  /// The current page as a frame of `rows` lines.
  TopLines text(size_t rows, const collector::TextStyle& style) {
    TopLines lines;
    add_heading(lines, style);
    const size_t left = rows > lines.size() ? rows - lines.size() : 1;
    (this->*kPages[static_cast<size_t>(page_)].add)(lines, left, style);
    return lines;
  }
  TopFooter footer() const {
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
  /// Handles a key. Returns false if the view ends. Choosing a moment replays the log, which takes
  /// longer for a longer log.
  bool press(const TopInput& input, size_t rows) {
    if (input.key == TopKey::kGone) return false;
    if (input.key == TopKey::kNone) return true;
    note_.clear();
    if (is_typing_) {
      is_typing_ = type(input, search_);
      const bool searches = input.key == TopKey::kEnter && !search_.empty() &&
                            (page_ == Page::kTree || page_ == Page::kFlame);
      if (searches && !show_next_match()) note_ = "nothing is called '" + search_ + "'";
      return true;
    }
    if (input.key == TopKey::kText) return press_text(input.text);
    const size_t page = rows > kHeadRows + 2 ? rows - kHeadRows - 2 : 1;
    (this->*kPages[static_cast<size_t>(page_)].press)(input.key, page);
    return true;
  }

 private:
  enum class Page { kTree, kFlame, kTable, kCurve };
  struct PageOf {
    const char* name;
    void (LogWalk::*add)(TopLines& lines, size_t rows, const collector::TextStyle& style);
    void (LogWalk::*press)(TopKey key, size_t rows);
  };
  static const PageOf kPages[4];  // by Page
  struct TreeRow {
    uint32_t node;
    uint32_t indent;
  };
  struct Column {
    uint64_t bytes = 0;
    uint64_t event = collector::kNoEvent;
    int64_t time_ns = 0;
  };

  void hold_peak() {
    const collector::PeakFinder::Scope& sum = profile_->sum(scope_);
    is_peak_ = true;
    use(profile_->at_peak(scope_), sum.peak, profile_->to_ns(sum.peak_ticks), "the peak");
  }
  void hold_moment(uint64_t event) {
    collector::Moment moment;
    moment.event = event;
    const auto found = collector::held_then(*profile_, scope_, {moment});
    if (!found.front()) return;
    is_peak_ = false;
    use(found.front()->takers, found.front()->bytes, found.front()->time_ns, "the chosen moment");
    note_ = "tree, flame and table show this moment now; p: the peak";
  }
  void use(std::vector<collector::Contribution> held, uint64_t bytes, int64_t time_ns,
           std::string what) {
    held_ = std::move(held);
    bytes_ = bytes;
    time_ns_ = time_ns;
    what_ = std::move(what);
    tree_ = std::make_unique<CallTree>(*profile_, held_, CallTree::Order::kFromOutermost);
    titles_.clear();
    parents_.assign(1, 0);
    std::vector<uint32_t> open{0};
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      for (const uint32_t child : tree_->node(node).children) {
        if (child >= parents_.size()) parents_.resize(child + 1);
        parents_[child] = node;
        open.push_back(child);
      }
    }
    titles_.resize(parents_.size());
    expanded_.clear();
    // The path to the largest holder is expanded.
    for (uint32_t node = 0; !tree_->node(node).children.empty();
         node = tree_->node(node).children.front()) {
      expanded_.insert(node);
    }
    tree_at_ = table_at_ = 0;
    flame_root_ = flame_at_ = 0;
    shows_stack_ = false;
    table_ = profile_->sites().table(held_, kTableRows, false);
    list_tree();
  }
  void choose_scope(size_t index) {
    if (scopes_.empty()) return;
    scope_at_ = index % scopes_.size();
    scope_ = scopes_[scope_at_];
    curve_moved_ = false;
    hold_peak();
  }

  const std::string& title(uint32_t node) {
    std::string& title = titles_[node];
    if (title.empty()) title = node == 0 ? "all" : CallTree::title(tree_->node(node));
    return title;
  }
  void list_tree() {
    tree_rows_.clear();
    for (const uint32_t child : tree_->root().children) list_tree(child, 0);
    tree_at_ = std::min(tree_at_, tree_rows_.empty() ? 0 : tree_rows_.size() - 1);
  }
  void list_tree(uint32_t node, uint32_t indent) {
    // A call with only one callee does not indent it. A loop goes down, since stacks are deep.
    for (;;) {
      tree_rows_.push_back({node, indent});
      const std::vector<uint32_t>& children = tree_->node(node).children;
      if (!expanded_.contains(node) || children.empty()) return;
      if (children.size() == 1) {
        node = children.front();
        continue;
      }
      for (const uint32_t child : children) list_tree(child, indent + 1);
      return;
    }
  }
  void expand(uint32_t node) {
    for (;;) {
      expanded_.insert(node);
      const std::vector<uint32_t>& children = tree_->node(node).children;
      if (children.size() != 1) return;
      node = children.front();
    }
  }
  void go_to(uint32_t node) {
    const auto row = std::ranges::find(tree_rows_, node, &TreeRow::node);
    if (row != tree_rows_.end()) tree_at_ = static_cast<size_t>(row - tree_rows_.begin());
  }
  /// Searches in the order of the tree, from the row after the chosen one to the end, then from the
  /// beginning.
  bool show_next_match() {
    std::vector<uint32_t> order, open{0};
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      if (node != 0) order.push_back(node);
      const std::vector<uint32_t>& children = tree_->node(node).children;
      open.insert(open.end(), children.rbegin(), children.rend());
    }
    if (order.empty()) return false;
    const uint32_t now = page_ == Page::kFlame ? flame_at_
                         : tree_rows_.empty()  ? 0
                                               : tree_rows_[tree_at_].node;
    const auto at = std::find(order.begin(), order.end(), now);
    const size_t begin = at == order.end() ? 0 : static_cast<size_t>(at - order.begin()) + 1;
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t node = order[(begin + i) % order.size()];
      if (!matches(title(node))) continue;
      if (page_ == Page::kFlame) {
        flame_at_ = node;
        flame_root_ = 0;
        return true;
      }
      for (uint32_t above = parents_[node]; above != 0; above = parents_[above])
        expanded_.insert(above);
      list_tree();
      go_to(node);
      return true;
    }
    return false;
  }
  bool matches(const std::string& text) const { return contains(text, search_); }
  std::vector<size_t> table_rows() const {
    std::vector<size_t> rows;
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      if (search_.empty() || matches(table_.rows[i].title)) rows.push_back(i);
    }
    return rows;
  }

  void add_heading(TopLines& lines, const collector::TextStyle& style) {
    const collector::Quality quality = profile_->quality();
    const std::optional<std::string> phase =
        is_peak_ ? profile_->phase_at_peak(scope_) : std::nullopt;
    lines.push_back({fmt::format("{}: {} at {}, {}{}", profile_->scope_text(scope_),
                                 collector::size_text(bytes_, style), collector::instant(time_ns_),
                                 what_, phase ? ", phase " + *phase : ""),
                     TopLine::Look::kBold});
    const bool fine = quality.exact && quality.log_complete;
    const std::string losses = collector::losses_text(quality);
    lines.push_back(
        {quality.warnings.empty() ? losses : losses + "; " + quality.warnings.front().message,
         fine ? TopLine::Look::kFaint : TopLine::Look::kAlarm});
    std::string tabs;
    for (size_t i = 0; i < std::size(kPages); ++i) {
      const bool chosen = static_cast<size_t>(page_) == i;
      const std::string name = fmt::format("{} {}", i + 1, kPages[i].name);
      tabs += chosen ? "[" + name + "]  " : " " + name + "   ";
    }
    lines.push_back({tabs});
  }
  static collector::TextLines in_columns(const collector::TextStyle& style) {
    return collector::TextLines(style, 4, collector::kCountColumns);
  }
  std::string figures(uint64_t bytes, uint64_t count, const collector::TextStyle& style) const {
    collector::TextLines text = in_columns(style);
    return text.parts().figures(text.of_whole(bytes, bytes_, collector::grouped(count)));
  }
  void add_tree(TopLines& lines, size_t rows, const collector::TextStyle& style) {
    lines.push_back(
        {in_columns(style).parts().figures({"size", "%", "n"}) + "call", TopLine::Look::kFaint});
    const size_t shown = rows > 1 ? rows - 1 : 1, first = first_shown(tree_at_, shown);
    for (size_t i = first; i < std::min(first + shown, tree_rows_.size()); ++i) {
      const TreeRow& row = tree_rows_[i];
      const CallTree::Node& node = tree_->node(row.node);
      const bool inner = !node.children.empty();
      const char* sign = !inner ? " " : expanded_.contains(row.node) ? "▾" : "▸";
      lines.push_back(
          {fmt::format("{}{}{} {}", figures(node.bytes, node.count, style),
                       std::string(2 * std::min(row.indent, 40U), ' '), sign, title(row.node)),
           i == tree_at_ ? TopLine::Look::kChosen : TopLine::Look::kPlain});
    }
  }
  void add_flame(TopLines& lines, size_t rows, const collector::TextStyle& style) {
    const CallTree::Node& chosen = tree_->node(flame_at_);
    lines.push_back({fmt::format("{} {} %  {}  {}", collector::size_text(chosen.bytes, style),
                                 collector::percent(chosen.bytes, bytes_), blocks(chosen.count),
                                 title(flame_at_))});
    if (bytes_ == 0) return;
    size_t depth = 0;
    for (uint32_t node = flame_at_; node != flame_root_ && node != 0; node = parents_[node])
      ++depth;
    const size_t shown = rows > 1 ? rows - 1 : 1, first = first_shown(depth, shown);
    std::vector<std::string> cells(first + shown);
    add_flame_cells(flame_root_, 0, 0, static_cast<size_t>(style.width), cells);
    for (size_t i = first; i < cells.size() && !cells[i].empty(); ++i) lines.push_back({cells[i]});
  }
  void add_table(TopLines& lines, size_t rows, const collector::TextStyle& style) {
    const std::vector<size_t> found = table_rows();
    table_at_ = std::min(table_at_, found.empty() ? 0 : found.size() - 1);
    lines.push_back({in_columns(style).parts().figures({"size", "%", "n"}) + "site" +
                         (search_.empty() ? "" : "  with '" + search_ + "'"),
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
      lines.push_back({figures(holder.bytes, holder.count, style) +
                           collector::cut_title(holder.title, static_cast<size_t>(style.width) - 28,
                                                style, holder.telling_part),
                       i == table_at_ ? TopLine::Look::kChosen : TopLine::Look::kPlain});
    }
    if (table_.other_rows > 0 && search_.empty())
      lines.push_back({fmt::format("{} in {} more", collector::size_text(table_.other_bytes, style),
                                   collector::grouped(table_.other_rows))});
  }
  void add_curve(TopLines& lines, size_t rows, const collector::TextStyle& style) {
    const auto width = static_cast<size_t>(style.width);
    curve_columns_ = width > kTopLabelColumns + 2 ? width - kTopLabelColumns - 2 : 1;
    const std::vector<Column> all = columns(curve_columns_);
    const auto fewer = [](const Column& a, const Column& b) { return a.bytes < b.bytes; };
    if (!curve_moved_)
      curve_at_ = static_cast<size_t>(std::ranges::max_element(all, fewer) - all.begin());
    curve_at_ = std::min(curve_at_, curve_columns_ - 1);
    const Column& here = all[curve_at_];
    const int64_t end_ns = times_.begin_ns(times_.bucket_count(), profile_->log().clock());
    lines.push_back(
        {fmt::format("{} at {}; the curve ends at {}", collector::size_text(here.bytes, style),
                     collector::instant(here.time_ns), collector::instant(end_ns))});
    const size_t height = std::clamp<size_t>(
        rows > kHoldersUnderCurve + 6 ? rows - kHoldersUnderCurve - 6 : 3, 3, 20);
    add_chart(collector::list_of(all, &Column::bytes), height, style, lines);
    lines.push_back({std::string(kTopLabelColumns, ' ') + "└" + std::string(curve_at_, ' ') + "▲"});
    lines.push_back({fmt::format("who held {} ({}):", what_, collector::size_text(bytes_, style)),
                     TopLine::Look::kFaint});
    for (size_t i = 0; i < std::min(table_.rows.size(), kHoldersUnderCurve); ++i) {
      lines.push_back({fmt::format(
          "{}  {}",
          collector::right(collector::size_text(table_.rows[i].bytes, style), size_columns(style)),
          table_.rows[i].title)});
    }
  }
  void add_flame_cells(uint32_t node, size_t depth, size_t begin, size_t end,
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
  std::vector<Column> columns(size_t count) const {
    std::vector<Column> columns(count);
    const collector::Series* series = times_.find(profile_->scope_info(scope_).name);
    if (series == nullptr || series->buckets.empty()) return columns;
    const size_t buckets = times_.bucket_count();
    Column last;
    for (size_t i = 0; i < count; ++i) {
      const size_t begin = i * buckets / count,
                   end = std::max((i + 1) * buckets / count, begin + 1);
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

  bool press_text(char key) {
    if (key >= '1' && key <= '4') page_ = static_cast<Page>(key - '1');
    if (key == '\t')
      page_ = static_cast<Page>((static_cast<size_t>(page_) + 1) % std::size(kPages));
    if (key == '/') {
      is_typing_ = true;
      search_.clear();
    }
    if (key == 'n' && !search_.empty() && page_ != Page::kTable && !show_next_match())
      note_ = "nothing is called '" + search_ + "'";
    if (key == 's') choose_scope(scope_at_ + 1);
    if (key == 'p') hold_peak();
    return key != 'q';
  }
  void press_tree(TopKey key, size_t rows) {
    if (tree_rows_.empty()) return;
    const uint32_t node = tree_rows_[tree_at_].node;
    const bool open = expanded_.contains(node);
    if ((key == TopKey::kRight || (key == TopKey::kEnter && !open)) && !open) {
      expand(node);
      list_tree();
    } else if ((key == TopKey::kLeft || key == TopKey::kEnter) && open &&
               !tree_->node(node).children.empty()) {
      expanded_.erase(node);
      list_tree();
    } else if (key == TopKey::kRight && !tree_->node(node).children.empty()) {
      tree_at_ = std::min(tree_at_ + 1, tree_rows_.size() - 1);  // the first function that it calls
    } else if (key == TopKey::kLeft) {
      go_to(parents_[node]);
    } else {
      tree_at_ = moved(tree_at_, tree_rows_.size(), key, rows);
    }
  }
  void press_flame(TopKey key, size_t /*rows*/) {
    const std::vector<uint32_t>& children = tree_->node(flame_at_).children;
    if (key == TopKey::kDown && !children.empty()) flame_at_ = children.front();
    if (key == TopKey::kUp && flame_at_ != flame_root_) flame_at_ = parents_[flame_at_];
    if ((key == TopKey::kLeft || key == TopKey::kRight) && flame_at_ != flame_root_) {
      const std::vector<uint32_t>& beside = tree_->node(parents_[flame_at_]).children;
      const auto at = std::find(beside.begin(), beside.end(), flame_at_);
      if (key == TopKey::kLeft && at != beside.begin()) flame_at_ = *std::prev(at);
      if (key == TopKey::kRight && std::next(at) != beside.end()) flame_at_ = *std::next(at);
    }
    if (key == TopKey::kEnter) flame_root_ = flame_at_;
    if (key == TopKey::kBack) flame_root_ = 0;
  }
  void press_table(TopKey key, size_t rows) {
    if (key == TopKey::kEnter) {
      shows_stack_ = !shows_stack_;
      stack_at_ = 0;
    } else if (key == TopKey::kBack) {
      if (!shows_stack_) search_.clear();
      shows_stack_ = false;
    } else if (shows_stack_) {
      stack_at_ =
          moved(stack_at_, kMostFrames, key, rows);  // add_table() keeps it within the stack
    } else {
      table_at_ = moved(table_at_, table_rows().size(), key, rows);
    }
  }
  void press_curve(TopKey key, size_t /*rows*/) {
    constexpr size_t kStride = 10;
    const TopKey as = key == TopKey::kLeft    ? TopKey::kUp
                      : key == TopKey::kRight ? TopKey::kDown
                                              : key;
    curve_at_ = moved(curve_at_, curve_columns_, as, kStride);
    curve_moved_ = true;
    if (key != TopKey::kEnter) return;
    const Column column = columns(curve_columns_)[curve_at_];
    if (column.event == collector::kNoEvent) {
      note_ = "nothing was live then";
    } else {
      hold_moment(column.event);
    }
  }

  collector::TimeSeries times_;
  std::unique_ptr<collector::Profile> profile_;
  std::vector<collector::ScopeId> scopes_;
  size_t scope_at_ = 0;
  collector::ScopeId scope_{};

  std::vector<collector::Contribution> held_;
  uint64_t bytes_ = 0;
  int64_t time_ns_ = 0;
  std::string what_;  ///< "the peak", "a chosen moment"
  bool is_peak_ = true;

  Page page_ = Page::kTree;
  std::unique_ptr<collector::CallTree> tree_;
  std::vector<std::string> titles_;  // by node
  std::vector<uint32_t> parents_;    // by node
  std::set<uint32_t> expanded_;
  std::vector<TreeRow> tree_rows_;
  size_t tree_at_ = 0;
  uint32_t flame_root_ = 0, flame_at_ = 0;
  collector::HolderTable table_;
  size_t table_at_ = 0, stack_at_ = 0;
  bool shows_stack_ = false;
  size_t curve_at_ = 0, curve_columns_ = 1;
  bool curve_moved_ = false;  ///< false: the curve's cursor is at the peak

  bool is_typing_ = false;
  std::string search_;
  std::string note_;  ///< a message that the footer shows until the next key
};

const LogWalk::PageOf LogWalk::kPages[4] = {{"tree", &LogWalk::add_tree, &LogWalk::press_tree},
                                            {"flame", &LogWalk::add_flame, &LogWalk::press_flame},
                                            {"table", &LogWalk::add_table, &LogWalk::press_table},
                                            {"curve", &LogWalk::add_curve, &LogWalk::press_curve}};

constexpr size_t kFrameRows = 40;

struct ViewVerbOptions {
  std::string log, scope;
  std::string process;  ///< of a run; empty: the one that held the most
  bool once = false;
  collector::Reading reading;
};

int view(const ViewVerbOptions& options) {
  if (!options.once && (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)) {
    throw collector::UsageError(
        "view needs a terminal; --once prints one frame, and `tree`, `tree --flame` and `timeline` "
        "print the same");
  }
  std::unique_ptr<LogWalk> walk;
  {
    ProgressBar bar;
    walk = std::make_unique<LogWalk>(process_log(options.log, options.process), options.scope,
                                     bar.callback(), options.reading);
  }
  if (options.once) {
    const collector::TextStyle style = style_for(STDOUT_FILENO, {});
    for (const TopLine& line : walk->text(kFrameRows, style))
      std::cout << collector::cut(line.text, static_cast<size_t>(style.width), style) << '\n';
    return std::cout.flush() ? 0 : kOwnFailure;
  }
  TopScreen screen;
  constexpr int kWait = 1000;  // to see that the terminal is gone
  for (;;) {
    collector::TextStyle style;
    style.width = screen.columns();
    screen.draw(walk->text(screen.rows(), style), 0, walk->footer());
    if (!walk->press(screen.wait(kWait), screen.rows())) return 0;
  }
}

}  // namespace

void add_view(CommandLine& line) {
  auto [verb, options] = line.add(
      "view", "A finished log to walk in: tree, flame graph, table, curve", view,
      R"(  gpupeak view bert.gplog                    keys: 1 to 4, arrows, Enter, / to search, q
  gpupeak view --scope host bert.gplog)");
  add_log(verb, options.log);
  add_scope(verb, options.scope);
  add_process(verb, options.process);
  verb.add_flag("--once", options.once, "Print the first frame and end");
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
