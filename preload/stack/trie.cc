#include "stack/trie.h"

#include "base/memory.h"
#include "base/signals_held.h"
#include "log/log.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kDead = UINT32_MAX;
constexpr uint32_t kFirstBuckets = 4096;
constexpr uint32_t kFewNodes = 1 << 18;  ///< there are addresses for as many if addresses are few

struct Node {
  uintptr_t ip;
  uint32_t parent;
  /// The next node in its bucket. Its id is always smaller, so that a walk ends whatever happens
  /// meanwhile.
  uint32_t next;
};

/// Reserves addresses for many nodes, and pages only for those in use. Nodes and buckets never
/// move.
struct Trie {
  Node* nodes = nullptr;
  uint32_t* buckets = nullptr;
  uint32_t capacity = 0;
  uint32_t mask = 0;   ///< buckets in use - 1; grows by doubling within the reservation
  uint32_t count = 0;  ///< nodes; ids 1 … count
  uintptr_t last_ip = 0;
  uint32_t pending = 0;  ///< a node that is being inserted; stays if a jump leaves the insertion
  uint64_t pending_path = 0;
  uint64_t defined_before = 0;
};
constinit Trie g_trie;

/// Null: there are none yet. Whoever has got them sees the rest of what reserve() has set.
uint32_t* known_buckets() {
  return std::atomic_ref<uint32_t*>(g_trie.buckets).load(std::memory_order_acquire);
}
uint32_t bucket_mask() {
  return std::atomic_ref<uint32_t>(g_trie.mask).load(std::memory_order_acquire);
}
std::atomic_ref<uint32_t> bucket_of(uint64_t path) {
  return std::atomic_ref<uint32_t>(g_trie.buckets[path & bucket_mask()]);
}

void link(uint32_t id, uint64_t path) {
  Node& node = g_trie.nodes[id];
  const std::atomic_ref<uint32_t> bucket = bucket_of(path);
  std::atomic_ref<uint32_t>(node.next).store(bucket.load(std::memory_order_relaxed),
                                             std::memory_order_release);
  bucket.store(id, std::memory_order_release);
}

/// Makes room for `buckets` buckets and twice as many nodes, which is more than there will be
/// before the next doubling.
bool commit(void* nodes, void* bucket_array, uint32_t buckets) {
  return commit_pages(bucket_array, buckets * sizeof(uint32_t)) &&
         commit_pages(nodes, size_t{buckets} * 2 * sizeof(Node));
}

/// The caller holds the definitions' lock. A reader may miss a node meanwhile; then it looks again
/// under the lock. False if there is no more room.
bool double_buckets() {
  const uint32_t mask = g_trie.mask * 2 + 1;
  if (mask >= g_trie.capacity / 2 || !commit(g_trie.nodes, g_trie.buckets, mask + 1)) return false;
  const SignalsHeld held;  // else a jump might leave nodes that are in no bucket
  const size_t paths_bytes = (size_t{g_trie.count} + 1) * sizeof(uint64_t);
  auto* paths = static_cast<uint64_t*>(reserve_pages(paths_bytes));
  if (paths == nullptr) return false;
  for (uint32_t i = 0; i <= mask; ++i)
    std::atomic_ref<uint32_t>(g_trie.buckets[i]).store(0, std::memory_order_relaxed);
  std::atomic_ref<uint32_t>(g_trie.mask).store(mask, std::memory_order_release);
  for (uint32_t id = 1; id <= g_trie.count; ++id) {
    const Node& node = g_trie.nodes[id];
    const bool alive = node.parent == 0 || (node.parent != kDead && paths[node.parent] != 0);
    if (!alive) continue;  // nothing leads to it any more
    paths[id] = path_hash(paths[node.parent], node.ip);
    link(id, paths[id]);
  }
  unmap_pages(paths, paths_bytes);
  return true;
}

bool reserve() {
  for (uint32_t capacity = addresses_are_limited() ? kFewNodes : 1u << 26; capacity >= 1u << 16;
       capacity >>= 2) {
    const size_t node_bytes = capacity * sizeof(Node);
    void* nodes = reserve_addresses(node_bytes);
    void* buckets = nodes != nullptr ? reserve_addresses(capacity * sizeof(uint32_t)) : nullptr;
    if (buckets != nullptr && commit(nodes, buckets, kFirstBuckets)) {
      g_trie.capacity = capacity;
      g_trie.mask = kFirstBuckets - 1;
      g_trie.nodes = static_cast<Node*>(nodes);
      std::atomic_ref<uint32_t*>(g_trie.buckets)
          .store(static_cast<uint32_t*>(buckets), std::memory_order_release);
      return true;
    }
    if (nodes != nullptr) unmap_pages(nodes, node_bytes);
  }
  return false;
}

