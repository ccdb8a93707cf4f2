// Uses of blocks by every kind of call that the simulated driver has. The program keeps its own
// book of them, and prints it: check_uses.py compares it with the log's.
#include <time.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "client.h"

extern "C" CUresult instantiate(CUgraphExec* out, CUgraph graph,
                                unsigned long long flags) asm("cuGraphInstantiateWithFlags");
extern "C" CUresult add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                    size_t count,
                                    const void* parameters) asm("cuGraphAddKernelNode_v2");
extern "C" CUresult set_kernel_node(CUgraphExec exec, CUgraphNode node, const void* parameters) asm(
    "cuGraphExecKernelNodeSetParams_v2");
extern "C" CUresult set_copy_node(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                                  CUcontext context) asm("cuGraphExecMemcpyNodeSetParams");
extern "C" CUresult set_child_node(CUgraphExec exec, CUgraphNode node,
                                   CUgraph child) asm("cuGraphExecChildGraphNodeSetParams");
extern "C" CUresult update(CUgraphExec exec, CUgraph graph,
                           void* result) asm("cuGraphExecUpdate_v2");
extern "C" CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                             const void* edges, size_t count,
                             void* parameters) asm("cuGraphAddNode_v2");
extern "C" CUresult launch_configured(const void* configuration, CUfunction function,
                                      void** parameters, void** extra) asm("cuLaunchKernelEx");
extern "C" CUresult launch_all(const void* list, unsigned count,
                               unsigned flags) asm("cuLaunchCooperativeKernelMultiDevice");
extern "C" CUresult encode_tiled(void* map, int type, unsigned rank, void* address, const void*,
                                 const void*, const void*, const void*, int, int, int,
                                 int) asm("cuTensorMapEncodeTiled");
extern "C" CUresult replace_address(void* map, void* address) asm("cuTensorMapReplaceAddress");
extern "C" CUresult batch_operations(CUstream stream, unsigned count, const void* list,
                                     unsigned flags) asm("cuStreamBatchMemOp_v2");
extern "C" CUresult write_value(CUstream stream, CUdeviceptr at, unsigned value,
                                unsigned flags) asm("cuStreamWriteValue32_v2");
extern "C" CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               const void* attributes, size_t* of, size_t attribute_count,
                               CUstream stream) asm("cuMemcpyBatchAsync_v2");

