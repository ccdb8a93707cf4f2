// Driver calls for graphs and captures. hooks/cuda.cc instantiates them for the rows of
// cuda_table.def. Each gets the real function and its arguments, and returns the real function's
// result, or out of memory if a limit refuses the call (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/allocate.h"
#include "calls/uses.h"
#include "track/captures.h"

namespace gpupeak::preload::calls {

/// The last argument, if that is the mode. The first form of the call has no mode, and is global.
inline CUstreamCaptureMode capture_mode() {
  return CU_STREAM_CAPTURE_MODE_GLOBAL;
}
inline CUstreamCaptureMode capture_mode(CUstreamCaptureMode mode) {
  return mode;
}
template <typename First, typename... Rest>
CUstreamCaptureMode capture_mode(First, Rest... rest) {
  return capture_mode(rest...);
}

template <typename Real, typename... Arguments>
CUresult begin_capture(const ApiCall&, Real real, CUstream stream, Arguments... arguments) {
  captures_begin();
  const CUresult result = real(stream, arguments...);
  if (result == CUDA_SUCCESS)
    capture_began(stream, capture_mode(arguments...) == CU_STREAM_CAPTURE_MODE_GLOBAL);
  return result;
}

/// The capture is over whatever the result is, since a broken one is over, too.
template <typename Real>
CUresult end_capture(const ApiCall&, Real real, CUstream stream, CUgraph* graph) {
  const CUresult result = real(stream, graph);
  capture_ended(stream);
  return result;
}

/// A node that allocates has its addresses now, and its memory when the graph runs.
inline void note_graph_node(const CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  device_noted(KeySpace::kPointer, node->dptr,
               {.bytes = node->bytesize, .kind = GPUPEAK_KIND_GRAPH});
}

template <typename Real>
CUresult graph_add_alloc_node(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                              const CUgraphNode* after, size_t count,
                              CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  DriverScope scope;
  const CUresult result = real(out, graph, after, count, node);
  if (scope.accounts() && result == CUDA_SUCCESS) note_graph_node(node);
  return result;
}

/// The beginning of CUgraphNodeParams, which headers before CUDA 12.2 lack.
struct GraphNode {
  CUgraphNodeType type;
  int reserved[3];
  CUDA_MEM_ALLOC_NODE_PARAMS allocation;  ///< if `type` is CU_GRAPH_NODE_TYPE_MEM_ALLOC
};

template <typename Run>
CUresult add_graph_node(const CUgraphNode* out, const GraphNode* node, Run run) {
  DriverScope scope;
  const CUresult result = run();
  if (!scope.accounts() || result != CUDA_SUCCESS) return result;
  if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) note_graph_node(&node->allocation);
  if (static_cast<int>(node->type) == kConditionalNode && watches_uses())
    conditional_node_added(*out, &node->allocation);
  return result;
}

template <typename Real>
CUresult graph_add_node(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                        const CUgraphNode* after, size_t count, GraphNode* node) {
  return add_graph_node(out, node, [&] { return real(out, graph, after, count, node); });
}

template <typename Real>
CUresult graph_add_node_with_edges(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                                   const CUgraphNode* after, const void* edges, size_t count,
                                   GraphNode* node) {
  return add_graph_node(out, node, [&] { return real(out, graph, after, edges, count, node); });
}

/// Runs a call at which graphs' memory may grow or shrink, and reads their reserve afterwards.
template <typename Run>
CUresult run_graph_call(const ApiCall& call, const DriverScope& scope, Run run) {
  // The driver reserves the memory of a graph's nodes at the launch.
  const bool may_take = has_graph_memory() || !scope.accounts();
  const CUresult result = may_take ? within_limit(scope, run) : run();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && scope.accounts()) {
    device_failed(call, GPUPEAK_KIND_NONE, current_device(), 0, result);
  } else if (has_graph_memory() && scope.accounts() && result == CUDA_SUCCESS) {
    const int device = current_device();
    if (device != kNoDevice) graph_reserve_read(call, device);
  }
  return result;
}

/// Instantiates, uploads or destroys an executable graph.
template <typename Real, typename... Arguments>
CUresult graph_call(const ApiCall& call, Real real, Arguments... arguments) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_GRAPHS, current_device());
  }
  return run_graph_call(call, scope, [&] { return real(arguments...); });
}

template <typename Real, typename... Arguments>
CUresult graph_instantiate(const ApiCall& call, Real real, CUgraphExec* out, CUgraph graph,
                           Arguments... arguments) {
  return change_graph(graph_call(call, real, out, graph, arguments...),
                      [&] { graph_was_made(*out, graph); });
}

template <typename Real>
CUresult graph_exec_destroy(const ApiCall& call, Real real, CUgraphExec graph) {
  if (watches_uses()) graph_is_gone(graph);
  const CUresult result = graph_call(call, real, graph);
  if (result == CUDA_SUCCESS && recording()) forget_graph_launches();
  return result;
}

/// A graph's first launch also loads its functions.
template <typename Real>
CUresult graph_launch(const ApiCall& call, Real real, CUgraphExec graph, CUstream stream) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts() && is_first_graph_launch(graph))
    bracket.open(call, GPUPEAK_LEDGER_GRAPHS, current_device());
  const CUresult result = run_graph_call(call, scope, [&] { return real(graph, stream); });
  if (result == CUDA_SUCCESS && watches_uses() && !is_captured(stream))
    graph_was_launched(graph, stream);
  return result;
}

template <typename Real>
CUresult graph_trim(const ApiCall& call, Real real, CUdevice device) {
  DriverScope scope;
  if (scope.accounts()) read_unread_peaks();
  const CUresult result = real(device);
  if (scope.accounts() && result == CUDA_SUCCESS) graph_reserve_read(call, device);
  return result;
}

}  // namespace gpupeak::preload::calls
