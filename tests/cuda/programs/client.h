// What the client programs share: checks, and a context to work in.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (false)

#define OK(call) CHECK((call) == CUDA_SUCCESS)

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

// The simulated driver's own knowledge; see fake_cuda/ledger.h.
extern "C" unsigned long long fake_cuda_ledger(int device, const char* kind, const char* which);
extern "C" unsigned long long fake_cuda_alloc_unseen(unsigned long long bytes);

inline uint64_t live(int device, const char* kind) {
  return fake_cuda_ledger(device, kind, "live");
}

// The classic form: cuda.h names a newer one, whose parameters depend on the toolkit.
extern "C" CUresult create_context(CUcontext* out, unsigned flags,
                                   CUdevice device) asm("cuCtxCreate_v2");

/// The primary context of a device, current on this thread.
inline CUcontext use_device(int ordinal) {
  OK(cuInit(0));
  CUdevice device;
  OK(cuDeviceGet(&device, ordinal));
  CUcontext context;
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  return context;
}

inline CUdeviceptr allocate(uint64_t bytes) {
  CUdeviceptr at = 0;
  OK(cuMemAlloc(&at, bytes));
  return at;
}

inline int finish() {
  puts("ok");
  return 0;
}
