#include "stack/stack.h"

#include <cerrno>

#include "log/log.h"
#include "log/thread_slot.h"
#include "stack/module_map.h"
#include "stack/trie.h"
#include "stack/unwinder.h"

namespace gpupeak::preload {
namespace {

/// trie_node() behind a small table of the thread's own: no shared cache line for what it met before.
uint32_t child(StackCache& cache, uint32_t parent, uintptr_t ip) {
  const uint64_t mixed = (ip ^ (static_cast<uint64_t>(parent) << 32)) * 0x9e3779b97f4a7c15u;
  StackCache::Edge& edge = cache.edges[(mixed >> 40) & (StackCache::kEdges - 1)];
  if (edge.ip != ip || edge.parent != parent || edge.node == 0) {
    edge = {ip, parent, trie_node(parent, ip)};
  }
  return edge.node;
}

/// The node of frames[first … count), innermost first. Stacks differ from the one before mostly in
/// their innermost frames: the outer ones need only be compared.
uint32_t node_of(StackCache& cache, void* const* frames, int first, int count) {
  const uint64_t generation = trie_generation();
  if (cache.trie_generation != generation) {
    cache.trie_generation = generation;
    cache.depth = 0;
    for (StackCache::Edge& edge : cache.edges) edge = {};
  }
  const auto depth = static_cast<uint32_t>(count - first);
  uint32_t same = 0;
  while (same < depth && same < cache.depth &&
         cache.ips[same] == reinterpret_cast<uintptr_t>(frames[count - 1 - static_cast<int>(same)])) {
    ++same;
  }
  uint32_t node = same > 0 ? cache.nodes[same - 1] : 0;
  for (uint32_t i = same; i < depth; ++i) {
    const auto ip = reinterpret_cast<uintptr_t>(frames[count - 1 - static_cast<int>(i)]);
    node = child(cache, node, ip);
    if (node == 0) {  // the trie is full
      cache.depth = i;
      return 0;
    }
    cache.ips[i] = ip;
    cache.nodes[i] = node;
  }
  cache.depth = depth;
  return node;
}

}  // namespace

uint32_t capture_stack(const void* caller) {
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return 0;
  StackCache& cache = slot->stacks;
  const int saved_errno = errno;
  constexpr int kCapacity = sizeof cache.frames / sizeof cache.frames[0];
  int count = unwind(cache.frames, kCapacity);
  errno = saved_errno;
  int first = 0;
  while (first < count && is_own_code(reinterpret_cast<uintptr_t>(cache.frames[first]))) ++first;
  if (first >= count) {  // no unwinder yet, or it could not leave our own code
    cache.frames[0] = const_cast<void*>(caller);
    first = 0;
    count = 1;
  } else if (count == kCapacity) {
    gpupeak::preload::count(&gpupeak_counters_page::truncated_stacks);
  }
  if (count - first > static_cast<int>(GPUPEAK_MAX_FRAMES)) count = first + GPUPEAK_MAX_FRAMES;
  return node_of(cache, cache.frames, first, count);
}

}  // namespace gpupeak::preload
