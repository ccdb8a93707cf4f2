// Through the stand-in for libcudart, which finds the driver and its functions as the real one
// does. This program is not linked with the driver.
#include <thread>
#include <vector>

#include "client.h"
#include "cudart.h"

namespace {

unsigned long long ledger(int device, const char* kind) {
  using Ledger = unsigned long long (*)(int, const char*, const char*);
  static const auto get = reinterpret_cast<Ledger>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_ledger"));
  CHECK(get != nullptr);
  return get(device, kind, "live");
}

#define RUN(call) CHECK((call) == 0)

}  // namespace

int main() {
  CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  void *linear, *pitched, *pooled, *pooled_ptsz, *pinned, *managed, *elsewhere;
  size_t pitch, free_bytes, total;
  RUN(cudaMalloc(&linear, 10 * kMiB));
  RUN(cudaMallocPitch(&pitched, &pitch, 999, 77));
  CHECK(ledger(0, "linear") == 10 * kMiB + pitch * 77);
  CUstream stream;
  RUN(cudaStreamCreate(&stream));
  RUN(cudaMallocAsync(&pooled, 3 * kMiB, stream));
  RUN(cudaMallocAsync_ptsz(&pooled_ptsz, 2 * kMiB, stream));
  CHECK(ledger(0, "pool_used") == 5 * kMiB);
  RUN(cudaFreeAsync_ptsz(pooled, stream));
  RUN(cudaStreamSynchronize(stream));
  RUN(cudaMallocHost(&pinned, 100000));
  std::vector<char> own(50000);
  RUN(cudaHostRegister(own.data(), own.size(), 0));
  RUN(cudaMallocManaged(&managed, 4 * kMiB, 1));
  CUarray array;
  RUN(cudaMalloc3DArrayOfFloats(&array, 10, 20, 30));
  CHECK(ledger(0, "array") == 24000);
  RUN(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes < total);
  RUN(cudaFree(linear));
  CHECK(cudaFree(linear) != 0);
  RUN(cudaHostUnregister(own.data()));
  RUN(cudaFreeArray(array));
  std::thread([&] {
    RUN(cudaSetDevice(1));
    RUN(cudaMalloc(&elsewhere, 6 * kMiB));
    CHECK(ledger(1, "linear") == 6 * kMiB);
    RUN(cudaDeviceReset());
    CHECK(ledger(1, "linear") == 0);
    RUN(cudaMalloc(&elsewhere, 7000));
  }).join();
  RUN(cudaFreeHost(pinned));
  RUN(cudaStreamDestroy(stream));
  RUN(cudaDeviceSynchronize());
  CHECK(ledger(0, "linear") == pitch * 77 && ledger(0, "pool_used") == 2 * kMiB);
  return finish();
}
