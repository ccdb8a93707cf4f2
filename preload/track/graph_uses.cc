#include "track/graph_uses.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "gpupeak/pages.h"
#include "track/device_book.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

/// CUDA_KERNEL_NODE_PARAMS of version 2. It begins with the fields of version 1.
struct KernelNode {
  const void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  const void* kernel;  ///< used if `function` is null
  CUcontext context;
};
/// CUDA_BATCH_MEM_OP_NODE_PARAMS, which older headers lack.
struct MemoryOperations {
  CUcontext context;
  unsigned count;
  const CUstreamBatchMemOpParams* list;
  unsigned flags;
};
/// CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, which older headers lack, too.
constexpr int kMemoryOperations = 12;
constexpr int kDeepest = 16;  // levels of graphs inside graphs

template <typename Answer>
using AskNode = DriverFunction<CUresult (*)(CUgraphNode, Answer*)>;

constinit DriverFunction<CUresult (*)(CUgraph, CUgraphNode*, size_t*)> g_nodes("cuGraphGetNodes");
constinit AskNode<CUgraphNodeType> g_type("cuGraphNodeGetType");
constinit AskNode<KernelNode> g_kernel("cuGraphKernelNodeGetParams_v2");
constinit AskNode<KernelNode> g_first_kernel("cuGraphKernelNodeGetParams");
constinit AskNode<CUDA_MEMCPY3D> g_copy("cuGraphMemcpyNodeGetParams");
constinit AskNode<CUDA_MEMSET_NODE_PARAMS> g_fill("cuGraphMemsetNodeGetParams");
constinit AskNode<MemoryOperations> g_operations("cuGraphBatchMemOpNodeGetParams");
constinit AskNode<CUgraph> g_child("cuGraphChildGraphNodeGetGraph");

struct TimesSeen {
  SeenWord seen;
  uint64_t times;
};

/// The words of an executable graph, node by node, in pages of their own.
struct Kept {
  /// kNoWord: the node has no word here any more; kUnread: something of the node is not known.
  SeenWord* words = nullptr;
  uint64_t* nodes = nullptr;  ///< the node of each word; 0: none any more
  TimesSeen* each = nullptr;  ///< equal words once, if `is_tidy`
  size_t count = 0, each_count = 0, capacity = 0;
  size_t next = 0;  ///< where to look first: nodes are mostly changed in their order here
  bool is_tidy = false;
  bool was_launched = false;  ///< since its words last changed
  bool has_unknown = false;   ///< it has nodes that are not known
  bool is_unread = false;     ///< if `was_launched`: something of a known node is not known
};
constexpr uint64_t kNoWord = 0, kUnread = 1;  // no block has these addresses
constinit FlatMap<Kept> g_kept;               // by exec; under the book's lock

/// The graphs inside a conditional node. The driver gives them only when the node is added.
struct Bodies {
  const CUgraph* graphs = nullptr;
  unsigned count = 0;
};
constinit FlatMap<Bodies> g_bodies;  // by node; under the book's lock

size_t bytes_of(size_t capacity) {
  return whole_pages(capacity * (sizeof(SeenWord) + sizeof(uint64_t) + sizeof(TimesSeen)));
}

bool make_room(Kept& kept, size_t more) {
  if (kept.count + more <= kept.capacity) return true;
  size_t capacity = kept.capacity == 0 ? kPageBytes / sizeof(uint64_t) : kept.capacity * 2;
  while (capacity < kept.count + more) capacity *= 2;
  auto* const words = static_cast<SeenWord*>(map_pages(bytes_of(capacity)));
  if (words == nullptr) return false;
  auto* const nodes = reinterpret_cast<uint64_t*>(words + capacity);
  if (kept.words != nullptr) {
    memcpy(words, kept.words, kept.count * sizeof(SeenWord));
    memcpy(nodes, kept.nodes, kept.count * sizeof(uint64_t));
    unmap_pages(kept.words, bytes_of(kept.capacity));
  }
  kept.words = words;
  kept.nodes = nodes;
  kept.each = reinterpret_cast<TimesSeen*>(nodes + capacity);
  kept.capacity = capacity;
  return true;
}

/// Calls `visit` under the book's lock.
template <typename Visit>
void in_book(Visit visit) {
  const InBook book;
  if (book) visit();
}
/// Calls `visit(kept)` with the words of `exec`, under the lock.
template <typename Visit>
void with_kept(CUgraphExec exec, Visit visit) {
  in_book([&] {
    if (Kept* const kept = g_kept.find(address_of(exec))) visit(*kept);
  });
}

