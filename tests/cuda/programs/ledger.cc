// One of each call that takes device memory which nobody asked for, on two devices, from several
// threads; managed memory that is touched; other processes that come and go. Ends without tearing
// anything down, so that the report's last reading has all of it.
#include <chrono>
#include <thread>
#include <vector>

#include "client.h"

extern "C" void fake_cuda_touch(unsigned long long at);
extern "C" void fake_cuda_set_others(int device, unsigned long long bytes);

namespace {

CUfunction function_of(CUmodule module, const char* name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

void launch(CUfunction function) {
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

void use(int device) {
  const CUcontext context = use_device(device);
  CUmodule module;
  OK(cuModuleLoadData(&module, "image"));
  const CUfunction plain = function_of(module, "plain"), local = function_of(module, "local_4096");
  for (int i = 0; i < 3; ++i) launch(plain);
  launch(local);
  std::vector<CUstream> streams(20);
  for (CUstream& stream : streams) OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 5 * kMiB));
  for (const uint64_t bytes : {1000 * kKiB, 100 * kKiB, 3 * kMiB + 1, kKiB, 40 * kMiB})
    allocate(bytes);
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR descriptor{100, 50, CU_AD_FORMAT_FLOAT, 1};
  OK(cuArrayCreate(&array, &descriptor));
  CUdeviceptr pooled;
  OK(cuMemAllocAsync(&pooled, 10 * kMiB, streams[0]));
  OK(cuStreamSynchronize(streams[0]));
  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, 3 * kMiB, CU_MEM_ATTACH_GLOBAL));
  fake_cuda_touch(managed);
  // A context of its own has its own copy of the code.
  CUcontext second;
  OK(create_context(&second, 0, device));
  CUmodule other;
  OK(cuModuleLoadData(&other, "image"));
  launch(function_of(other, "plain"));
  OK(cuCtxSetCurrent(context));
}

void load_and_launch() {
  CUmodule module;
  OK(cuModuleLoadData(&module, "image"));
  launch(function_of(module, "plain"));
}

/// Each in a thread of its own, 50 times.
void in_threads(const std::vector<void (*)(int round)>& works) {
  std::vector<std::thread> threads;
  for (const auto work : works) {
    threads.emplace_back([work] {
      use_device(0);
      for (int round = 0; round < 50; ++round) work(round);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  use(0);
  const auto all = [](int round) {
    const CUdeviceptr block = allocate(2 * kMiB + static_cast<uint64_t>(round));
    load_and_launch();
    OK(cuMemFree(block));
  };
  in_threads({all, all, all, all});
  // One synchronises, where the driver is asked at times; another loads code meanwhile.
  const auto synchronise = [](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    OK(cuCtxSynchronize());
  };
  const auto code = [](int) { load_and_launch(); };
  in_threads({synchronise, code});
  // Where only cuMemGetInfo is there to be asked, a device is read while its context is current.
  const auto read = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    OK(cuCtxSynchronize());
  };
  read();
  use(1);
  read();
  // Without NVML other processes cannot be told from this one.
  const char* nvml = getenv("FAKE_NVML");
  if (nvml != nullptr && nvml[0] == 'o' && nvml[1] == 'n') fake_cuda_set_others(1, 300 * kMiB);
  return finish();
}
