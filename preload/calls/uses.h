// Driver calls that use device memory, and launches. After the real call has succeeded, the
// addresses among its arguments go to track/last_use. hooks/cuda.cc instantiates the templates for
// the rows of cuda_uses.def. Each always returns the real function's result. HOOK-SAFE.
//
// An argument, or a word of a structure, is taken for an address if a block lies there. Sizes,
// counts and handles never have such values.
#pragma once

#include <cuda.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "calls/driver_scope.h"
#include "track/captures.h"
#include "track/driver.h"
#include "track/graph_uses.h"
#include "track/last_use.h"
#include "track/launch_parameters.h"
#include "track/tensor_maps.h"

namespace gpupeak::preload::calls {

/// The stream among a call's arguments; the default stream if there is none.
inline CUstream stream_in() {
  return nullptr;
}
template <typename First, typename... Rest>
CUstream stream_in(First first, Rest... rest) {
  if constexpr (std::is_same_v<First, CUstream>)
    return first;
  else
    return stream_in(rest...);
}

/// Whether the stream is being captured: then its work is not done now, and its uses are the
/// graph's.
inline bool is_captured(CUstream stream) {
  return g_open_captures.load(std::memory_order_relaxed) != 0 && is_capturing(stream, false);
}

/// Calls `look(seen)` if the program's own call succeeded, and its work was not captured.
template <typename Look>
__attribute__((always_inline)) inline void look_if_done(CUresult result, CUstream stream,
                                                        Look look) {
  if (result != CUDA_SUCCESS || !watches_uses()) return;
  if (DriverScope::is_open(arch::stack_pointer()) || is_captured(stream)) return;
  SeenWords seen(use_now, stream);
  look(seen);
}

inline void look_at_launch(CUresult result, const void* function, CUstream stream,
                           void* const* parameters, void* const* extra) {
  look_if_done(result, stream, [&](SeenWords& seen) {
    if (__builtin_expect(look_at_parameters(function, parameters, extra, seen), 1)) return;
    const DriverScope scope;
    if (!ask_and_look_at_parameters(function, parameters, extra, seen)) note_unread_launch();
  });
}

inline void look_at_argument(SeenWords& seen, const void* pointer) {
  seen.look_at(reinterpret_cast<uint64_t>(pointer));
}
template <std::integral Number>
void look_at_argument(SeenWords& seen, Number number) {
  if constexpr (sizeof number == sizeof(uint64_t)) seen.look_at(number);
}

template <typename Real, typename... Arguments>
CUresult sees_arguments(const ApiCall&, Real real, Arguments... arguments) {
  const CUresult result = real(arguments...);
  look_if_done(result, stream_in(arguments...),
               [&](SeenWords& seen) { (look_at_argument(seen, arguments), ...); });
  return result;
}

/// The first argument points to a `Structure`, which has the addresses.
template <typename Structure, typename Real, typename... Arguments>
CUresult sees_structure(const ApiCall&, Real real, const void* at, Arguments... arguments) {
  const CUresult result = real(at, arguments...);
  look_if_done(result, stream_in(arguments...),
               [&](SeenWords& seen) { seen.look_at_all(at, sizeof(Structure)); });
  return result;
}

/// The first two arguments are lists of addresses.
template <typename Real, typename... Arguments>
CUresult sees_lists(const ApiCall&, Real real, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                    size_t count, Arguments... arguments) {
  const CUresult result = real(to, from, bytes, count, arguments...);
  look_if_done(result, stream_in(arguments...), [&](SeenWords& seen) {
    seen.look_at_all(to, count * sizeof *to);
    seen.look_at_all(from, count * sizeof *from);
  });
  return result;
}

/// The size of CUDA_MEMCPY3D_BATCH_OP, which headers before CUDA 12.8 lack.
constexpr size_t kCopyOperationBytes = 112;

template <typename Real, typename... Arguments>
CUresult sees_copy_operations(const ApiCall&, Real real, size_t count, const void* list,
                              Arguments... arguments) {
  const CUresult result = real(count, list, arguments...);
  look_if_done(result, stream_in(arguments...),
               [&](SeenWords& seen) { seen.look_at_all(list, count * kCopyOperationBytes); });
  return result;
}

template <typename Real>
CUresult sees_memory_operations(const ApiCall&, Real real, CUstream stream, unsigned count,
                                const void* list, unsigned flags) {
  const CUresult result = real(stream, count, list, flags);
  look_if_done(result, stream, [&](SeenWords& seen) {
    seen.look_at_all(list, count * sizeof(CUstreamBatchMemOpParams));
  });
  return result;
}

template <typename Real, typename... Arguments>
CUresult sees_tensor_map(const ApiCall&, Real real, void* map, int type, unsigned rank,
                         void* address, Arguments... arguments) {
  const CUresult result = real(map, type, rank, address, arguments...);
  if (result == CUDA_SUCCESS && watches_uses())
    note_tensor_map(map, reinterpret_cast<uint64_t>(address));
  return result;
}

template <typename Real>
CUresult sees_new_address(const ApiCall&, Real real, void* map, void* address) {
  const CUresult result = real(map, address);
  if (result == CUDA_SUCCESS && watches_uses())
    note_tensor_map(map, reinterpret_cast<uint64_t>(address));
  return result;
}

template <typename Change>
CUresult change_graph(CUresult result, Change change) {
  if (result != CUDA_SUCCESS || !watches_uses()) return result;
  DriverScope scope;
  if (scope.is_outermost()) change();
  return result;
}

template <typename Real, typename... Arguments>
CUresult sees_graph_update(const ApiCall&, Real real, CUgraphExec exec, CUgraph graph,
                           Arguments... arguments) {
  return change_graph(real(exec, graph, arguments...), [&] { graph_was_made(exec, graph); });
}

template <typename Real>
CUresult sees_kernel_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                          const void* parameters) {
  return change_graph(real(exec, node, parameters),
                      [&] { graph_kernel_node_changed(exec, node, parameters, true); });
}
/// The same with parameters of version 1, which has no kernels, only functions.
template <typename Real>
CUresult sees_function_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                            const void* parameters) {
  return change_graph(real(exec, node, parameters),
                      [&] { graph_kernel_node_changed(exec, node, parameters, false); });
}