/// Replaces the words of one node. The destructor clears old words that are left.
class Place : NoCopies {
 public:
  /// `is_new`: it has no words yet.
  Place(CUgraphExec exec, CUgraphNode node, bool is_new) : exec_(exec), node_(address_of(node)) {
    with_kept(exec_, [&](Kept& kept) { begin(kept, is_new); });
  }
  ~Place() {
    with_kept(exec_, [this](Kept& kept) {
      for (; left_ > 0; --left_) kept.words[at_++] = {kNoWord, 0};
      kept.next = at_;
    });
  }

  /// A SeenWords::Taker. Keeps the words that are addresses of blocks.
  static void take(void* place, const SeenWord* words, size_t count) {
    auto& it = *static_cast<Place*>(place);
    with_kept(it.exec_, [&](Kept& kept) {
      for (size_t i = 0; i < count; ++i) {
        SeenWord seen = words[i];
        if (!g_given_addresses.may_hold(seen.word)) continue;
        if (seen.way > UINT16_MAX && is_again(words, i)) seen.way |= kCountsNot;
        it.put(kept, seen);
      }
    });
  }
  void put_unread() {
    with_kept(exec_, [this](Kept& kept) { put(kept, {kUnread, 0}); });
  }

 private:
  /// Whether an earlier word is in the same block. A launch counts once for a block.
  static bool is_again(const SeenWord* words, size_t i) {
    const uint32_t block = block_at(words[i].word);
    return block != 0 && std::any_of(words, words + i, [block](const SeenWord& seen) {
             return block_at(seen.word) == block;
           });
  }
  void begin(Kept& kept, bool is_new) {
    kept.is_tidy = kept.was_launched = false;
    at_ = kept.count;
    if (is_new) return;
    for (size_t i = 0; i < kept.count; ++i) {
      const size_t place = (kept.next + i) % kept.count;
      if (kept.nodes[place] != node_) continue;
      at_ = place;
      while (at_ > 0 && kept.nodes[at_ - 1] == node_) --at_;
      while (at_ + left_ < kept.count && kept.nodes[at_ + left_] == node_) ++left_;
      return;
    }
  }
  void put(Kept& kept, SeenWord word) {
    if (left_ > 0) {
      kept.words[at_++] = word;
      --left_;
      ++put_;
      return;
    }
    if (!make_room(kept, put_ + 1)) {
      kept.has_unknown = true;
      return;
    }
    if (at_ != kept.count) {  // no room behind the node's words: they all move to the end
      for (size_t i = at_ - put_; i < at_; ++i) {
        kept.words[kept.count + i - (at_ - put_)] = kept.words[i];
        kept.nodes[kept.count + i - (at_ - put_)] = node_;
        kept.words[i] = {kNoWord, 0};
        kept.nodes[i] = 0;
      }
      kept.count += put_;
      at_ = kept.count;
    }
    kept.words[at_] = word;
    kept.nodes[at_++] = node_;
    ++kept.count;
    ++put_;
  }

  const CUgraphExec exec_;
  const uint64_t node_;
  size_t at_ = 0, left_ = 0;  ///< where the next word goes; how many old words are left from there
  size_t put_ = 0;            ///< new words so far
};

/// Collects the new words of one node of an executable graph, in place of its old ones.
class NodeWords {
 public:
  NodeWords(CUgraphExec exec, CUgraphNode node, bool is_new = false)
      : place_(exec, node, is_new), seen_(Place::take, &place_) {}
  SeenWords& seen() { return seen_; }
  /// Something of the node is not known.
  void are_not_all() { place_.put_unread(); }

 private:
  Place place_;
  SeenWords seen_;  // destroyed before place_, to which it hands its words then
};

/// Fills `each` with each word once.
void tidy(Kept& kept) {
  kept.is_tidy = true;
  kept.each_count = 0;
  for (size_t i = 0; i < kept.count; ++i) kept.each[i] = {kept.words[i], 1};
  const auto key = [](const TimesSeen& each) { return std::pair(each.seen.word, each.seen.way); };
  std::sort(kept.each, kept.each + kept.count,
            [&](const TimesSeen& a, const TimesSeen& b) { return key(a) < key(b); });
  for (size_t i = 0; i < kept.count; ++i) {
    if (kept.each_count > 0 && key(kept.each[kept.each_count - 1]) == key(kept.each[i]))
      ++kept.each[kept.each_count - 1].times;
    else
      kept.each[kept.each_count++] = kept.each[i];
  }
}

