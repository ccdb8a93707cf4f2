// Stacks added up from the outermost call inwards: what the tree, the flame graph and massif's
// format show. Calls are told apart by function and line, so that a loop's iterations meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

class CallTree {
 public:
  enum class Order { kFromOutermost, kFromInnermost };

  struct Node {
    const Frame* frame = nullptr;  ///< nullptr: the root, or a block without a stack
    std::string title;             ///< empty: the frame's own
    uint64_t bytes = 0;            ///< with all that lies below
    uint64_t count = 0;
    uint64_t own_bytes = 0;  ///< of stacks that end here
    uint64_t own_count = 0;
    std::vector<uint32_t> children;  ///< most bytes first
  };

  /// `most_calls`: of a stack, innermost first; what lies beyond stays with the last.
  CallTree(Profile& profile, const std::vector<Contribution>& held, Order order,
           size_t most_calls = SIZE_MAX);

  const Node& root() const { return nodes_.front(); }
  const Node& node(uint32_t id) const { return nodes_[id]; }
  /// Nodes, with the root.
  size_t size() const { return nodes_.size(); }
  /// Of each of what was held, in order: the node where its stack ends.
  const std::vector<uint32_t>& ends() const { return ends_; }
  /// The name and line to show; no two calls of one caller look alike.
  static std::string title(const Node& node);

 private:
  void tell_apart(const std::vector<uint32_t>& siblings);

  std::vector<Node> nodes_;
  std::vector<uint32_t> ends_;
};

}  // namespace gpupeak::collector
