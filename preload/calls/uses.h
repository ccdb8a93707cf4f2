// Driver calls that use device memory, and launches. After the real call has succeeded, the
// addresses among its arguments go to track/last_use. hooks/cuda.cc instantiates the templates for
// the rows of cuda_uses.def. Each always returns the real function's result. HOOK-SAFE.
//
// An argument, or a word of a structure, is taken for an address if a block lies there. Sizes,
// counts and handles never have such values.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/call_filter.h"
#include "calls/allocate.h"
#include "track/driver.h"
#include "track/graph_uses.h"
#include "track/last_use.h"
#include "track/memory_pools.h"

namespace gpupeak::preload::calls {

/// The first of a call's arguments of this type; null (the default stream) if there is none.
template <typename Pointer>
Pointer first_of() {
  return {};
}
template <typename Pointer, typename First, typename... Rest>
Pointer first_of(First first, Rest... rest) {
  if constexpr (std::is_same_v<First, Pointer>)
    return first;
  else
    return first_of<Pointer>(rest...);
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

/// `call`: the launch, if it is known where it came from. Then its function may be a new one. That
/// of a captured launch is asked about now: the graph does not know where it came from.
inline void look_at_launch(const ApiCall* call, CUresult result, const void* function,
                           CUstream stream, void* const* parameters, void* const* extra) {
  if (call != nullptr && result == CUDA_SUCCESS && is_captured(stream)) {
    const DriverScope scope;
    if (scope.is_outermost()) learn_parameters(function, call);
    return;
  }
  look_if_done(result, stream, [&](SeenWords& seen) {
    if (__builtin_expect(look_at_parameters(function, parameters, extra, seen, true), 1)) return;
    const DriverScope scope;
    if (!ask_and_look_at_parameters(function, parameters, extra, seen, call)) note_unread_launch();
  });
}

/// An argument is looked at if it may be an address; it has no role.
template <typename Argument>
void look_at_argument(SeenWords& seen, Argument argument) {
  if constexpr (std::is_same_v<Argument, CUdeviceptr>) seen.look_at(argument, 0);
}

template <typename Real, typename... Arguments>
CUresult sees_arguments(const ApiCall&, Real real, Arguments... arguments) {
  const CUresult result = real(arguments...);
  look_if_done(result, first_of<CUstream>(arguments...),
               [&](SeenWords& seen) { (look_at_argument(seen, arguments), ...); });
  return result;
}

template <typename Real, typename... Arguments>
CUresult sees_fill(const ApiCall&, Real real, CUdeviceptr to, Arguments... arguments) {
  const CUresult result = real(to, arguments...);
  look_if_done(result, first_of<CUstream>(arguments...),
               [&](SeenWords& seen) { seen.look_at(to, GPUPEAK_ROLE_FILLED); });
  return result;
}

/// Calls `copy(seen, on_array)` for a copy that was made, with what look_at_copy() does for an
/// array.
template <typename Copy>
void look_at_copies(CUresult result, CUstream stream, Copy copy) {
  look_if_done(result, stream, [&](SeenWords& seen) {
    const DriverScope scope;
    copy(seen, [stream](CUarray array, gpupeak_role role) { array_used(array, role, stream); });
  });
}

template <CopyEnd::In kAddress>
CopyEnd end_of(CUdeviceptr at) {
  return {kAddress, at};
}
template <CopyEnd::In>
CopyEnd end_of(CUarray array) {
  return {CopyEnd::In::kArray, reinterpret_cast<uint64_t>(array)};
}
template <CopyEnd::In>
CopyEnd end_of(const void* at) {
  return {CopyEnd::In::kHost, reinterpret_cast<uint64_t>(at)};
}
/// The first of the arguments that is the end of a copy.
template <CopyEnd::In kAddress, typename First, typename... Rest>
CopyEnd end_in(First first, Rest... rest) {
  if constexpr (std::is_same_v<First, CUdeviceptr> || std::is_same_v<First, CUarray> ||
                std::is_same_v<First, const void*>)
    return end_of<kAddress>(first);
  else
    return end_in<kAddress>(rest...);
}

/// What a small copy from the host brings: an array of addresses, or a structure that has some. It
/// is read before the call, while it must be there.
class BroughtWords {
 public:
  BroughtWords(const CopyEnd& from, size_t bytes) {
    const auto* const at = reinterpret_cast<const void*>(from.at);
    const bool may_be = from.in == CopyEnd::In::kHost || from.in == kOfEither;
    if (!may_be || !watches_uses() || from.at % sizeof(uint64_t) != 0) return;
    if (bytes < sizeof(uint64_t) || bytes > sizeof words_) return;
    if (can_copy(at, bytes)) memcpy(words_, at, bytes_ = bytes);  // else it is a device's
  }
  void look(SeenWords& seen) const {
    seen.look_at_all(words_, bytes_, GPUPEAK_ROLE_ADDRESS_COPIED);
  }

 private:
  size_t bytes_ = 0;
  uint64_t words_[256];
};

/// A copy to the first argument. `kAddress`: where addresses of type CUdeviceptr lie.
template <CopyEnd::In kAddress, typename Real, typename To, typename... Arguments>
CUresult sees_copy(const ApiCall&, Real real, To to, Arguments... arguments) {
  constexpr bool kHasBytesFirst = std::is_same_v<To, CUdeviceptr>;  // to an array: a place in it
  const CopyEnd from = end_in<kAddress>(arguments...);
  const BroughtWords brought(from, kHasBytesFirst ? first_of<size_t>(arguments...) : 0);
  const CUresult result = real(to, arguments...);
  look_at_copies(result, first_of<CUstream>(arguments...), [&](SeenWords& seen, auto on_array) {
    look_at_copy(seen, end_of<kAddress>(to), from, on_array);
    brought.look(seen);
  });
  return result;
}

/// The first argument points to a `Structure`, which has both ends.
template <typename Structure, typename Real, typename... Arguments>
CUresult sees_copy_of(const ApiCall&, Real real, const void* at, Arguments... arguments) {
  const CUresult result = real(at, arguments...);
  look_at_copies(result, first_of<CUstream>(arguments...), [&](SeenWords& seen, auto on_array) {
    look_at_copy_of(seen, *static_cast<const Structure*>(at), on_array);
  });
  return result;
}

/// The first two arguments are lists of addresses.
template <typename Real, typename... Arguments>
CUresult sees_lists(const ApiCall&, Real real, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                    size_t count, Arguments... arguments) {
  const CUresult result = real(to, from, bytes, count, arguments...);
  look_at_copies(result, first_of<CUstream>(arguments...), [&](SeenWords& seen, auto on_array) {
    for (size_t i = 0; i < count; ++i)
      look_at_copy(seen, {kOfEither, to[i]}, {kOfEither, from[i]}, on_array);
  });
  return result;
}

/// CUDA_MEMCPY3D_BATCH_OP, which headers before CUDA 12.8 lack.
struct CopyOperation {
  struct Operand {
    int type;     ///< 2: an array
    uint64_t at;  ///< an address, or the array's handle
    uint64_t rest[3];

    CopyEnd end() const { return {type == 2 ? CopyEnd::In::kArray : CopyEnd::In::kEither, at}; }
  } from, to;
  uint64_t rest[4];
};
static_assert(sizeof(CopyOperation) == 112);

template <typename Real, typename... Arguments>
CUresult sees_copy_operations(const ApiCall&, Real real, size_t count, const void* list,
                              Arguments... arguments) {
  const CUresult result = real(count, list, arguments...);
  look_at_copies(result, first_of<CUstream>(arguments...), [&](SeenWords& seen, auto on_array) {
    for (size_t i = 0; i < count; ++i) {
      const CopyOperation& copy = static_cast<const CopyOperation*>(list)[i];
      look_at_copy(seen, copy.to.end(), copy.from.end(), on_array);
    }
  });
  return result;
}

/// A texture or surface object is made of memory.
template <typename Real, typename... Arguments>
CUresult sees_texture(const ApiCall&, Real real, void* out, const void* resource,
                      Arguments... arguments) {
  const CUresult result = real(out, resource, arguments...);
  look_at_copies(result, nullptr, [&](SeenWords& seen, auto on_array) {
    const auto& of = *static_cast<const CUDA_RESOURCE_DESC*>(resource);
    if (of.resType == CU_RESOURCE_TYPE_LINEAR || of.resType == CU_RESOURCE_TYPE_PITCH2D)
      seen.look_at(of.res.linear.devPtr, GPUPEAK_ROLE_TEXTURE);
    else
      on_array(of.res.array.hArray, GPUPEAK_ROLE_TEXTURE);
  });
  return result;
}

/// Memory is made known to other processes.
template <typename Real>
CUresult sees_passed_on(const ApiCall&, Real real, void* out, CUdeviceptr at) {
  const CUresult result = real(out, at);
  look_if_done(result, nullptr, [&](SeenWords& seen) { seen.look_at(at, GPUPEAK_ROLE_PASSED_ON); });
  return result;
}

template <typename Real>
CUresult sees_memory_operations(const ApiCall&, Real real, CUstream stream, unsigned count,
                                const void* list, unsigned flags) {
  const CUresult result = real(stream, count, list, flags);
  look_if_done(result, stream, [&](SeenWords& seen) {
    seen.look_at_all(list, count * sizeof(CUstreamBatchMemOpParams), 0);
  });
  return result;
}

/// The first pointer behind the map that is not const is the address.
template <typename Real, typename... Arguments>
CUresult sees_tensor_map(const ApiCall&, Real real, void* map, Arguments... arguments) {
  const CUresult result = real(map, arguments...);
  if (result == CUDA_SUCCESS && watches_uses())
    note_tensor_map(map, address_of(first_of<void*>(arguments...)));
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

/// `kHasKernel`: version 2 of the parameters; version 1 has no kernels, only functions.
template <bool kHasKernel, typename Real>
CUresult sees_kernel_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                          const void* parameters) {
  return change_graph(real(exec, node, parameters),
                      [&] { graph_kernel_node_changed(exec, node, parameters, kHasKernel); });
}

/// `kChanged`: graph_copy_changed() or graph_fill_changed().
template <auto kChanged, typename Real>
CUresult sees_node(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                   const void* parameters, CUcontext context) {
  return change_graph(real(exec, node, parameters, context),
                      [&] { kChanged(exec, node, parameters); });
}

template <typename Real>
CUresult sees_child_graph(const ApiCall&, Real real, CUgraphExec exec, CUgraphNode node,
                          CUgraph child) {
  return change_graph(real(exec, node, child), [&] { graph_child_changed(exec, node, child); });
}

/// CUgraphNodeParams, which headers before CUDA 12.2 lack. `words`: the parameters of its type.
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
    else if (any->type == CU_GRAPH_NODE_TYPE_MEMCPY)
      graph_copy_changed(exec, node, any->words + 2);  // behind flags and a context
    else if (any->type == CU_GRAPH_NODE_TYPE_MEMSET)
      graph_fill_changed(exec, node, any->words);
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
CUresult sees_launches(const ApiCall& call, Real real, const void* list, unsigned count,
                       unsigned flags) {
  const CUresult result = real(list, count, flags);
  for (unsigned i = 0; i < count; ++i) {
    const OneLaunch& one = static_cast<const OneLaunch*>(list)[i];
    look_at_launch(&call, result, one.function, one.stream, one.parameters, nullptr);
  }
  return result;
}

/// A launch was made with these arguments, as the rows of launches have them.
inline void launched(const ApiCall* call, CUresult result, void* function, unsigned, unsigned,
                     unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream,
                     void** parameters, void** extra = nullptr) {
  look_at_launch(call, result, function, stream, parameters, extra);
}
/// The beginning of CUlaunchConfig, which headers before CUDA 11.8 lack.
struct LaunchConfiguration {
  unsigned sizes[7];
  CUstream stream;
};
inline void launched(const ApiCall* call, CUresult result, const void* configuration,
                     void* function, void** parameters, void** extra) {
  const CUstream stream = static_cast<const LaunchConfiguration*>(configuration)->stream;
  look_at_launch(call, result, function, stream, parameters, extra);
}
/// A launch of the first ABI, whose parameters were set by earlier calls. It is also there so that
/// all other calls compile.
template <typename... Arguments>
void launched(const ApiCall*, CUresult result, Arguments...) {
  if (result == CUDA_SUCCESS) note_unread_launch();
}

// Graphs and captures.

template <typename First, typename... Rest>
auto last_of(First first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return first;
  else
    return last_of(rest...);
}

/// The mode is the last argument. The first form of the call has none, and is global.
template <typename Real, typename... Arguments>
CUresult begin_capture(const ApiCall&, Real real, CUstream stream, Arguments... arguments) {
  captures_begin();
  const CUresult result = real(stream, arguments...);
  bool is_global = true;
  if constexpr (sizeof...(arguments) > 0)
    is_global = last_of(arguments...) == CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (result == CUDA_SUCCESS) capture_began(stream, is_global);
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
  return noted([&] { return real(out, graph, after, count, node); },
               [&] { note_graph_node(node); });
}

/// The node is the last argument.
template <typename Real, typename... Arguments>
CUresult graph_add_node(const ApiCall&, Real real, CUgraphNode* out, Arguments... arguments) {
  const auto run = [&] { return real(out, arguments...); };
  return noted(run, [&] {
    const AnyNode* const node = last_of(arguments...);
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      note_graph_node(reinterpret_cast<const CUDA_MEM_ALLOC_NODE_PARAMS*>(node->words));
    if (node->type == kConditionalNode && watches_uses()) conditional_node_added(*out, node->words);
  });
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
  return noted<true>([&] { return real(device); }, [&] { graph_reserve_read(call, device); });
}

}  // namespace gpupeak::preload::calls