void look_at_kernel(const KernelNode& node, NodeWords& words) {
  const void* const function = node.function != nullptr ? node.function : node.kernel;
  const bool is_known =
      look_at_parameters(function, node.parameters, node.extra, words.seen(), false) ||
      ask_and_look_at_parameters(function, node.parameters, node.extra, words.seen(), nullptr);
  if (!is_known) words.are_not_all();
}

/// Calls `visit(node)` for each node of the graph. False: they are not known.
template <typename Visit>
bool for_each_node(CUgraph graph, Visit visit) {
  size_t count = 0;
  if (g_nodes(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  if (count == 0) return true;
  const size_t bytes = whole_pages(count * sizeof(CUgraphNode));
  auto* const nodes = static_cast<CUgraphNode*>(map_pages(bytes));
  if (nodes == nullptr) return false;
  const bool is_known = g_nodes(graph, nodes, &count) == CUDA_SUCCESS;
  for (size_t i = 0; is_known && i < count; ++i) visit(nodes[i]);
  unmap_pages(nodes, bytes);
  return is_known;
}

/// Calls `visit(graph)` for the graphs inside the node. False: they are not known.
template <typename Visit>
bool for_each_inner(CUgraphNode node, CUgraphNodeType type, Visit visit) {
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (g_child(node, &child) != CUDA_SUCCESS) return false;
    visit(child);
    return true;
  }
  Bodies bodies;
  in_book([&] {
    if (const Bodies* const known = g_bodies.find(address_of(node))) bodies = *known;
  });
  for (unsigned i = 0; i < bodies.count; ++i) visit(bodies.graphs[i]);
  return bodies.count > 0;
}

/// Whether nodes of this type use no block: host functions, events, semaphores, and memory that the
/// graph itself takes or gives back.
bool uses_no_block(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_HOST ||
         (type > CU_GRAPH_NODE_TYPE_GRAPH && static_cast<int>(type) < kMemoryOperations);
}

/// Arrays have no address by which the graph's launches could find them again.
void look_at(const CUDA_MEMCPY3D& copy, SeenWords& seen) {
  look_at_copy_of(seen, copy, [](CUarray, gpupeak_role) {});
}
void look_at(const CUDA_MEMSET_NODE_PARAMS& fill, SeenWords& seen) {
  seen.look_at(fill.dst, GPUPEAK_ROLE_FILLED);
}

void look_at_node(CUgraphNode node, CUgraphNodeType type, NodeWords& words) {
  bool is_known = uses_no_block(type);
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    KernelNode kernel{};
    auto& ask = g_kernel.exists() ? g_kernel : g_first_kernel;
    is_known = ask(node, &kernel) == CUDA_SUCCESS;
    if (is_known) look_at_kernel(kernel, words);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D copy{};
    is_known = g_copy(node, &copy) == CUDA_SUCCESS;
    look_at(copy, words.seen());
  } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS fill{};
    is_known = g_fill(node, &fill) == CUDA_SUCCESS;
    look_at(fill, words.seen());
  } else if (static_cast<int>(type) == kMemoryOperations) {
    MemoryOperations operations{};
    is_known = g_operations(node, &operations) == CUDA_SUCCESS;
    words.seen().look_at_all(operations.list, operations.count * sizeof *operations.list, 0);
  }
  if (!is_known) words.are_not_all();
}

/// Calls `visit(node, type)` for the graph's nodes and for the nodes of the graphs inside it. Calls
/// `lost()` if there are nodes that are not known.
template <typename Visit, typename Lost>
void for_all_nodes(CUgraph graph, int depth, Visit visit, Lost lost) {
  const bool are_known =
      depth <= kDeepest && for_each_node(graph, [&](CUgraphNode node) {
        CUgraphNodeType type{};
        if (g_type(node, &type) != CUDA_SUCCESS) return lost();
        if (type != CU_GRAPH_NODE_TYPE_GRAPH && static_cast<int>(type) != kConditionalNode)
          return visit(node, type);
        const auto look = [&](CUgraph inner) { for_all_nodes(inner, depth + 1, visit, lost); };
        if (!for_each_inner(node, type, look)) lost();
      });
  if (!are_known) lost();
}

}  // namespace

