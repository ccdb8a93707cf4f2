// What executable graphs use: a launch of one says nothing of its kernels' arguments, so the words
// of its nodes are kept from when it was made. Captured and explicit nodes are alike then: the
// driver is asked for each node's parameters. HOOK-SAFE, outside any HookScope, inside a
// DriverScope.
//
//   cuGraphInstantiate(graph)   its nodes' words that are addresses of blocks, kept
//   cuGraphLaunch(exec)         blocks that lie there now were used now
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// `exec` was made of `graph`, or has its nodes, too; earlier ones stay.
void graph_was_made(CUgraphExec exec, CUgraph graph);
/// A node of it has parameters of which these may be addresses.
void graph_node_changed(CUgraphExec exec, const void* at, size_t bytes);
void graph_kernel_node_changed(CUgraphExec exec, const void* parameters);
void graph_was_launched(CUgraphExec exec, CUstream stream);
void graph_is_gone(CUgraphExec exec);

/// In a forked child.
void forget_graph_uses();

}  // namespace gpupeak::preload
