// Where a thread's Python frames stand among its native ones: each inside of the native frame that
// runs it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "stack/stack_cache.h"
#include "stack/trie.h"

namespace gpupeak::preload {

// A stack's path through the trie: from the root node by node, its outermost frame first.
// HOOK-SAFE, inside a HookScope.

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

// What a walk over the stack, or an unwinder, has found. HOOK-SAFE.

/// What a walk found: `fresh[0 … count)`, innermost first, on top of `last[0 … kept)`.
struct Walk {
  uint32_t count = 0;
  uint32_t kept = 0;
  bool complete = false;
  /// Where the return address 0 is that ended the walk; nullptr: a rule ended it.
  const uintptr_t* end = nullptr;
};

/// The part of StackCache::unwound that is the program's.
struct Unwound {
  int first = 0, count = 0;
  bool is_real = false;  ///< false: there is no unwinder yet, the caller alone stands for the stack
};

/// What capture() leaves in the cache.
struct Captured {
  Walk walked;
  Unwound unwound;
  bool is_walked = false;  ///< StackCache::last is the stack, else StackCache::unwound
};

/// `node` is a native stack that is known and unchanged. Returns its node with the Python frames
/// that it has now; 0 if their places are not known, so that the stack has to be captured.
uint32_t known_call_site(StackCache& cache, uint32_t node);
/// The node of the captured stack `node` with its Python frames; `node` itself if it has none.
uint32_t with_python_frames(StackCache& cache, const Captured& captured, uint32_t node);

}  // namespace gpupeak::preload
