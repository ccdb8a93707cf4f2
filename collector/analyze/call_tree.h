// Adds stacks up to a tree of calls, from the outermost or the innermost call on. The tree view,
// the flame graph and massif's format show it. Calls are told apart by function and line, so that
// the iterations of a loop are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

/// Calls with less than `min_percent` of the whole, or more than `depth` calls down, are not shown
/// one by one.
struct TreeCut {
  double min_percent = 1.0;
  uint32_t depth = 0;  ///< 0: all

  bool too_small(uint64_t bytes, uint64_t whole) const {
    return static_cast<double>(bytes) * 100.0 < min_percent * static_cast<double>(whole);
  }
  bool too_deep(uint32_t level) const { return depth > 0 && level >= depth; }
};

class CallTree {
 public:
  enum class Order { kFromOutermost, kFromInnermost };

  struct Node {
    const Frame* frame = nullptr;  ///< nullptr: the root, or a block without a stack
    std::string title;             ///< empty: the frame's own
    uint64_t bytes = 0;            ///< with all below it
    uint64_t count = 0;
    uint64_t own_bytes = 0;  ///< only of stacks that end here
    uint64_t own_count = 0;
    std::vector<uint32_t> children;  ///< most bytes first
  };

  /// `most_calls`: how many calls of a stack are taken, from the innermost on. What is beyond
  /// counts for the last of them.
  CallTree(Profile& profile, const std::vector<Contribution>& held, Order order,
           size_t most_calls = SIZE_MAX);

  const Node& root() const { return nodes_.front(); }
  const Node& node(uint32_t id) const { return nodes_[id]; }
  /// How many nodes, with the root.
  size_t size() const { return nodes_.size(); }
  /// How many bytes a call has at least to be one of the `most` largest; those alike are all or
  /// none.
  uint64_t least_of(size_t most) const;
  /// For each contribution, in order: the node where its stack ends.
  const std::vector<uint32_t>& ends() const { return ends_; }
  /// What is below a call: the calls that are shown, and the rest in one sum.
  struct Below {
    std::vector<const Node*> shown;
    uint64_t rest_bytes = 0, rest_count = 0, rest_calls = 0;
  };
  Below below(const Node& node, const TreeCut& cut, uint32_t level) const;
  /// The name and line to show. No two calls of one caller look alike.
  static std::string title(const Node& node);

 private:
  void tell_apart(const std::vector<uint32_t>& siblings);

  std::vector<Node> nodes_;
  std::vector<uint32_t> ends_;
};

}  // namespace gpupeak::collector
