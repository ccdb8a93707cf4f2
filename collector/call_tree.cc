#include "collector/call_tree.h"

#include <algorithm>
#include <unordered_map>

namespace gpupeak::collector {
namespace {

constexpr uint32_t kNoFunction = UINT32_MAX;
/// Deeper than any recorded stack, inlined calls and all; a damaged log may hold longer ones.
constexpr size_t kMaxCalls = 4 * GPUPEAK_MAX_FRAMES;

struct Call {
  const Frame* frame;
  uint32_t function;
};

/// Innermost first, without our own hooks.
std::vector<Call> calls_of(Profile& profile, uint32_t stack) {
  const std::vector<StackNode>& nodes = profile.definitions().nodes();
  std::vector<Call> calls;
  for (uint32_t node = stack; node != 0 && calls.size() < kMaxCalls; node = nodes[node].parent) {
    const ResolvedAddress& resolved = profile.symbolizer().resolve(node);
    for (size_t i = 0; i < resolved.frames.size(); ++i) {
      if (calls.empty() && resolved.frames[i].module.starts_with(kOwnModule)) continue;
      calls.push_back({&resolved.frames[i], resolved.function_ids[i]});
    }
  }
  if (calls.empty()) calls.push_back({nullptr, kNoFunction});
  return calls;
}

}  // namespace

CallTree::CallTree(Profile& profile, const std::vector<Contribution>& held, Order order)
    : nodes_(1) {
  std::unordered_map<uint64_t, uint32_t> ids;  // parent and function → node
  for (const Contribution& part : held) {
    std::vector<Call> calls = calls_of(profile, profile.replay().sites().info(part.group).stack);
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
  return node.frame == nullptr ? std::string(kNoStack) : frame_title(*node.frame);
}

}  // namespace gpupeak::collector