namespace {

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

/// What the program knows of a block. Times are those right before and after the call.
struct Book {
  std::string name;
  uint64_t count = 0;
  int64_t first_from = 0, first_to = 0, last_from = 0, last_to = 0;
};
std::map<CUdeviceptr, Book> g_books;

CUdeviceptr block(const char* name, uint64_t bytes = kMiB) {
  const CUdeviceptr at = allocate(bytes);
  g_books[at].name = name;
  return at;
}

/// Makes the call; it uses the blocks.
template <typename Call>
void use(std::vector<CUdeviceptr> used, Call call) {
  const int64_t from = now_ns();
  OK(call());
  const int64_t to = now_ns();
  for (CUdeviceptr at : used) {
    Book& book = g_books.at(at);
    if (book.count++ == 0) {
      book.first_from = from;
      book.first_to = to;
    }
    book.last_from = from;
    book.last_to = to;
  }
}

CUmodule g_module;
CUfunction function(const char* name) {
  CUfunction out;
  OK(cuModuleGetFunction(&out, g_module, name));
  return out;
}

CUresult launch(CUfunction f, void** parameters, CUstream stream = nullptr) {
  return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

void launches(CUstream stream) {
  const CUdeviceptr plain = block("plain"), inside = block("an offset inside"),
                    in_struct = block("in a struct"), packed = block("in a buffer"),
                    configured = block("configured"), cooperative = block("cooperative"),
                    several = block("several at once"), by_kernel = block("of a library's kernel"),
                    never = block("never"), number = block("numbers");
  CUfunction one = function("one_takes_8"), two = function("two_takes_4_8_24");
  CUdeviceptr pointer = plain;
  void* parameters[] = {&pointer};
  for (int i = 0; i < 3; ++i) use({plain}, [&] { return launch(one, parameters); });
  pointer = inside + 12345;
  use({inside}, [&] { return launch(one, parameters, stream); });
  use({inside}, [&] { return launch(one, parameters); });

  int size = 7;
  uint64_t nothing = 0, structure[3] = {1, in_struct + 8, 0};
  void* three[] = {&size, &nothing, structure};
  use({in_struct}, [&] { return launch(two, three); });

  struct {
    uint64_t small, address;
  } buffer{5, packed};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  use({packed}, [&] { return cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra); });

  struct {
    unsigned sizes[7];
    CUstream stream;
    void* attributes;
    unsigned count;
  } configuration{{1, 1, 1, 1, 1, 1, 0}, stream, nullptr, 0};
  pointer = configured;
  use({configured}, [&] { return launch_configured(&configuration, one, parameters, nullptr); });
  pointer = cooperative;
  use({cooperative},
      [&] { return cuLaunchCooperativeKernel(one, 1, 1, 1, 1, 1, 1, 0, stream, parameters); });
  struct {
    CUfunction function;
    unsigned sizes[7];
    CUstream stream;
    void** parameters;
  } list[] = {{one, {1, 1, 1, 1, 1, 1, 0}, stream, parameters}};
  pointer = several;
  use({several}, [&] { return launch_all(list, 1, 0); });

  // A kernel of a library is launched by its own handle, and asked for by another question.
  using Load = CUresult (*)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned);
  using Get = CUresult (*)(void**, void*, const char*);
  void* library = nullptr;
  void* kernel = nullptr;
  OK(reinterpret_cast<Load>(dlsym(RTLD_DEFAULT, "cuLibraryLoadData"))(
      &library, "", nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "cuLibraryGetKernel"))(&kernel, library,
                                                                      "theirs_takes_8"));
  pointer = by_kernel;
  use({by_kernel}, [&] { return launch(static_cast<CUfunction>(kernel), parameters); });

  // What looks like an address and is none: half of one, one that is not aligned, one of nothing.
  uint64_t odd[3] = {number >> 32, (number << 8) | 1, number + 512 * kMiB};
  void* with_numbers[] = {&size, &nothing, odd};
  use({}, [&] { return launch(two, with_numbers); });
  (void)never;
}

void tensor_maps() {
  const CUdeviceptr mapped = block("in a tensor map"), replaced = block("in a map, replaced");
  CUfunction takes_map = function("map_takes_8_128_192");
  alignas(64) char map[128], two[192] = {};
  uint64_t nothing = 0;
  void* parameters[] = {&nothing, map, two};
  OK(encode_tiled(map, 0, 2, reinterpret_cast<void*>(mapped), nullptr, nullptr, nullptr, nullptr, 0,
                  0, 0, 0));
  use({mapped}, [&] { return launch(takes_map, parameters); });
  memcpy(two + 64, map, sizeof map);
  OK(replace_address(map, reinterpret_cast<void*>(replaced)));
  use({mapped, replaced}, [&] { return launch(takes_map, parameters); });
}

