// The trie of all stacks: a node is a return address below its caller's node. Lock-free to look up;
// inserting takes the definitions' lock, since an id is a place in that stream. HOOK-SAFE, inside a
// HookScope.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/lock.h"

namespace gpupeak::preload {

/// A hash of all return addresses of a stack, outermost first: path_hash(path_hash(0, a), b) is
/// that of b called from a. It needs addresses alone, so that all nodes of a stack can be looked
/// for at once.
inline uint64_t path_hash(uint64_t caller, uintptr_t ip) {
  const uint64_t mixed = (caller ^ ip) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 32;
}
/// Call it some time before find_node() is called for each path.
void prefetch_trie(const uint64_t* paths, uint32_t count);
/// The node for `ip` called from `parent` (0: outermost); 0: there is none yet. `path`: of the
/// stack up to and with `ip`.
uint32_t find_node(uint32_t parent, uintptr_t ip, uint64_t path);
/// Call it before a node for `ip` is made: puts the module of `ip` into the log. May call into the
/// loader.
void cover_node(uintptr_t ip);
/// Makes nodes. Use one NodeMaker for all new frames of a stack: its lock costs two system calls.
class NodeMaker {
 public:
  NodeMaker();
  /// As find_node(), but makes the node if there is none; 0 when full. Call cover_node(ip) before.
  uint32_t node(uint32_t parent, uintptr_t ip, uint64_t path);

 private:
  const LockGuard guard_;
};
/// Changes whenever nodes have become invalid: caches of ids made before must be dropped.
extern constinit GPUPEAK_OWN std::atomic<uint64_t> g_trie_generation;
/// Set once a thread has followed a FrameRule::kGuessed.
extern constinit std::atomic<bool> g_guessing;
inline uint64_t trie_generation() {
  return g_trie_generation.load(std::memory_order_acquire);
}
/// Makes all threads drop what they remember of stacks and of code.
void drop_cached_stacks();
/// Code in [begin, end) was unloaded: its nodes are not used again, though they keep their meaning.
void forget_nodes(uintptr_t begin, uintptr_t end);
/// Gives spare addresses back. Keeps enough for one doubling of the present nodes, and at least as
/// many as are reserved where addresses are few. The caller holds the definitions' lock, unless
/// this process does not record.
void give_back_spare_nodes();
/// In the new log of a forked child, or of a program that is attached to again: defines all nodes
/// again, under their old ids.
void redefine_nodes();

}  // namespace gpupeak::preload