template <typename Structure, typename Real>
CUresult sees_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                   const void* parameters, CUcontext context) {
  return change_graph(real(exec, node, parameters, context),
                      [&] { graph_node_changed(exec, node, parameters, sizeof(Structure)); });
}

template <typename Real>
CUresult sees_child_graph(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                          CUgraph child) {
  return change_graph(real(exec, node, child), [&] { graph_child_changed(exec, node, child); });
}

/// CUgraphNodeParams, which headers before CUDA 12.2 lack. `words`: a kernel node's or a child
/// graph's parameters; of all other nodes each word is looked at.
struct AnyNode {
  int type;
  int reserved[3];
  uint64_t words[29];
};

template <typename Real>
CUresult sees_any_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                       void* parameters) {
  return change_graph(real(exec, node, parameters), [&] {
    const auto* const any = static_cast<const AnyNode*>(parameters);
    if (any->type == CU_GRAPH_NODE_TYPE_KERNEL)
      graph_kernel_node_changed(exec, node, any->words, true);
    else if (any->type == CU_GRAPH_NODE_TYPE_GRAPH)
      graph_child_changed(exec, node, reinterpret_cast<CUgraph>(any->words[0]));
    else
      graph_node_changed(exec, node, any->words, sizeof any->words);
  });
}

/// One element of a list of CUDA_LAUNCH_PARAMS.
struct OneLaunch {
  void* function;
  unsigned sizes[7];
  CUstream stream;
  void** parameters;
};

template <typename Real>
CUresult sees_launches(const ApiCall&, Real real, const void* list, unsigned count,
                       unsigned flags) {
  const CUresult result = real(list, count, flags);
  for (unsigned i = 0; i < count; ++i) {
    const OneLaunch& one = static_cast<const OneLaunch*>(list)[i];
    look_at_launch(result, one.function, one.stream, one.parameters, nullptr);
  }
  return result;
}

/// A launch was made with these arguments, as the rows of launches have them.
inline void launched(CUresult result, void* function, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, unsigned, CUstream stream, void** parameters,
                     void** extra) {
  look_at_launch(result, function, stream, parameters, extra);
}
inline void launched(CUresult result, void* function, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, unsigned, CUstream stream, void** parameters) {
  look_at_launch(result, function, stream, parameters, nullptr);
}
/// The beginning of CUlaunchConfig, which headers before CUDA 11.8 lack.
struct LaunchConfiguration {
  unsigned sizes[7];
  CUstream stream;
};
inline void launched(CUresult result, const void* configuration, void* function, void** parameters,
                     void** extra) {
  const CUstream stream = static_cast<const LaunchConfiguration*>(configuration)->stream;
  look_at_launch(result, function, stream, parameters, extra);
}
/// A launch of the first ABI, whose parameters were set by earlier calls. It is also there so that
/// all other calls compile.
template <typename... Arguments>
void launched(CUresult result, Arguments...) {
  if (result == CUDA_SUCCESS) note_unread_launch();
}

}  // namespace gpupeak::preload::calls
