// What keys do on each page of `gpupeak view`.
#include <algorithm>

#include "tools/mcp/log_walk.h"

namespace gpupeak::tools {
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
