// Stacks added up from the outermost call inwards: what the tree, the flame graph and massif's
// format show. Functions are told apart by name, not by line, so that a loop's iterations meet.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

class CallTree {
 public:
  enum class Order { kFromOutermost, kFromInnermost };

  struct Node {
    const Frame* frame = nullptr;  ///< nullptr: the root, or a block without a stack
    uint64_t bytes = 0;            ///< with all that lies below
    uint64_t count = 0;
    uint64_t own_bytes = 0;  ///< of stacks that end here
    uint64_t own_count = 0;
    std::vector<uint32_t> children;  ///< most bytes first
  };

  CallTree(Profile& profile, const std::vector<Contribution>& held, Order order);

  const Node& root() const { return nodes_.front(); }
  const Node& node(uint32_t id) const { return nodes_[id]; }
  /// The name to show.
  static std::string title(const Node& node);
  static std::string title(const Frame& frame);

 private:
  std::vector<Node> nodes_;
};

}  // namespace gpupeak::collector