/// What remains to be done once a node has been defined.
void complete(uint32_t id, uint64_t path) {
  Node& node = g_trie.nodes[id];
  g_trie.count = id;
  g_trie.last_ip = node.ip;
  in_order();
  if (find_node(node.parent, node.ip, path) == 0) link(id, path);
  in_order();
  g_trie.pending = 0;
}

/// A signal handler's jump may have left an insertion: then the log has the node, or not.
void complete_what_was_left() {
  if (__builtin_expect(g_trie.pending == 0, 1)) return;
  if (defined_nodes_locked() != g_trie.defined_before)
    complete(g_trie.pending, g_trie.pending_path);
  g_trie.pending = 0;
}

}  // namespace

GPUPEAK_HOT_DATA constinit std::atomic<uint64_t> g_trie_generation{1};
constinit std::atomic<bool> g_guessing{false};

void prefetch_trie(const uint64_t* paths, uint32_t count) {
  const uint32_t* const buckets = known_buckets();
  if (buckets == nullptr) return;
  const uint32_t mask = bucket_mask();
  for (uint32_t i = 0; i < count; ++i) __builtin_prefetch(&buckets[paths[i] & mask]);
  for (uint32_t i = 0; i < count; ++i)
    __builtin_prefetch(&g_trie.nodes[__atomic_load_n(&buckets[paths[i] & mask], __ATOMIC_RELAXED)]);
}

uint32_t find_node(uint32_t parent, uintptr_t ip, uint64_t path) {
  if (known_buckets() == nullptr) return 0;
  uint32_t id = bucket_of(path).load(std::memory_order_acquire);
  while (id != 0) {
    const Node& node = g_trie.nodes[id];
    if (node.ip == ip && node.parent == parent) return id;
    id =
        std::atomic_ref<uint32_t>(const_cast<uint32_t&>(node.next)).load(std::memory_order_acquire);
  }
  return 0;
}

void cover_node(uintptr_t ip) {
  if ((ip & GPUPEAK_PYTHON_IP) == 0) cover_with_modules(ip);
}

NodeMaker::NodeMaker() : guard_(definitions_lock()) {}

uint32_t NodeMaker::node(uint32_t parent, uintptr_t ip, uint64_t path) {
  if (g_trie.buckets == nullptr && !reserve()) return 0;
  complete_what_was_left();
  if (const uint32_t id = find_node(parent, ip, path)) return id;
  if (g_trie.count > g_trie.mask && !double_buckets()) {
    set_quality(GPUPEAK_Q_TRIE_FULL);
    return 0;
  }
  const uint32_t id = g_trie.count + 1;
  Node& node = g_trie.nodes[id];
  node.parent = parent;
  node.ip = ip;
  g_trie.pending_path = path;
  g_trie.defined_before = defined_nodes_locked();
  in_order();
  g_trie.pending = id;
  in_order();
  define_node_locked(id - parent, static_cast<int64_t>(ip - g_trie.last_ip));
  complete(id, path);
  return id;
}

void forget_nodes(uintptr_t begin, uintptr_t end) {
  LockGuard guard(definitions_lock());
  for (uint32_t id = 1; id <= g_trie.count; ++id) {
    Node& node = g_trie.nodes[id];
    if (node.ip - begin < end - begin) node.parent = kDead;
  }
  drop_cached_stacks();
}

void drop_cached_stacks() {
  g_trie_generation.fetch_add(1, std::memory_order_release);
}

void give_back_spare_nodes() {
  if (g_trie.buckets == nullptr) return;
  const uint32_t committed = (bucket_mask() + 1) * 2;
  const uint32_t kept = committed * 2 > kFewNodes ? committed * 2 : kFewNodes;
  std::atomic_ref<uint32_t> capacity(g_trie.capacity);
  uint32_t before = capacity.load();
  do {
    if (before <= kept) return;
  } while (!capacity.compare_exchange_weak(before, kept));
  unmap_pages(g_trie.nodes + kept, (size_t{before} - kept) * sizeof(Node));
  unmap_pages(g_trie.buckets + kept, (size_t{before} - kept) * sizeof(uint32_t));
}

void redefine_nodes() {
  LockGuard guard(definitions_lock());
  g_trie.pending = 0;  // the new log does not have it
  uintptr_t last_ip = 0;
  for (uint32_t id = 1; id <= g_trie.count; ++id) {
    const Node& node = g_trie.nodes[id];
    const uint32_t parent = node.parent == kDead ? 0 : node.parent;
    define_node_locked(id - parent, static_cast<int64_t>(node.ip - last_ip));
    last_ip = node.ip;
  }
  g_trie.last_ip = last_ip;
}

}  // namespace gpupeak::preload
