#include "collector/analyze/call_tree.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "collector/replay/big_arrays.h"
#include "collector/summary/site_title.h"
#include "collector/text/function_names.h"

namespace gpupeak::collector {
namespace {

constexpr uint32_t kNoFunction = UINT32_MAX - 1;
/// From the innermost call on, stacks share little, and a small log's could take all memory. What
/// would be a new node then counts for the one above.
constexpr size_t kMostNodes = 1 << 22;

/// Finds nodes by caller and call. It has two small tables, since there may be millions of nodes.
class NodeIds {
 public:
  /// The node of this call of a caller. `added`: there is none yet, and the number must be set.
  uint32_t& claim(uint32_t caller, const Call& call, bool& added) {
    bool is_new;
    uint32_t& known = calls_.claim((uint64_t{call.function} + 1) << 32 | call.place, is_new);
    if (is_new) known = static_cast<uint32_t>(calls_.size());
    return nodes_.claim(uint64_t{known} << 32 | caller, added);
  }

 private:
  KeyTable calls_, nodes_;
};

/// The function's own name. Calls that differ in it do not look alike.
std::string_view own_name(const Frame& frame) {
  if (frame.is_python) return frame.function;
  std::string_view name = without_signature(frame.function);
  name = name.substr(0, name.find_first_of("<{("));
  const size_t scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope);
}

}  // namespace

CallTree::CallTree(Profile& profile, const std::vector<Contribution>& held, Order order,
                   size_t most_calls)
    : nodes_(1) {
  NodeIds ids;
  std::vector<Call> before;    // the last stack: most of it is in the next one, too
  std::vector<uint32_t> path;  // the nodes of `before`
  std::map<std::string, size_t> without_stack;
  for (const Contribution& part : held) {
    std::vector<Call> calls =
        profile.calls(profile.replay().sites().info(part.group).stack, most_calls);
    std::string unnamed;
    if (calls.empty()) {
      unnamed = title_without_stack(profile.replay(), part.group);
      const auto known = without_stack.try_emplace(unnamed, without_stack.size()).first;
      calls.push_back({nullptr, kNoFunction, static_cast<uint32_t>(known->second)});
    }
    if (order == Order::kFromOutermost) std::ranges::reverse(calls);
    const auto differs = std::mismatch(calls.begin(), calls.end(), before.begin(),
                                       before.begin() + static_cast<ptrdiff_t>(path.size()),
                                       [](const Call& a, const Call& b) {
                                         return a.function == b.function && a.place == b.place;
                                       });
    path.resize(static_cast<size_t>(differs.first - calls.begin()));
    uint32_t at = path.empty() ? 0 : path.back();
    for (size_t i = path.size(); i < calls.size() && nodes_.size() < kMostNodes; ++i) {
      const Call& call = calls[i];
      bool added;
      uint32_t& id = ids.claim(at, call, added);
      if (added) {
        id = static_cast<uint32_t>(nodes_.size());
        nodes_[at].children.push_back(id);
        nodes_.emplace_back().frame = call.frame;
        nodes_.back().title = unnamed;
      }
      path.push_back(at = id);
    }
    add_part(nodes_[0], part);
    for (const uint32_t node : path) add_part(nodes_[node], part);
    before = std::move(calls);
    ends_.push_back(at);
    nodes_[at].own_bytes += part.bytes;
    nodes_[at].own_count += part.count;
  }
  for (Node& node : nodes_) {
    tell_apart(node.children);
    std::ranges::stable_sort(node.children, std::greater(),
                             [this](uint32_t id) { return nodes_[id].bytes; });
  }
}

/// Gives siblings titles that differ. Shortening names takes a while, so only siblings with the
/// same own name are looked at.
void CallTree::tell_apart(const std::vector<uint32_t>& siblings) {
  if (siblings.size() < 2) return;
  std::unordered_map<std::string_view, std::vector<uint32_t>> by_name;
  for (const uint32_t id : siblings) {
    const Frame* frame = nodes_[id].frame;
    if (frame == nullptr || frame->function.empty()) continue;
    by_name[own_name(*frame)].push_back(id);
  }
  for (const auto& [name, alike] : by_name) {
    if (alike.size() < 2) continue;
    std::vector<std::string> titles =
        titles_apart(list_of(alike, [&](uint32_t id) { return nodes_[id].frame; }));
    for (size_t i = 0; i < alike.size(); ++i) nodes_[alike[i]].title = std::move(titles[i]);
  }
}

uint64_t CallTree::least_of(size_t most) const {
  std::vector<uint64_t> sizes = list_of(nodes_, &Node::bytes);  // the root's is no smaller
  if (sizes.size() <= most + 1) return 0;
  const auto last = sizes.begin() + static_cast<std::ptrdiff_t>(most + 1);
  std::ranges::nth_element(sizes, last, std::greater());
  return *last + 1;
}

CallTree::Below CallTree::below(const Node& call, const TreeCut& cut, uint32_t level) const {
  Below result;
  for (const uint32_t id : call.children) {
    const Node& child = node(id);
    if (!cut.too_deep(level) && !cut.too_small(child.bytes, root().bytes)) {
      result.shown.push_back(&child);
    } else {
      result.rest_bytes += child.bytes;
      result.rest_count += child.count;
      ++result.rest_calls;
    }
  }
  return result;
}

std::string CallTree::title(const Node& node) {
  return node.title.empty() ? frame_title(*node.frame) : node.title;
}

}  // namespace gpupeak::collector
