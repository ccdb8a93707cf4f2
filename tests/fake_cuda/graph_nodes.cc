// The nodes of graphs: how they are added or captured, and calls that ask about them.
#include <algorithm>
#include <cstring>

#include "export.h"

namespace fake_cuda {
namespace {

/// CUDA_KERNEL_NODE_PARAMS of version 2. Version 1 is its first part.
struct KernelParameters {
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
};

/// CUDA_CONDITIONAL_NODE_PARAMS, which headers before CUDA 12.3 lack.
struct ConditionalParameters {
  uint64_t handle;
  int type;
  unsigned count;
  CUgraph* graphs;
};

void set_kernel(CUfunction handle, void** parameters, Node& node) {
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.function = handle;
  node.parameters.clear();
  node.pointers.clear();
  const Function* const function = driver().functions.find(handle);
  if (function == nullptr || parameters == nullptr) return;
  for (size_t i = 0; i < function->parameter_bytes.size(); ++i) {
    const char* const at = static_cast<const char*>(parameters[i]);
    node.parameters.emplace_back(at, at + function->parameter_bytes[i]);
  }
  for (std::vector<char>& parameter : node.parameters) node.pointers.push_back(parameter.data());
}

CUresult add(CUgraphNode* out, CUgraph handle, Node node) {
  Graph* const graph = driver().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Node* const added = driver().nodes.add(std::move(node));
  graph->nodes.push_back(added);
  if (out != nullptr) *out = reinterpret_cast<CUgraphNode>(added);
  return CUDA_SUCCESS;
}

CUresult add_kernel(CUgraphNode* out, CUgraph graph, const void* parameters) {
  const auto* const asked = static_cast<const KernelParameters*>(parameters);
  Node node;
  set_kernel(asked->function, asked->parameters, node);
  return add(out, graph, std::move(node));
}

CUresult add_copy(CUgraphNode* out, CUgraph graph, const CUDA_MEMCPY3D* copy) {
  return add(out, graph, {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *copy});
}

CUresult add_fill(CUgraphNode* out, CUgraph graph, const CUDA_MEMSET_NODE_PARAMS* fill) {
  return add(out, graph, {.type = CU_GRAPH_NODE_TYPE_MEMSET, .fill = *fill});
}

CUresult add_child(CUgraphNode* out, CUgraph graph, CUgraph child) {
  return add(out, graph, {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = driver().graphs.find(child)});
}

CUresult nodes_of(CUgraph handle, CUgraphNode* out, size_t* count) {
  const Graph* const graph = driver().graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t room = out != nullptr ? std::min(*count, graph->nodes.size()) : 0;
  for (size_t i = 0; i < room; ++i) out[i] = reinterpret_cast<CUgraphNode>(graph->nodes[i]);
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

/// Calls answer(node) if the handle is a node of that type.
template <typename Answer>
CUresult ask(CUgraphNode handle, CUgraphNodeType type, Answer answer) {
  Node* const node = driver().nodes.find(handle);
  if (node == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  answer(*node);
  return CUDA_SUCCESS;
}

CUresult type_of(CUgraphNode handle, CUgraphNodeType* out) {
  const Node* const node = driver().nodes.find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = node->type;
  return CUDA_SUCCESS;
}

CUresult kernel_of(CUgraphNode handle, void* out) {
  return ask(handle, CU_GRAPH_NODE_TYPE_KERNEL, [&](Node& node) {
    *static_cast<KernelParameters*>(out) = {.function = node.function,
                                            .grid = {1, 1, 1},
                                            .block = {1, 1, 1},
                                            .shared_bytes = 0,
                                            .parameters = node.pointers.data(),
                                            .extra = nullptr,
                                            .kernel = nullptr,
                                            .context = nullptr};
  });
}

CUresult copy_of(CUgraphNode handle, CUDA_MEMCPY3D* out) {
  return ask(handle, CU_GRAPH_NODE_TYPE_MEMCPY, [&](Node& node) { *out = node.copy; });
}

CUresult fill_of(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* out) {
  return ask(handle, CU_GRAPH_NODE_TYPE_MEMSET, [&](Node& node) { *out = node.fill; });
}

CUresult child_of(CUgraphNode handle, CUgraph* out) {
  return ask(handle, CU_GRAPH_NODE_TYPE_GRAPH,
             [&](Node& node) { *out = reinterpret_cast<CUgraph>(node.child); });
}

CUresult set_in_exec(CUgraphExec exec) {
  return driver().graph_execs.find(exec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Graph* captured_by(CUstream handle) {
  bool default_stream = false;
  const Stream* const stream = stream_of(handle, default_stream);
  return stream != nullptr && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE ? stream->graph
                                                                                 : nullptr;
}

}  // namespace

CUresult add_other_node(CUgraphNode* out, CUgraph handle, int type, void* parameters) {
  constexpr int kConditional = 13, kOfAnotherDay = 99;
  if (type == kConditional) {
    auto* const conditional = static_cast<ConditionalParameters*>(parameters);
    Node node{.type = static_cast<CUgraphNodeType>(type)};
    for (unsigned i = 0; i < conditional->count; ++i)
      node.bodies.push_back(reinterpret_cast<CUgraph>(driver().graphs.add()));
    const CUresult result = add(out, handle, std::move(node));
    if (result == CUDA_SUCCESS) conditional->graphs = driver().nodes.find(*out)->bodies.data();
    return result;
  }
  if (type == kOfAnotherDay) return add(out, handle, {.type = static_cast<CUgraphNodeType>(type)});
  return CUDA_ERROR_NOT_SUPPORTED;
}

bool capture_launch(CUstream stream, CUfunction function, void** parameters) {
  Graph* const graph = captured_by(stream);
  if (graph == nullptr) return false;
  Node node;
  set_kernel(function, parameters, node);
  return add(nullptr, reinterpret_cast<CUgraph>(graph), std::move(node)) == CUDA_SUCCESS;
}

bool capture_fill(CUstream stream, const CUDA_MEMSET_NODE_PARAMS& fill) {
  Graph* const graph = captured_by(stream);
  return graph != nullptr &&
         add_fill(nullptr, reinterpret_cast<CUgraph>(graph), &fill) == CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode", 12000, add_kernel,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t,
                  const void* parameters),
                 (out, graph, parameters))
FAKE_CUDA_EXPORT(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", 10000, add_copy,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t,
                  const CUDA_MEMCPY3D* copy, CUcontext),
                 (out, graph, copy))
FAKE_CUDA_EXPORT(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000, add_fill,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t,
                  const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext),
                 (out, graph, fill))
FAKE_CUDA_EXPORT(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode", 10000, add_child,
                 (CUgraphNode * out, CUgraph graph, const CUgraphNode*, size_t, CUgraph child),
                 (out, graph, child))
FAKE_CUDA_EXPORT(cuGraphGetNodes, "cuGraphGetNodes", 10000, nodes_of,
                 (CUgraph graph, CUgraphNode* out, size_t* count), (graph, out, count))
FAKE_CUDA_EXPORT(cuGraphNodeGetType, "cuGraphNodeGetType", 10000, type_of,
                 (CUgraphNode node, CUgraphNodeType* out), (node, out))
FAKE_CUDA_EXPORT(cuGraphKernelNodeGetParams_v2, "cuGraphKernelNodeGetParams", 12000, kernel_of,
                 (CUgraphNode node, void* out), (node, out))
FAKE_CUDA_EXPORT(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", 10000, copy_of,
                 (CUgraphNode node, CUDA_MEMCPY3D* out), (node, out))
FAKE_CUDA_EXPORT(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams", 10000, fill_of,
                 (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out), (node, out))
FAKE_CUDA_EXPORT(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", 10000, child_of,
                 (CUgraphNode node, CUgraph* out), (node, out))
FAKE_CUDA_EXPORT(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams", 12000,
                 set_in_exec, (CUgraphExec exec, CUgraphNode, const void*), (exec))
FAKE_CUDA_EXPORT(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", 10020,
                 set_in_exec, (CUgraphExec exec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext),
                 (exec))
FAKE_CUDA_EXPORT(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", 11010,
                 set_in_exec, (CUgraphExec exec, CUgraphNode, CUgraph), (exec))
FAKE_CUDA_EXPORT(cuGraphExecUpdate_v2, "cuGraphExecUpdate", 12000, set_in_exec,
                 (CUgraphExec exec, CUgraph, void*), (exec))

}  // namespace fake_cuda
