// A stack's path through the trie: from the root node by node, its outermost frame first.
// HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/in_order.h"
#include "stack/stack_cache.h"
#include "stack/trie.h"

namespace gpupeak::preload {

/// Keeps a node that was found or made in a small table of the thread's own.
inline uint32_t keep_edge(StackCache& cache, uint32_t parent, uintptr_t ip, uint64_t path,
                          uint32_t node) {
  StackCache::Edge& edge = cache.edges[(path >> 32) & (StackCache::kEdges - 1)];
  // A signal handler that leaves by a jump leaves no edge that is half another one.
  edge.node = 0;
  in_order();
  edge.ip = ip;
  edge.parent = parent;
  in_order();
  edge.node = node;
  return node;
}

/// find_node() behind that table: a node that the thread has met before needs no shared cache line.
inline __attribute__((always_inline)) uint32_t known_child(StackCache& cache, uint32_t parent,
                                                           uintptr_t ip, uint64_t path) {
  const StackCache::Edge& edge = cache.edges[(path >> 32) & (StackCache::kEdges - 1)];
  if (edge.ip == ip && edge.parent == parent && edge.node != 0) return edge.node;
  const uint32_t node = find_node(parent, ip, path);
  return node != 0 ? keep_edge(cache, parent, ip, path, node) : 0;
}

/// The same, but makes the node if there is none. 0 when full.
inline uint32_t child(StackCache& cache, uint32_t parent, uintptr_t ip, uint64_t path) {
  if (const uint32_t known = known_child(cache, parent, ip, path)) return known;
  cover_node(ip);
  return keep_edge(cache, parent, ip, path, NodeMaker().node(parent, ip, path));
}

/// A place in the trie, on the way from the outermost frame on.
struct TriePath {
  uint32_t node = 0;  ///< 0: at its root, or the trie is full
  uint64_t hash = 0;

  /// False if the trie is full.
  bool enter(StackCache& cache, uintptr_t ip) {
    hash = path_hash(hash, ip);
    node = child(cache, node, ip, hash);
    return node != 0;
  }
};

}  // namespace gpupeak::preload