void graph_was_made(CUgraphExec exec, CUgraph graph) {
  in_book([&] {
    const Kept* const before = g_kept.find(address_of(exec));
    Kept fresh;
    if (before != nullptr) {
      fresh = *before;
      fresh.count = fresh.next = 0;
      fresh.is_tidy = fresh.was_launched = fresh.has_unknown = false;
    }
    g_kept.insert(address_of(exec), fresh);
  });
  const KeptErrno program_errno;
  for_all_nodes(
      graph, 0,
      [&](CUgraphNode node, CUgraphNodeType type) {
        NodeWords words(exec, node, true);
        look_at_node(node, type, words);
      },
      [&] { with_kept(exec, [](Kept& kept) { kept.has_unknown = true; }); });
}

void graph_node_changed(CUgraphExec exec, CUgraphNode node, const void* at, size_t bytes) {
  NodeWords words(exec, node);
  words.seen().look_at_all(at, bytes, 0);
}
void graph_copy_changed(CUgraphExec exec, CUgraphNode node, const void* copy) {
  NodeWords words(exec, node);
  look_at(*static_cast<const CUDA_MEMCPY3D*>(copy), words.seen());
}
void graph_fill_changed(CUgraphExec exec, CUgraphNode node, const void* fill) {
  NodeWords words(exec, node);
  look_at(*static_cast<const CUDA_MEMSET_NODE_PARAMS*>(fill), words.seen());
}

void graph_kernel_node_changed(CUgraphExec exec, CUgraphNode node, const void* parameters,
                               bool has_kernel) {
  KernelNode kernel{};
  memcpy(&kernel, parameters, has_kernel ? sizeof kernel : offsetof(KernelNode, kernel));
  const KeptErrno program_errno;
  NodeWords words(exec, node);
  look_at_kernel(kernel, words);
}

void graph_child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  const KeptErrno program_errno;
  // The nodes of the old inner graph lose their words.
  CUgraph before = nullptr;
  if (g_child(node, &before) == CUDA_SUCCESS) {
    const auto forget = [&](CUgraphNode inner, CUgraphNodeType) { NodeWords(exec, inner); };
    for_all_nodes(before, 0, forget, [] {});
  }
  NodeWords words(exec, node);
  for_all_nodes(
      child, 0, [&](CUgraphNode inner, CUgraphNodeType type) { look_at_node(inner, type, words); },
      [&] { words.are_not_all(); });
}

void conditional_node_added(CUgraphNode node, const void* parameters) {
  // CUDA_CONDITIONAL_NODE_PARAMS, which headers before CUDA 12.3 lack.
  struct {
    uint64_t handle;
    int type;
    unsigned count;
    const CUgraph* graphs;
  } added;
  memcpy(&added, parameters, sizeof added);
  in_book([&] { g_bodies.insert(address_of(node), {added.graphs, added.count}); });
}

void graph_was_launched(CUgraphExec exec, CUstream stream) {
  bool is_unread = true;
  with_kept(exec, [&](Kept& kept) {
    const uint64_t now = ticks();
    // It does not pay to tidy the words if nodes are changed before each launch.
    if (kept.was_launched) {
      if (!watches_all_uses() && g_launch_budget.leaves_out()) return;
      if (!kept.is_tidy) tidy(kept);
      for (size_t i = 0; i < kept.each_count; ++i)
        use_in_book(stream, now, kept.each[i].seen, kept.each[i].times);
    } else {
      kept.is_unread = false;
      kept.was_launched = true;
      for (size_t i = 0; i < kept.count; ++i) {
        kept.is_unread |= kept.words[i].word == kUnread;
        use_in_book(stream, now, kept.words[i], 1);
      }
    }
    is_unread = kept.has_unknown || kept.is_unread;
  });
  if (is_unread) note_unread_launch();
}

void graph_is_gone(CUgraphExec exec) {
  with_kept(exec, [](Kept& kept) {
    if (kept.words != nullptr) unmap_pages(kept.words, bytes_of(kept.capacity));
    g_kept.erase(&kept);
  });
}

void forget_graph_uses() {
  g_kept.forget();
  g_bodies.forget();
}

}  // namespace gpupeak::preload
