// Which blocks executable graphs use. The launch of a graph does not have its kernels' arguments.
// So the words of its nodes' parameters are kept when the graph is made executable. The driver is
// asked for each node's parameters, so captured and explicit nodes are alike. HOOK-SAFE, outside
// any HookScope, inside a DriverScope.
//
//   cuGraphInstantiate(graph)          keeps the words of its nodes that are addresses of blocks
//   cuGraphExecKernelNodeSetParams …   replaces that node's words
//   cuGraphLaunch(exec)                the blocks that lie at these addresses now are used now
//
// If something of a graph is not known, its launch counts as one whose parameters were not read.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "track/last_use.h"

namespace gpupeak::preload {

// The two ends of a copy, and what role a copy gives the blocks there. HOOK-SAFE, inside a
// DriverScope.
//
//   cuMemcpyHtoD(to, host)     to: copied_in
//   cuMemcpy(to, from)         each by where the other lies: the driver is asked if no block is
//   there

struct CopyEnd {
  enum class In : uint8_t { kHost, kDevice, kEither, kArray } in;
  uint64_t at;  ///< an address, or the array's handle
};

/// Where addresses of type CUdeviceptr lie, for the rows of copies in cuda_uses.def.
constexpr auto kOfDevice = CopyEnd::In::kDevice, kOfEither = CopyEnd::In::kEither;

inline bool is_host(const CopyEnd& end) {
  return end.in == CopyEnd::In::kHost || (end.in == CopyEnd::In::kEither && !is_on_device(end.at));
}

/// Looks at both ends. `on_array(array, role)` is called for an end that is an array.
template <typename OnArray>
void look_at_copy(SeenWords& seen, const CopyEnd& to, const CopyEnd& from, OnArray on_array) {
  const auto look = [&](const CopyEnd& end, gpupeak_role role) {
    if (end.in == CopyEnd::In::kArray)
      on_array(reinterpret_cast<CUarray>(end.at), role);
    else
      seen.look_at(end.at, role);
  };
  look(to, is_host(from) ? GPUPEAK_ROLE_COPIED_IN : GPUPEAK_ROLE_COPIED_TO);
  look(from, is_host(to) ? GPUPEAK_ROLE_COPIED_OUT : GPUPEAK_ROLE_COPIED_FROM);
}

inline CopyEnd copy_end(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  using In = CopyEnd::In;
  if (type == CU_MEMORYTYPE_ARRAY) return {In::kArray, reinterpret_cast<uint64_t>(array)};
  if (type == CU_MEMORYTYPE_HOST) return {In::kHost, reinterpret_cast<uint64_t>(host)};
  return {type == CU_MEMORYTYPE_DEVICE ? In::kDevice : In::kEither, device};
}

/// The same for a structure such as CUDA_MEMCPY3D.
template <typename Structure, typename OnArray>
void look_at_copy_of(SeenWords& seen, const Structure& copy, OnArray on_array) {
  look_at_copy(seen, copy_end(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray),
               copy_end(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray), on_array);
}

/// CU_GRAPH_NODE_TYPE_CONDITIONAL, which older headers lack.
constexpr int kConditionalNode = 13;

/// `exec` was made of `graph`, or was updated to its nodes' parameters.
void graph_was_made(CUgraphExec exec, CUgraph graph);
/// A node of `exec` has new parameters: the `bytes` at `at`, of which words may be addresses.
void graph_node_changed(CUgraphExec exec, CUgraphNode node, const void* at, size_t bytes);
/// The same for a node that copies (CUDA_MEMCPY3D) or fills (CUDA_MEMSET_NODE_PARAMS).
void graph_copy_changed(CUgraphExec exec, CUgraphNode node, const void* copy);
void graph_fill_changed(CUgraphExec exec, CUgraphNode node, const void* fill);
/// The same for a kernel node. `parameters`: CUDA_KERNEL_NODE_PARAMS; `has_kernel`: of version 2.
void graph_kernel_node_changed(CUgraphExec exec, CUgraphNode node, const void* parameters,
                               bool has_kernel);
/// The graph inside `node` of `exec` now has the parameters of `child`.
void graph_child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child);
/// A conditional node was added to a graph that is not executable yet. `parameters`:
/// CUDA_CONDITIONAL_NODE_PARAMS.
void conditional_node_added(CUgraphNode node, const void* parameters);
void graph_was_launched(CUgraphExec exec, CUstream stream);
void graph_is_gone(CUgraphExec exec);

/// In a forked child.
void forget_graph_uses();

}  // namespace gpupeak::preload
