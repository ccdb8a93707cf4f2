// What blocks are used for, by every kind of call that the simulated driver has. The program keeps
// a book of each block's roles, and prints it: check_roles.py compares it with the log's.
#include <map>
#include <string>
#include <vector>

#include "client.h"

extern "C" CUresult instantiate(CUgraphExec* out, CUgraph graph,
                                unsigned long long flags) asm("cuGraphInstantiateWithFlags");
extern "C" CUresult launch_configured(const void* configuration, CUfunction function,
                                      void** parameters, void** extra) asm("cuLaunchKernelEx");
extern "C" CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               const void* attributes, size_t* of, size_t attribute_count,
                               CUstream stream) asm("cuMemcpyBatchAsync_v2");
extern "C" CUresult copy_in(CUarray to, size_t offset, const void* from,
                            size_t bytes) asm("cuMemcpyHtoA_v2");
extern "C" CUresult copy_out(void* to, CUarray from, size_t offset,
                             size_t bytes) asm("cuMemcpyAtoH_v2");
extern "C" CUresult copy_to_array(CUarray to, size_t offset, CUdeviceptr from,
                                  size_t bytes) asm("cuMemcpyDtoA_v2");
extern "C" CUresult make_texture(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                 const void* texture, const void* view) asm("cuTexObjectCreate");
extern "C" CUresult make_surface(CUsurfObject* out,
                                 const CUDA_RESOURCE_DESC* resource) asm("cuSurfObjectCreate");

