// By every way that clients take: dlsym of each ABI name, cuGetProcAddress of both forms with
// versions and flags, and the look-up asked for itself.
#include <cstring>

#include "client.h"

namespace {

using Lookup4 = CUresult (*)(const char*, void**, int, cuuint64_t);
using Lookup5 = CUresult (*)(const char*, void**, int, cuuint64_t, int*);
using Alloc = CUresult (*)(CUdeviceptr*, size_t);
using Alloc32 = CUresult (*)(unsigned*, unsigned);
using AllocAsync = CUresult (*)(CUdeviceptr*, size_t, CUstream);
using Free = CUresult (*)(CUdeviceptr);
using Free32 = CUresult (*)(unsigned);

template <typename Function>
Function by_name(void* library, const char* name) {
  void* const found = dlsym(library, name);
  CHECK(found != nullptr);
  return reinterpret_cast<Function>(found);
}

template <typename Function>
Function ask(Lookup5 lookup, const char* name, int version, cuuint64_t flags = 0) {
  void* found = nullptr;
  int status = -1;
  OK(lookup(name, &found, version, flags, &status));
  CHECK(found != nullptr && status == 0);
  return reinterpret_cast<Function>(found);
}

}  // namespace

int main() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  use_device(0);

  // Asked for itself, as libcudart does; what it gives is used from then on.
  auto five = by_name<Lookup5>(library, "cuGetProcAddress_v2");
  five = ask<Lookup5>(five, "cuGetProcAddress", 12000);
  auto four = ask<Lookup4>(five, "cuGetProcAddress", 11030);
  void* found = &found;
  int status = -1;
  OK(five("", &found, 0, 0, &status));
  CHECK(found == nullptr);
  found = &found;
  OK(four("cuNoSuchFunction", &found, 13000, 0));
  CHECK(found == nullptr);
  OK(five("cuNoSuchFunction", &found, 13000, 0, &status));
  CHECK(found == nullptr && status == 1);
  OK(five("cuMemAllocAsync", &found, 11010, 0, &status));
  CHECK(found == nullptr && status == 2);
  CHECK(five(nullptr, &found, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);

  // A version is a bound: the newest ABI that is not newer.
  CHECK(ask<void*>(five, "cuMemAlloc", 13000) == ask<void*>(five, "cuMemAlloc", 3020));
  CHECK(ask<void*>(five, "cuMemAlloc", 3019) == ask<void*>(five, "cuMemAlloc", 2000));
  CHECK(ask<void*>(five, "cuMemAlloc", 3020) != ask<void*>(five, "cuMemAlloc", 2000));
  CHECK(ask<void*>(five, "cuCtxCreate", 11040) != ask<void*>(five, "cuCtxCreate", 3020));
  CHECK(ask<void*>(five, "cuMemAllocAsync", 12000, 2) !=
        ask<void*>(five, "cuMemAllocAsync", 12000, 1));
  CHECK(ask<void*>(five, "cuMemAlloc", 12000, 2) == ask<void*>(five, "cuMemAlloc", 12000));

  // What was found so also does its work.
  CUdeviceptr block;
  unsigned low;
  OK(ask<Alloc>(five, "cuMemAlloc", 12000)(&block, 1000));
  OK(ask<Alloc32>(five, "cuMemAlloc", 2000)(&low, 2000));
  CHECK(live(0, "linear") == 3000);
  OK(four("cuMemFree", &found, 3020, 0));
  OK(reinterpret_cast<Free>(found)(block));
  OK(ask<Free32>(five, "cuMemFree", 2000)(low));
  OK(ask<AllocAsync>(five, "cuMemAllocAsync", 12000, 2)(&block, 3 * kMiB, nullptr));
  OK(by_name<AllocAsync>(library, "cuMemAllocAsync_ptsz")(&block, 4 * kMiB, nullptr));
  OK(by_name<Alloc>(library, "cuMemAlloc_v2")(&block, 5000));
  OK(by_name<Alloc32>(library, "cuMemAlloc")(&low, 6000));
  OK(by_name<Free32>(library, "cuMemFree")(low));
  CHECK(live(0, "linear") == 5000 && live(0, "pool_used") == 7 * kMiB);
  CHECK(dlsym(library, "cuNoSuchFunction") == nullptr);
  CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != nullptr);
  return finish();
}
