#include "collector/timeline/held_calls.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "collector/analyze/call_tree.h"

namespace gpupeak::collector {

HeldCalls held_calls(Profile& profile, const std::map<GroupId, uint64_t>& largest, size_t most) {
  std::vector<Contribution> held;
  held.reserve(largest.size());
  for (const auto& [group, bytes] : largest) held.push_back({group, bytes, 1});
  const CallTree tree(profile, held, CallTree::Order::kFromOutermost);
  std::vector<uint64_t> sizes;
  for (uint32_t id = 1; id < tree.size(); ++id) sizes.push_back(tree.node(id).bytes);
  uint64_t smallest = 0;
  if (sizes.size() > most) {
    std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(most), sizes.end(),
                     std::greater<>());
    smallest = sizes[most] + 1;
  }
  HeldCalls found;
  found.calls.emplace_back();
  std::vector<uint32_t> place(tree.size());                 // by node: its call, or its caller's
  std::vector<std::pair<uint32_t, uint32_t>> open{{0, 0}};  // node, call
  while (!open.empty()) {
    const auto [node, call] = open.back();
    open.pop_back();
    place[node] = call;
    for (const uint32_t child : tree.node(node).children) {
      uint32_t at = call;
      if (tree.node(child).bytes >= smallest) {
        at = static_cast<uint32_t>(found.calls.size());
        found.calls.push_back({call, CallTree::title(tree.node(child)), tree.node(child).frame});
      }
      open.emplace_back(child, at);
    }
  }
  for (size_t i = 0; i < held.size(); ++i) found.ends.emplace(held[i].group, place[tree.ends()[i]]);
  return found;
}

}  // namespace gpupeak::collector