void copies(CUstream stream) {
  const CUdeviceptr from = block("copied from"), to = block("copied to"), filled = block("filled"),
                    written = block("written by the stream"), shaped = block("of a shape"),
                    batched = block("of a batch"), operated = block("of a batch of operations");
  char host[64];
  use({to}, [&] { return cuMemcpyHtoD(to + 16, host, sizeof host); });
  use({from}, [&] { return cuMemcpyDtoH(host, from, sizeof host); });
  use({from, to}, [&] { return cuMemcpyDtoDAsync(to, from, 4096, stream); });
  use({from, to}, [&] { return cuMemcpy(to, from, 4096); });
  use({from, to}, [&] { return cuMemcpyPeer(to, nullptr, from, nullptr, 64); });
  use({filled}, [&] { return cuMemsetD8(filled, 0, 4096); });
  use({filled}, [&] { return cuMemsetD32Async(filled + 4096, 0, 16, stream); });
  use({filled}, [&] { return cuMemsetD16(filled, 0, 16); });
  use({written}, [&] { return write_value(stream, written + 8, 1, 0); });
  CUDA_MEMCPY3D shape{};
  shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  shape.srcDevice = shaped;
  shape.dstMemoryType = CU_MEMORYTYPE_HOST;
  shape.dstHost = host;
  use({shaped}, [&] { return cuMemcpy3D(&shape); });
  use({shaped}, [&] { return cuMemcpy3DAsync(&shape, stream); });
  CUdeviceptr many_to[] = {batched, to}, many_from[] = {from, batched + 64};
  size_t sizes[] = {64, 64}, of = 0;
  use({batched, to, from},
      [&] { return copy_batch(many_to, many_from, sizes, 2, nullptr, &of, 0, stream); });
  CUstreamBatchMemOpParams operations[2] = {};
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[1].writeValue.address = operated;
  use({operated}, [&] { return batch_operations(stream, 2, operations, 0); });
}

/// CUDA_KERNEL_NODE_PARAMS of version 2.
struct KernelParameters {
  CUfunction function;
  unsigned sizes[7];
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
};

void graphs(CUstream stream) {
  const CUdeviceptr captured = block("captured"), fill = block("captured fill"),
                    node = block("of a node"), changed = block("of a changed node"),
                    copied = block("of a copy node"), child = block("of a child"),
                    other_child = block("of another child");
  CUfunction one = function("graph_takes_8");
  CUdeviceptr pointer = captured;
  void* parameters[] = {&pointer};
  CUgraph graph;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(launch(one, parameters, stream));  // no use yet
  OK(cuMemsetD8Async(fill, 0, 64, stream));
  OK(cuStreamEndCapture(stream, &graph));
  pointer = 0;  // the graph has its own copy
  CUgraphExec exec;
  OK(instantiate(&exec, graph, 0));
  for (int i = 0; i < 4; ++i) use({captured, fill}, [&] { return cuGraphLaunch(exec, stream); });

  KernelParameters kernel{one, {1, 1, 1, 1, 1, 1, 0}, parameters, nullptr, nullptr, nullptr};
  CUgraph inner, outer;
  CUgraphNode added, of_kernel, of_copy, of_child;
  OK(cuGraphCreate(&inner, 0));
  pointer = child;
  OK(add_kernel_node(&added, inner, nullptr, 0, &kernel));
  OK(cuGraphCreate(&outer, 0));
  pointer = node;
  OK(add_kernel_node(&of_kernel, outer, nullptr, 0, &kernel));
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = copied;
  OK(cuGraphAddMemcpyNode(&of_copy, outer, nullptr, 0, &copy, nullptr));
  OK(cuGraphAddChildGraphNode(&of_child, outer, nullptr, 0, inner));
  CUgraphExec second;
  OK(instantiate(&second, outer, 0));
  use({node, copied, child}, [&] { return cuGraphLaunch(second, stream); });
  // What a node had before it uses no more. It may come to have more addresses, and less.
  pointer = changed;
  OK(set_kernel_node(second, of_kernel, &kernel));
  use({changed, copied, child}, [&] { return cuGraphLaunch(second, stream); });
  CUdeviceptr pointers[] = {changed, node, captured};
  void* three[] = {&pointers[0], &pointers[1], &pointers[2]};
  kernel.function = function("graph_takes_8_8_8");
  kernel.parameters = three;
  OK(set_kernel_node(second, of_kernel, &kernel));
  use({changed, node, captured, copied, child}, [&] { return cuGraphLaunch(second, stream); });
  kernel.function = one;
  kernel.parameters = parameters;
  pointer = fill;
  OK(set_kernel_node(second, of_kernel, &kernel));
  use({fill, copied, child}, [&] { return cuGraphLaunch(second, stream); });
  copy.dstDevice = node;
  OK(set_copy_node(second, of_copy, &copy, nullptr));
  CUgraph other;
  OK(cuGraphCreate(&other, 0));
  pointer = other_child;
  OK(add_kernel_node(&added, other, nullptr, 0, &kernel));
  for (int i = 0; i < 2; ++i) OK(set_child_node(second, of_child, other));
  use({fill, node, other_child}, [&] { return cuGraphLaunch(second, stream); });
  OK(set_child_node(second, of_child, inner));
  use({fill, node, child}, [&] { return cuGraphLaunch(second, stream); });
  OK(update(second, graph, nullptr));
  use({captured, fill}, [&] { return cuGraphLaunch(second, stream); });
  OK(cuGraphExecDestroy(second));
  OK(cuGraphExecDestroy(exec));
}

