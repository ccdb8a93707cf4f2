// What executable graphs use: a launch of one says nothing of its kernels' arguments, so the words
// of its nodes are kept from when it was made. Captured and explicit nodes are alike then: the
// driver is asked for each node's parameters. HOOK-SAFE, outside any HookScope, inside a
// DriverScope.
//
//   cuGraphInstantiate(graph)          its nodes' words that are addresses of blocks, kept
//   cuGraphExecKernelNodeSetParams …   others take the place of that node's
//   cuGraphLaunch(exec)                blocks that lie there now were used now
//
// A launch of a graph of which something is not known is one whose parameters were not read.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// CU_GRAPH_NODE_TYPE_CONDITIONAL, which older headers lack.
constexpr int kConditionalNode = 13;

/// `exec` was made of `graph`, or has now its nodes' parameters.
void graph_was_made(CUgraphExec exec, CUgraph graph);
/// A node of it has parameters of which these may be addresses; what it had before it has no more.
void graph_node_changed(CUgraphExec exec, CUgraphNode node, const void* at, size_t bytes);
/// `has_kernel`: they are of version 2.
void graph_kernel_node_changed(CUgraphExec exec, CUgraphNode node, const void* parameters,
                               bool has_kernel);
/// A graph inside of it has now the parameters of `child`.
void graph_child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child);
/// Of a graph that is yet to be made executable. `parameters`: CUDA_CONDITIONAL_NODE_PARAMS.
void conditional_node_added(CUgraphNode node, const void* parameters);
void graph_was_launched(CUgraphExec exec, CUstream stream);
void graph_is_gone(CUgraphExec exec);

/// In a forked child.
void forget_graph_uses();

}  // namespace gpupeak::preload
