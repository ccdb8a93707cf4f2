#include "collector/analyze/call_tree.h"

#include <algorithm>
#include <unordered_map>

namespace gpupeak::collector {
namespace {

constexpr uint32_t kNoFunction = UINT32_MAX;

}  // namespace
CallTree::CallTree(Profile& profile, const std::vector<Contribution>& held, Order order)
    : nodes_(1) {
  std::unordered_map<uint64_t, uint32_t> ids;  // parent and function → node
  for (const Contribution& part : held) {
    std::vector<Call> calls = profile.calls(profile.replay().sites().info(part.group).stack);
    if (calls.empty()) calls.push_back({nullptr, kNoFunction});
    if (order == Order::kFromOutermost) std::reverse(calls.begin(), calls.end());
    uint32_t at = 0;
    nodes_[at].bytes += part.bytes;
    nodes_[at].count += part.count;
    for (const Call& call : calls) {
      const uint64_t key = static_cast<uint64_t>(at) << 32 | call.function;
      const auto [entry, added] = ids.try_emplace(key, static_cast<uint32_t>(nodes_.size()));
      if (added) {
        nodes_[at].children.push_back(entry->second);
        nodes_.emplace_back().frame = call.frame;
      }
      at = entry->second;
      nodes_[at].bytes += part.bytes;
      nodes_[at].count += part.count;
    }
    nodes_[at].own_bytes += part.bytes;
    nodes_[at].own_count += part.count;
  }
  for (Node& node : nodes_) {
    std::stable_sort(node.children.begin(), node.children.end(),
                     [this](uint32_t a, uint32_t b) { return nodes_[a].bytes > nodes_[b].bytes; });
  }
}

std::string CallTree::title(const Node& node) {
  return node.frame == nullptr ? std::string(kNoStack) : title(*node.frame);
}

std::string CallTree::title(const Frame& frame) {
  return frame.is_python ? frame_name(frame) : frame_title(frame);
}

}  // namespace gpupeak::collector
