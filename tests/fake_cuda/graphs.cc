// The memory of graphs. A captured allocation takes addresses at capture, and memory at the first
// launch, in steps of 32 MiB. The memory is kept when the executable graph is destroyed, until
// cuDeviceGraphMemTrim.
#include <algorithm>

#include "export.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kGraphStep = 32 * kMiB;

CUresult create(CUgraph* out, unsigned) {
  *out = reinterpret_cast<CUgraph>(driver().graphs.add());
  return CUDA_SUCCESS;
}

CUresult add_alloc_node(CUgraphNode* out, CUgraph handle, CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  Graph* const graph = driver().graphs.find(handle);
  if (graph == nullptr || node == nullptr || node->bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  node->dptr = reserve_addresses(round_up(node->bytesize, kPage));
  if (node->dptr == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  graph->allocations[node->dptr] = node->bytesize;
  *out = reinterpret_cast<CUgraphNode>(node->dptr);
  return CUDA_SUCCESS;
}

/// The first part of CUgraphNodeParams, which headers before CUDA 12.2 lack.
struct NodeParameters {
  CUgraphNodeType type;
  int reserved[3];
  CUDA_MEM_ALLOC_NODE_PARAMS allocation;
};

CUresult add_node(CUgraphNode* out, CUgraph handle, NodeParameters* node) {
  if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return add_alloc_node(out, handle, &node->allocation);
  return add_other_node(out, handle, static_cast<int>(node->type), &node->allocation);
}

CUresult destroy(CUgraph handle) {
  Graph* const graph = driver().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver().graphs.remove(graph);  // the addresses stay reserved: an executable graph may use them
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle) {
  const Graph* const graph = driver().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  GraphExec exec{.device = context->device};
  for (const auto& [at, bytes] : graph->allocations) exec.bytes += round_up(bytes, kPage);
  *out = reinterpret_cast<CUgraphExec>(driver().graph_execs.add(exec));
  return CUDA_SUCCESS;
}

CUresult launch(CUgraphExec handle, CUstream) {
  GraphExec* const exec = driver().graph_execs.find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (exec->launched || exec->bytes == 0) return CUDA_SUCCESS;
  const uint64_t bytes = round_up(exec->bytes, kGraphStep);
  if (!take_memory(exec->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Device& device = *device_of(exec->device);
  device.graph_reserved += bytes;
  device.graph_high = std::max(device.graph_high, device.graph_reserved);
  ledger_add(exec->device, Kind::graph_reserved, bytes);
  exec->launched = true;
  return CUDA_SUCCESS;
}

CUresult exec_destroy(CUgraphExec handle) {
  GraphExec* const exec = driver().graph_execs.find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver().graph_execs.remove(exec);
  return CUDA_SUCCESS;
}

CUresult trim(CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  uint64_t in_use = 0;
  driver().graph_execs.for_each([&](const GraphExec& exec) {
    if (exec.device == ordinal && exec.launched) in_use += round_up(exec.bytes, kGraphStep);
  });
  const uint64_t unused = device->graph_reserved - std::min(in_use, device->graph_reserved);
  device->graph_reserved -= unused;
  give_memory(ordinal, unused);
  ledger_remove(ordinal, Kind::graph_reserved, unused);
  return CUDA_SUCCESS;
}

CUresult attribute(CUdevice ordinal, CUgraphMem_attribute which, void* out) {
  const Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const bool high =
      which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
  *static_cast<cuuint64_t*>(out) = high ? device->graph_high : device->graph_reserved;
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuGraphCreate, "cuGraphCreate", 10000, create, (CUgraph * out, unsigned flags),
                 (out, flags))
FAKE_CUDA_EXPORT(cuGraphDestroy, "cuGraphDestroy", 10000, destroy, (CUgraph graph), (graph))
FAKE_CUDA_EXPORT(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, add_alloc_node,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t,
                  CUDA_MEM_ALLOC_NODE_PARAMS* node),
                 (out, graph, node))
FAKE_CUDA_EXPORT(cuGraphAddNode, "cuGraphAddNode", 12020, add_node,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t,
                  NodeParameters* node),
                 (out, graph, node))
FAKE_CUDA_EXPORT(cuGraphAddNode_v2, "cuGraphAddNode", 12030, add_node,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, const void*, size_t,
                  NodeParameters* node),
                 (out, graph, node))
FAKE_CUDA_EXPORT(cuGraphInstantiate, "cuGraphInstantiate", 10000, instantiate,
                 (CUgraphExec * out, CUgraph graph, CUgraphNode*, char*, size_t), (out, graph))
FAKE_CUDA_EXPORT(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, instantiate,
                 (CUgraphExec * out, CUgraph graph, CUgraphNode*, char*, size_t), (out, graph))
FAKE_CUDA_EXPORT(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, instantiate,
                 (CUgraphExec * out, CUgraph graph, unsigned long long), (out, graph))
FAKE_CUDA_EXPORT_BOTH(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000,
                      instantiate, (CUgraphExec * out, CUgraph graph, void*), (out, graph))
FAKE_CUDA_EXPORT_BOTH(cuGraphLaunch, "cuGraphLaunch", 10000, launch,
                      (CUgraphExec exec, CUstream stream), (exec, stream))
FAKE_CUDA_EXPORT_BOTH(cuGraphUpload, "cuGraphUpload", 11010, launch,
                      (CUgraphExec exec, CUstream stream), (exec, stream))
FAKE_CUDA_EXPORT(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, exec_destroy, (CUgraphExec exec),
                 (exec))
FAKE_CUDA_EXPORT(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, trim, (CUdevice device),
                 (device))
FAKE_CUDA_EXPORT(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", 11040, attribute,
                 (CUdevice device, CUgraphMem_attribute which, void* out), (device, which, out))

}  // namespace fake_cuda
