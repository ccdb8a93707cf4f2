#include "tools/mcp/log_walk.h"

#include <algorithm>
#include <utility>

#include "tools/top/text.h"

namespace gpupeak::tools {
namespace {

using collector::CallTree;

constexpr size_t kTableRows = 1000;

}  // namespace

LogWalk::LogWalk(const std::string& log, const std::string& scope,
                 const collector::Progress& progress, const collector::Reading& reading)
    : profile_(std::make_unique<collector::Profile>(log, progress, &times_, reading)) {
  times_.finish(profile_->replay());
  scope_ = profile_->scope(scope);
  scopes_ = profile_->scopes();
  for (size_t i = 0; i < scopes_.size(); ++i) {
    if (scopes_[i] == scope_) scope_at_ = i;
  }
  hold_peak();
}

void LogWalk::choose_scope(size_t index) {
  if (scopes_.empty()) return;
  scope_at_ = index % scopes_.size();
  scope_ = scopes_[scope_at_];
  curve_moved_ = false;
  hold_peak();
}

void LogWalk::hold_peak() {
  const collector::PeakFinder::Scope& sum = profile_->sum(scope_);
  is_peak_ = true;
  use(profile_->at_peak(scope_), sum.peak, profile_->to_ns(sum.peak_ticks), "the peak");
}

void LogWalk::hold_moment(uint64_t event) {
  collector::Moment moment;
  moment.event = event;
  const auto found = collector::held_then(*profile_, scope_, {moment});
  if (!found.front()) return;
  is_peak_ = false;
  use(found.front()->takers, found.front()->bytes, found.front()->time_ns, "the chosen moment");
  note_ = "tree, flame and table show this moment now; p: the peak";
}

void LogWalk::use(std::vector<collector::Contribution> held, uint64_t bytes, int64_t time_ns,
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

const std::string& LogWalk::title(uint32_t node) {
  std::string& title = titles_[node];
  if (title.empty()) title = node == 0 ? "all" : CallTree::title(tree_->node(node));
  return title;
}

void LogWalk::list_tree() {
  tree_rows_.clear();
  for (const uint32_t child : tree_->root().children) list_tree(child, 0);
  tree_at_ = std::min(tree_at_, tree_rows_.empty() ? 0 : tree_rows_.size() - 1);
}

void LogWalk::list_tree(uint32_t node, uint32_t indent) {
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

void LogWalk::expand(uint32_t node) {
  for (;;) {
    expanded_.insert(node);
    const std::vector<uint32_t>& children = tree_->node(node).children;
    if (children.size() != 1) return;
    node = children.front();
  }
}

bool LogWalk::matches(const std::string& text) const {
  return contains(text, search_);
}

std::vector<size_t> LogWalk::table_rows() const {
  std::vector<size_t> rows;
  for (size_t i = 0; i < table_.rows.size(); ++i) {
    if (search_.empty() || matches(table_.rows[i].title)) rows.push_back(i);
  }
  return rows;
}

/// Searches in the order of the tree, from the row after the chosen one to the end, then from the
/// beginning.
bool LogWalk::show_next_match() {
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
    for (size_t row = 0; row < tree_rows_.size(); ++row) {
      if (tree_rows_[row].node == node) tree_at_ = row;
    }
    return true;
  }
  return false;
}

// What keys do on each page of `gpupeak view`.

namespace {

constexpr size_t kMostFrames = 100'000;
constexpr size_t kHeadRows = 3;

size_t moved(size_t at, size_t count, TopKey key, size_t page) {
  if (count == 0) return 0;
  switch (key) {
    case TopKey::kUp:
      return at > 0 ? at - 1 : 0;
    case TopKey::kDown:
      return std::min(at + 1, count - 1);
    case TopKey::kPageUp:
      return at > page ? at - page : 0;
    case TopKey::kPageDown:
      return std::min(at + page, count - 1);
    case TopKey::kHome:
      return 0;
    case TopKey::kEnd:
      return count - 1;
    default:
      return std::min(at, count - 1);
  }
}

}  // namespace

bool LogWalk::press(const TopInput& input, size_t rows) {
  if (input.key == TopKey::kGone) return false;
  if (input.key == TopKey::kNone) return true;
  note_.clear();
  if (is_typing_) {
    if (input.key == TopKey::kText && input.text != '\t') search_ += input.text;
    if (input.key == TopKey::kErase && !search_.empty()) search_.pop_back();
    if (input.key == TopKey::kBack) search_.clear();
    if (input.key == TopKey::kBack || input.key == TopKey::kEnter) is_typing_ = false;
    const bool searches = input.key == TopKey::kEnter && !search_.empty() &&
                          (page_ == Page::kTree || page_ == Page::kFlame);
    if (searches && !show_next_match()) note_ = "nothing is called '" + search_ + "'";
    return true;
  }
  if (input.key == TopKey::kText) return press_text(input.text);
  const size_t page = rows > kHeadRows + 2 ? rows - kHeadRows - 2 : 1;
  switch (page_) {
    case Page::kTree:
      press_tree(input.key, page);
      break;
    case Page::kFlame:
      press_flame(input.key);
      break;
    case Page::kTable:
      press_table(input.key, page);
      break;
    case Page::kCurve:
      press_curve(input.key);
      break;
  }
  return true;
}

bool LogWalk::press_text(char key) {
  if (key >= '1' && key <= '4') page_ = static_cast<Page>(key - '1');
  if (key == '\t') page_ = static_cast<Page>((static_cast<size_t>(page_) + 1) % kPages);
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

void LogWalk::press_tree(TopKey key, size_t rows) {
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
    for (size_t row = 0; row < tree_rows_.size(); ++row) {
      if (tree_rows_[row].node == parents_[node]) tree_at_ = row;
    }
  } else {
    tree_at_ = moved(tree_at_, tree_rows_.size(), key, rows);
  }
}

void LogWalk::press_flame(TopKey key) {
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

void LogWalk::press_table(TopKey key, size_t rows) {
  if (key == TopKey::kEnter) {
    shows_stack_ = !shows_stack_;
    stack_at_ = 0;
  } else if (key == TopKey::kBack) {
    if (!shows_stack_) search_.clear();
    shows_stack_ = false;
  } else if (shows_stack_) {
    stack_at_ = moved(stack_at_, kMostFrames, key, rows);  // add_table() keeps it within the stack
  } else {
    table_at_ = moved(table_at_, table_rows().size(), key, rows);
  }
}

void LogWalk::press_curve(TopKey key) {
  if (key == TopKey::kLeft && curve_at_ > 0) --curve_at_;
  if (key == TopKey::kRight) curve_at_ = std::min(curve_at_ + 1, curve_columns_ - 1);
  if (key == TopKey::kHome) curve_at_ = 0;
  if (key == TopKey::kEnd) curve_at_ = curve_columns_ - 1;
  constexpr size_t kStride = 10;
  curve_moved_ = true;
  if (key == TopKey::kPageUp) curve_at_ = curve_at_ > kStride ? curve_at_ - kStride : 0;
  if (key == TopKey::kPageDown) curve_at_ = std::min(curve_at_ + kStride, curve_columns_ - 1);
  if (key != TopKey::kEnter) return;
  const Column column = columns(curve_columns_)[curve_at_];
  if (column.event == collector::kNoEvent) {
    note_ = "nothing was live then";
  } else {
    hold_moment(column.event);
  }
}

}  // namespace gpupeak::tools