/// Nodes that only some conditions run: whatever they may use counts. Of nodes that nobody knows
/// a launch is one that was not read.
void conditional_graphs(CUstream stream) {
  const CUdeviceptr loop = block("of a loop"), known = block("beside what is not known");
  CUfunction one = function("graph_takes_8");
  CUdeviceptr pointer = loop;
  void* parameters[] = {&pointer};
  KernelParameters kernel{one, {1, 1, 1, 1, 1, 1, 0}, parameters, nullptr, nullptr, nullptr};
  struct {
    int type, reserved[3];
    uint64_t handle;
    int condition;
    unsigned count;
    CUgraph* bodies;
    CUcontext context;
    uint64_t rest[26];
  } node{13, {}, 1, 1, 1, nullptr, nullptr, {}};
  CUgraph graph, strange;
  CUgraphNode added;
  OK(cuGraphCreate(&graph, 0));
  OK(add_node(&added, graph, nullptr, nullptr, 0, &node));
  OK(add_kernel_node(&added, node.bodies[0], nullptr, 0, &kernel));
  CUgraphExec exec;
  OK(instantiate(&exec, graph, 0));
  use({loop}, [&] { return cuGraphLaunch(exec, stream); });

  OK(cuGraphCreate(&strange, 0));
  pointer = known;
  OK(add_kernel_node(&added, strange, nullptr, 0, &kernel));
  node.type = 99;
  OK(add_node(&added, strange, nullptr, nullptr, 0, &node));
  CUgraphExec unread;
  OK(instantiate(&unread, strange, 0));
  for (int i = 0; i < 3; ++i) use({known}, [&] { return cuGraphLaunch(unread, stream); });
  printf("unread 3\n");
}

/// Blocks that end, and blocks that come to be where others were.
void ends(CUstream stream) {
  CUfunction one = function("end_takes_8");
  CUdeviceptr pointer = 0;
  void* parameters[] = {&pointer};
  for (int i = 0; i < 3; ++i) {
    pointer = block(i == 0 ? "one of three" : i == 1 ? "two of three" : "three of three", 4 * kMiB);
    for (int k = 0; k <= i; ++k) use({pointer}, [&] { return launch(one, parameters, stream); });
    const Book& book = g_books.at(pointer);
    printf("freed %#llx count %llu\n", static_cast<unsigned long long>(pointer),
           static_cast<unsigned long long>(book.count));
    OK(cuMemFree(pointer));
    g_books.erase(pointer);
  }
  CUdeviceptr large = block("large", 300 * kMiB);
  pointer = large + 299 * kMiB;
  use({large}, [&] { return launch(one, parameters, stream); });
}

}  // namespace

int main() {
  use_device(0);
  OK(cuModuleLoadData(&g_module, ""));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launches(stream);
  tensor_maps();
  copies(stream);
  graphs(stream);
  conditional_graphs(stream);
  ends(stream);
  for (const auto& [at, book] : g_books) {
    printf("live %#llx count %llu first %lld %lld last %lld %lld %s\n",
           static_cast<unsigned long long>(at), static_cast<unsigned long long>(book.count),
           static_cast<long long>(book.first_from), static_cast<long long>(book.first_to),
           static_cast<long long>(book.last_from), static_cast<long long>(book.last_to),
           book.name.c_str());
  }
  return finish();
}
