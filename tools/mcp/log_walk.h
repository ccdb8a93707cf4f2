// The pages of `gpupeak view` for a finished log: call tree, flame graph, table of sites and curve,
// each as a frame of text, and what keys do on each page. command_views.cc draws the frames.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collector/analyze/call_tree.h"
#include "collector/analyze/profile.h"
#include "collector/timeline/moment.h"
#include "collector/timeline/time_series.h"
#include "tools/top/screen.h"
#include "tools/top/text.h"

namespace gpupeak::tools {

class LogWalk {
 public:
  /// Replays the log. `scope`: as in Profile::scope(). Throws LogError and UsageError.
  LogWalk(const std::string& log, const std::string& scope, const collector::Progress& progress,
          const collector::Reading& reading);

  /// The current page as a frame of `rows` lines.
  TopLines text(size_t rows, const collector::TextStyle& style);
  TopFooter footer() const;
  /// Handles a key. Returns false if the view ends. Choosing a moment replays the log, which takes
  /// longer for a longer log.
  bool press(const TopInput& input, size_t rows);

 private:
  enum class Page { kTree, kFlame, kTable, kCurve };
  static constexpr size_t kPages = 4;
  struct TreeRow {
    uint32_t node;
    uint32_t indent;
  };
  struct Column {
    uint64_t bytes = 0;
    uint64_t event = collector::kNoEvent;
    int64_t time_ns = 0;
  };

  void hold_peak();
  void hold_moment(uint64_t event);
  void use(std::vector<collector::Contribution> held, uint64_t bytes, int64_t time_ns,
           std::string what);
  void choose_scope(size_t index);

  const std::string& title(uint32_t node);
  void list_tree();
  void list_tree(uint32_t node, uint32_t indent);
  void expand(uint32_t node);
  bool show_next_match();
  bool matches(const std::string& text) const;
  std::vector<size_t> table_rows() const;

  void add_heading(TopLines& lines, const collector::TextStyle& style);
  void add_tree(TopLines& lines, size_t rows, const collector::TextStyle& style);
  void add_flame(TopLines& lines, size_t rows, const collector::TextStyle& style);
  void add_table(TopLines& lines, size_t rows, const collector::TextStyle& style);
  void add_curve(TopLines& lines, size_t rows, const collector::TextStyle& style);
  void add_flame_cells(uint32_t node, size_t depth, size_t begin, size_t end,
                       std::vector<std::string>& rows);
  std::vector<Column> columns(size_t count) const;

  bool press_text(char key);
  void press_tree(TopKey key, size_t rows);
  void press_flame(TopKey key);
  void press_table(TopKey key, size_t rows);
  void press_curve(TopKey key);

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

}  // namespace gpupeak::tools
