// The simulated driver's state: plain data under one lock. Each family of calls has a .cc file of
// its own.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "addresses.h"
#include "ledger.h"

namespace fake_cuda {

struct Context {
  int device = 0;
  bool primary = false;
  bool active = true;  ///< false: a primary context that was released; its handle stays known
  unsigned flags = 0;
};

struct Pool {
  int device = 0;  ///< -1: host
  bool is_default = false;
  bool destroyed = false;  ///< lives on until its last block is freed
  uint64_t threshold = 0;
  uint64_t used = 0, used_high = 0, reserved_high = 0;  ///< bytes; used: in the arena's steps
  uint64_t blocks = 0;
  std::map<CUmemPool_attribute, int> switches;  ///< the reuse attributes
  ChunkArena arena{32 * kMiB};
};

/// Work that a graph does when it is launched. A kernel's parameters are copies that the graph
/// owns.
struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUfunction function = nullptr;
  std::vector<std::vector<char>> parameters{};
  std::vector<void*> pointers{};  ///< to the parameters
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  struct Graph* child = nullptr;
  std::vector<CUgraph> bodies{};  ///< a conditional node's
};

struct Graph {
  std::map<CUdeviceptr, uint64_t> allocations;  ///< address to bytes, of captured cuMemAllocAsync
  std::vector<Node*> nodes;
};

struct GraphExec {
  int device = 0;
  uint64_t bytes = 0;
  bool launched = false;
};

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Graph* graph = nullptr;
  uint64_t capture_id = 0;
};

struct Event {
  Context* context = nullptr;
};

struct Array {
  Context* context = nullptr;
  int device = 0;
  uint64_t bytes = 0;     ///< as accounted
  uint64_t physical = 0;  ///< as taken from the device
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
};

struct Module {
  Context* context = nullptr;  ///< nullptr: a library, which each context loads separately
};

/// A function of a module, or a kernel of a library.
struct Function {
  Module* module = nullptr;
  std::string name;
  int local_bytes = 0;                    ///< for each thread: N of a name "…local_N"
  bool is_kernel = false;                 ///< a library's kernel, launched by its own handle
  std::vector<size_t> parameter_bytes{};  ///< sizes, as in a name "…takes_8_24_4"
};

/// The offset of a function's parameter. A parameter is aligned to its size, a structure to 8
/// bytes, and to 64 bytes if it has room for a tensor map.
size_t parameter_offset(const Function& function, size_t index);
/// For cuGraphAddNode: adds a conditional node, or a node of a kind that nobody knows.
CUresult add_other_node(CUgraphNode* out, CUgraph graph, int type, void* parameters);
/// If the stream is captured, the launch becomes a node of its graph. False: it is not captured.
bool capture_launch(CUstream stream, CUfunction function, void** parameters);
bool capture_fill(CUstream stream, const CUDA_MEMSET_NODE_PARAMS& fill);

/// The memory behind a device pointer.
struct Block {
  enum class Owner { linear, managed, pool, graph, imported, unseen };
  Owner owner = Owner::linear;
  uint64_t bytes = 0;     ///< as accounted
  uint64_t physical = 0;  ///< bytes of the pages that it has for itself; 0 if it lies in a chunk
  ChunkArena* arena = nullptr;
  int device = 0;
  Context* context = nullptr;
  Pool* pool = nullptr;
  uint64_t resident = 0;  ///< bytes on the GPU, of managed memory that the GPU has touched
};

struct HostBlock {
  uint64_t bytes = 0;
  uint64_t mapped = 0;  ///< 0: registered memory, which the program has mapped
  Context* context = nullptr;
  unsigned flags = 0;
};

/// What NVML tells of a device. FAKE_CUDA_SHARED names a file that has it: then NVML tells it in
/// other processes, too.
struct Figures {
  uint64_t taken = 0;   ///< physical bytes
  uint64_t others = 0;  ///< the part of `taken` that other processes have
  int pid = 0;          ///< of the process with the driver; 0: there is none yet
};
Figures& figures_of(int ordinal);

