#include "track/graph_uses.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/flat_map.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "gpupeak/pages.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/last_use.h"
#include "track/launch_parameters.h"

namespace gpupeak::preload {
namespace {

/// CUDA_KERNEL_NODE_PARAMS of version 2, whose beginning is version 1's.
struct KernelNode {
  const void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  const void* kernel;  ///< if there is no function
  CUcontext context;
};
/// CUDA_BATCH_MEM_OP_NODE_PARAMS, which older headers lack.
struct MemoryOperations {
  CUcontext context;
  unsigned count;
  const CUstreamBatchMemOpParams* list;
  unsigned flags;
};
constexpr int kMemoryOperations = 12;  // CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, likewise
constexpr int kDeepest = 16;           // graphs inside of graphs

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

/// Words of one executable graph, in pages of their own.
struct Kept {
  uint64_t* words = nullptr;
  size_t count = 0, capacity = 0;
};
constinit FlatMap<Kept> g_kept;  // under the book's lock

size_t bytes_of(size_t capacity) {
  return whole_pages(capacity * sizeof(uint64_t));
}
uint64_t key_of(const void* exec) {
  return reinterpret_cast<uint64_t>(exec);
}

bool make_room(Kept& kept, size_t more) {
  if (kept.count + more <= kept.capacity) return true;
  size_t capacity = kept.capacity == 0 ? kPageBytes / sizeof(uint64_t) : kept.capacity * 2;
  while (capacity < kept.count + more) capacity *= 2;
  auto* const words = static_cast<uint64_t*>(map_pages(bytes_of(capacity)));
  if (words == nullptr) return false;
  if (kept.words != nullptr) {
    memcpy(words, kept.words, kept.count * sizeof(uint64_t));
    unmap_pages(kept.words, bytes_of(kept.capacity));
  }
  kept.words = words;
  kept.capacity = capacity;
  return true;
}

/// SeenWords' taker: those that are addresses of blocks belong to `exec`, too.
void keep(void* exec, const uint64_t* words, size_t count) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  Kept* kept = g_kept.find(key_of(exec));
  if (kept == nullptr) {
    if (!g_kept.insert(key_of(exec), {})) return;
    kept = g_kept.find(key_of(exec));
  }
  if (!make_room(*kept, count)) return;
  for (size_t i = 0; i < count; ++i) {
    if (g_given_addresses.may_hold(words[i])) kept->words[kept->count++] = words[i];
  }
}

/// Calls `visit(kept)` with what is kept of `exec`, under the lock.
template <typename Visit>
void with_kept(CUgraphExec exec, Visit visit) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  if (Kept* const kept = g_kept.find(key_of(exec))) visit(*kept);
}

/// Each word once.
void tidy(CUgraphExec exec) {
  with_kept(exec, [](Kept& kept) {
    std::sort(kept.words, kept.words + kept.count);
    kept.count = static_cast<size_t>(std::unique(kept.words, kept.words + kept.count) - kept.words);
  });
}

void look_at_kernel(const KernelNode& node, SeenWords& seen) {
  const void* const function = node.function != nullptr ? node.function : node.kernel;
  if (!look_at_parameters(function, node.parameters, node.extra, seen))
    ask_and_look_at_parameters(function, node.parameters, node.extra, seen);
}

void look_at_graph(CUgraph graph, int depth, SeenWords& seen);

void look_at_node(CUgraphNode node, int depth, SeenWords& seen) {
  CUgraphNodeType type{};
  if (g_type(node, &type) != CUDA_SUCCESS) return;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    KernelNode kernel{};
    auto& ask = g_kernel.exists() ? g_kernel : g_first_kernel;
    if (ask(node, &kernel) == CUDA_SUCCESS) look_at_kernel(kernel, seen);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D copy{};
    if (g_copy(node, &copy) == CUDA_SUCCESS) seen.look_at_all(&copy, sizeof copy);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS fill{};
    if (g_fill(node, &fill) == CUDA_SUCCESS) seen.look_at_all(&fill, sizeof fill);
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (g_child(node, &child) == CUDA_SUCCESS) look_at_graph(child, depth + 1, seen);
  } else if (static_cast<int>(type) == kMemoryOperations) {
    MemoryOperations operations{};
    if (g_operations(node, &operations) == CUDA_SUCCESS)
      seen.look_at_all(operations.list, operations.count * sizeof *operations.list);
  }
}

void look_at_graph(CUgraph graph, int depth, SeenWords& seen) {
  size_t count = 0;
  if (depth > kDeepest || g_nodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return;
  const size_t bytes = whole_pages(count * sizeof(CUgraphNode));
  auto* const nodes = static_cast<CUgraphNode*>(map_pages(bytes));
  if (nodes == nullptr) return;
  if (g_nodes(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; ++i) look_at_node(nodes[i], depth, seen);
  }
  unmap_pages(nodes, bytes);
}

/// The driver is asked, whose errno is not the program's.
template <typename Look>
void add_words(CUgraphExec exec, Look look) {
  const int program_errno = errno;
  {
    SeenWords seen(keep, exec);
    look(seen);
  }
  tidy(exec);
  errno = program_errno;
}

}  // namespace

void graph_was_made(CUgraphExec exec, CUgraph graph) {
  add_words(exec, [&](SeenWords& seen) { look_at_graph(graph, 0, seen); });
}

void graph_node_changed(CUgraphExec exec, const void* at, size_t bytes) {
  add_words(exec, [&](SeenWords& seen) { seen.look_at_all(at, bytes); });
}

void graph_kernel_node_changed(CUgraphExec exec, const void* parameters) {
  KernelNode node{};
  memcpy(&node, parameters, offsetof(KernelNode, kernel));  // all that version 1 has
  add_words(exec, [&](SeenWords& seen) { look_at_kernel(node, seen); });
}

void graph_was_launched(CUgraphExec exec, CUstream stream) {
  with_kept(exec, [&](const Kept& kept) { use_in_book(stream, kept.words, kept.count); });
}

void graph_is_gone(CUgraphExec exec) {
  with_kept(exec, [](Kept& kept) {
    if (kept.words != nullptr) unmap_pages(kept.words, bytes_of(kept.capacity));
    g_kept.erase(&kept);
  });
}

void forget_graph_uses() {
  g_kept.forget();
}

}  // namespace gpupeak::preload
