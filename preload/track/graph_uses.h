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

namespace gpupeak::preload {

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