/// A block of the heap that a context has taken.
struct ContextBlock {
  ContextBlock* before;
};

struct Device {
  explicit Device(int number)
      : ordinal(number), taken(figures_of(number).taken), others(figures_of(number).others) {}
  int ordinal;
  uint64_t &taken, &others;  ///< of its figures
  bool had_context = false;
  Context primary;
  int primary_references = 0;
  ContextBlock* host_blocks = nullptr;  ///< that the primary context has allocated
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
  uint64_t graph_reserved = 0, graph_high = 0;
  ChunkArena small_blocks{kPage};
  ChunkArena low_blocks{kPage, true};
};

/// Live objects by handle. A handle that is none is an error and not a crash.
template <typename T>
class Registry {
 public:
  T* add(T value = {}) {
    auto owned = std::make_unique<T>(std::move(value));
    T* const pointer = owned.get();
    live_.emplace(pointer, std::move(owned));
    return pointer;
  }
  template <typename Handle>
  T* find(Handle handle) const {
    const auto at = live_.find(reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(handle)));
    return at != live_.end() ? at->second.get() : nullptr;
  }
  void remove(T* pointer) { live_.erase(pointer); }
  template <typename Condition>
  void remove_if(Condition condition) {
    std::erase_if(live_, [&](const auto& entry) { return condition(*entry.second); });
  }
  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& entry : live_) visit(*entry.second);
  }

 private:
  std::map<T*, std::unique_ptr<T>> live_;
};

struct Driver {
  std::mutex lock;
  bool initialised = false;
  pid_t pid = 0;  ///< of the process that called cuInit: a forked child has no driver
  std::vector<std::unique_ptr<Device>> devices;
  Registry<Context> contexts;  ///< without the primary ones
  Registry<Stream> streams;
  Registry<Event> events;
  Registry<Graph> graphs;
  Registry<Node> nodes;
  Registry<GraphExec> graph_execs;
  Registry<Pool> pools;
  Registry<Array> arrays;
  Registry<Module> modules;
  Registry<Function> functions;
  std::map<CUdeviceptr, Block> blocks;
  std::map<uintptr_t, HostBlock> host_blocks;
  std::map<uintptr_t, HostBlock> registered;
};

/// Never destroyed: programs call it from their exit handlers.
Driver& driver();

/// Takes memory of the device. False if the device has not so much.
[[nodiscard]] bool take_memory(int device, uint64_t bytes);
/// Bytes in use on the device. If devices have no memory of their own, this includes the process's
/// host memory.
uint64_t in_use(const Device& device);
void give_memory(int device, uint64_t bytes);

/// Null if there is no device of that ordinal.
Device* device_of(CUdevice ordinal);
/// The thread's context; null if it has none, or if its context is gone.
Context* current_context();
/// Why there is no current context.
CUresult no_context();
/// The context if it is live and valid, else null.
Context* context_of(CUcontext handle);
inline CUcontext handle_of(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

// What ends with a context: linear, managed, pinned and registered memory, arrays, streams,
// modules.
void free_blocks_of(Context* context);
void free_host_of(Context* context);
void free_arrays_of(Context* context);

/// Unmaps the memory that is mapped to a sparse array.
void unmap_tiles_of(const Array* array);

/// The device's pools give back what exceeds their thresholds. For calls that synchronise.
void pools_give_back(int device);
Pool* default_pool(Device& device);
void remove_pool_block(CUdeviceptr at, const Block& block);
/// Frees the block that begins at the address, of any kind.
CUresult free_pointer(CUdeviceptr at);

/// The stream of a handle; null for a default stream, which sets `default_stream`, and for an
/// unknown handle.
Stream* stream_of(CUstream handle, bool& default_stream);
bool any_stream_captures(CUstreamCaptureMode mode);

}  // namespace fake_cuda