namespace {

// Kernels: the driver is told the sizes of their parameters by their names.
constexpr char kScale[] = "_Z15scale_takes_8_8PKfPf";  // (float const*, float*)
constexpr char kCount[] = "_Z15count_takes_8_8PKimi";  // (int const*, unsigned long, int)
constexpr char kPlain[] = "plain_takes_8_8_24";        // extern "C"

/// A block's roles. Of a kernel: "NAME 1 inside", its places, and "NAME", its launches.
std::map<uint64_t, std::map<std::string, uint64_t>> g_books;

CUdeviceptr block(uint64_t bytes = kMiB) {
  const CUdeviceptr at = allocate(bytes);
  g_books[at];
  return at;
}

void note(uint64_t block, const std::string& role, uint64_t times = 1) {
  g_books[block][role] += times;
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

void copies(CUstream stream) {
  static char host[64];
  const CUdeviceptr a = block(), b = block(), of_shape = block(), batched = block();
  OK(cuMemcpyHtoD(a, host, sizeof host));
  OK(cuMemcpyHtoDAsync(a + 8, host, sizeof host, stream));
  note(a, "copied_in", 2);
  OK(cuMemcpyDtoH(host, a, sizeof host));
  note(a, "copied_out");
  OK(cuMemcpyDtoD(b, a, 64));
  note(b, "copied_to");
  note(a, "copied_from");
  // An address alone does not say where it lies.
  const auto at_host = reinterpret_cast<CUdeviceptr>(host);
  OK(cuMemcpy(b, at_host, 64));
  note(b, "copied_in");
  OK(cuMemcpyAsync(at_host, b, 64, stream));
  note(b, "copied_out");
  OK(cuMemcpy(a, b, 64));
  note(a, "copied_to");
  note(b, "copied_from");
  const CUdeviceptr unseen = fake_cuda_alloc_unseen(kMiB);
  OK(cuMemcpy(a, unseen, 64));
  note(a, "copied_to");
  void* pinned;
  OK(cuMemAllocHost(&pinned, kMiB));
  OK(cuMemcpy(b, reinterpret_cast<CUdeviceptr>(pinned), 64));
  note(b, "copied_in");
  g_books[reinterpret_cast<uint64_t>(pinned)]["copied_from"] = 1;
  OK(cuMemcpyPeer(b, nullptr, a, nullptr, 64));
  note(b, "copied_to");
  note(a, "copied_from");
  OK(cuMemcpyDtoD(a, a + 64, 64));
  note(a, "copied_to");
  note(a, "copied_from");
  OK(cuMemsetD8(b, 0, 64));
  OK(cuMemsetD32Async(b, 0, 16, stream));
  OK(cuMemsetD2D8(b, 64, 0, 64, 1));
  note(b, "filled", 3);

  CUDA_MEMCPY3D shape{};
  shape.srcMemoryType = CU_MEMORYTYPE_HOST;
  shape.srcHost = host;
  shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  shape.dstDevice = of_shape;
  OK(cuMemcpy3D(&shape));
  note(of_shape, "copied_in");
  CUDA_MEMCPY2D flat{};
  flat.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  flat.srcDevice = of_shape;
  flat.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  flat.dstDevice = at_host;
  OK(cuMemcpy2DAsync(&flat, stream));
  note(of_shape, "copied_out");
  CUdeviceptr to[] = {batched, at_host}, from[] = {at_host, batched};
  size_t bytes[] = {64, 64}, of = 0;
  OK(copy_batch(to, from, bytes, 2, nullptr, &of, 0, stream));
  note(batched, "copied_in");
  note(batched, "copied_out");

  // A table of addresses: its blocks may be used by whoever reads it. An address inside a block is
  // a number like others.
  const CUdeviceptr table = block(), in_table = block(), inside = block();
  CUdeviceptr words[] = {in_table, 17, inside + 256, 0};
  OK(cuMemcpyHtoD(table, words, sizeof words));
  OK(cuMemcpyAsync(table, reinterpret_cast<CUdeviceptr>(words), sizeof words, stream));
  OK(cuMemcpyHtoD(table, words + 1, sizeof words[1]));
  OK(cuMemcpyDtoH(words, table, sizeof words));
  note(table, "copied_in", 3);
  note(table, "copied_out");
  note(in_table, "address_copied", 2);
  OK(cuMemsetD8(inside, 0, 64));
  note(inside, "filled");
  // The driver takes more as a copy's source than we can read.
  OK(cuMemcpyHtoD(table, reinterpret_cast<const void*>(4096), 64));
  OK(cuMemcpyHtoD(table, reinterpret_cast<const void*>(table), 64));
  note(table, "copied_in", 2);
  note(table, "copied_from");

  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemcpyHtoD(managed, host, 64));
  note(managed, "copied_in");

  CUDA_ARRAY_DESCRIPTOR descriptor{64, 64, CU_AD_FORMAT_FLOAT, 1};
  CUarray array;
  OK(cuArrayCreate(&array, &descriptor));
  const auto of_array = reinterpret_cast<uint64_t>(array);
  OK(copy_in(array, 0, host, 64));
  note(of_array, "copied_in");
  OK(copy_out(host, array, 0, 64));
  note(of_array, "copied_out");
  OK(copy_to_array(array, 0, a, 64));
  note(of_array, "copied_to");
  note(a, "copied_from");
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUtexObject texture;
  CUsurfObject surface;
  OK(make_texture(&texture, &resource, nullptr, nullptr));
  OK(make_surface(&surface, &resource));
  note(of_array, "texture", 2);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = b + 512;
  OK(make_texture(&texture, &resource, nullptr, nullptr));
  note(b, "texture");
  CUipcMemHandle handle;
  OK(cuIpcGetMemHandle(&handle, b));
  note(b, "passed_on");
}

void launches(CUstream stream) {
  const CUdeviceptr in = block(), out = block(), numbers = block(), in_struct = block(),
                    packed = block(), turned = block();
  block();  // never used
  CUfunction scale = function(kScale), count = function(kCount), plain = function(kPlain);
  CUdeviceptr first = in, second = out;
  void* two[] = {&first, &second};
  for (int i = 0; i < 100; ++i) OK(launch(scale, two, i % 2 == 0 ? stream : nullptr));
  note(in, std::string(kScale), 100);
  note(in, std::string(kScale) + " 0");
  note(out, std::string(kScale), 100);
  note(out, std::string(kScale) + " 1");
  // In place: one launch, two places. And in turn.
  first = turned;
  second = turned + 64;
  OK(launch(scale, two));
  first = in;
  OK(launch(scale, two));
  note(turned, std::string(kScale), 2);
  note(turned, std::string(kScale) + " 0");
  note(turned, std::string(kScale) + " 1");
  note(in, std::string(kScale));
  // By the signature, the second parameter is a number. The log has it, the report has not.
  first = in;
  second = numbers + 4096;
  OK(launch(count, two));
  note(in, kCount);
  note(in, std::string(kCount) + " 0");
  note(numbers, kCount);
  note(numbers, std::string(kCount) + " 1");
  // In a structure, and numbers that are half an address, or beside one.
  uint64_t structure[3] = {numbers >> 32, in_struct + 8, (numbers << 8) | 1}, nothing = 0;
  void* three[] = {&first, &nothing, structure};
  OK(launch(plain, three));
  note(in, kPlain);
  note(in, std::string(kPlain) + " 0");
  note(in_struct, kPlain);
  note(in_struct, std::string(kPlain) + " 2 inside");
  struct {
    uint64_t small, address;
  } buffer{5, packed};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(plain, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  note(packed, kPlain);
  note(packed, std::string(kPlain) + " ?");

  struct {
    unsigned sizes[7];
    CUstream stream;
    void* attributes;
    unsigned count;
  } configuration{{1, 1, 1, 1, 1, 1, 0}, stream, nullptr, 0};
  second = out;
  OK(launch_configured(&configuration, scale, two, nullptr));
  OK(cuLaunchCooperativeKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, two));
  note(in, kScale, 2);
  note(out, kScale, 2);
}

void graphs(CUstream stream) {
  const CUdeviceptr in = block(), out = block(), again = block();
  static char host[64];
  CUfunction scale = function(kScale);
  CUdeviceptr first = in, second = out;
  void* two[] = {&first, &second};
  CUgraph graph;
  CUgraphExec exec;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(launch(scale, two, stream));
  first = out;  // the buffers in turn
  second = in;
  OK(launch(scale, two, stream));
  first = again;  // in place
  second = again + 8;
  OK(launch(scale, two, stream));
  OK(cuMemsetD8Async(out, 0, 64, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(instantiate(&exec, graph, 0));
  for (int i = 0; i < 5; ++i) OK(cuGraphLaunch(exec, stream));
  for (const CUdeviceptr at : {in, out}) {
    note(at, kScale, 10);
    note(at, std::string(kScale) + " 0");
    note(at, std::string(kScale) + " 1");
  }
  note(again, kScale, 5);
  note(again, std::string(kScale) + " 0");
  note(again, std::string(kScale) + " 1");
  note(out, "filled", 5);

  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = in;
  CUgraph copies;
  CUgraphNode node;
  OK(cuGraphCreate(&copies, 0));
  OK(cuGraphAddMemcpyNode(&node, copies, nullptr, 0, &copy, nullptr));
  CUgraphExec of_copies;
  OK(instantiate(&of_copies, copies, 0));
  OK(cuGraphLaunch(of_copies, stream));
  note(in, "copied_in");
}

/// Another context and another device.
void elsewhere(CUcontext home) {
  CUcontext other;
  CUdevice device;
  OK(cuCtxGetDevice(&device));
  OK(create_context(&other, 0, device));
  const CUdeviceptr of_other = block();
  OK(cuMemsetD8(of_other, 0, 64));
  note(of_other, "filled");
  int devices = 0;
  OK(cuDeviceGetCount(&devices));
  if (devices > 1) {
    use_device(1);
    const CUdeviceptr of_second = block();
    OK(cuMemcpyPeer(of_second, nullptr, of_other, nullptr, 64));
    note(of_second, "copied_to");
    note(of_other, "copied_from");
  }
  OK(cuCtxSetCurrent(home));
}

}  // namespace

int main() {
  const CUcontext home = use_device(0);
  OK(cuModuleLoadData(&g_module, ""));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  copies(stream);
  launches(stream);
  graphs(stream);
  elsewhere(home);
  for (const auto& [at, book] : g_books) {
    printf("block %#llx\n", static_cast<unsigned long long>(at));
    for (const auto& [role, count] : book)
      printf("role %llu %s\n", static_cast<unsigned long long>(count), role.c_str());
  }
  return finish();
}
