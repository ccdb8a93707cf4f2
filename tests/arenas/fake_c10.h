// A stand-in for libc10.so and libc10_cuda.so: the same mangled names, called through the PLT as in
// the real ones. FAKE_C10_ABI tells which of PyTorch's three forms the functions have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
  int8_t type;  ///< 1: CUDA
  int8_t index;
};

#if FAKE_C10_ABI == 0  // since 2.1
void reportMemoryUsageToProfiler(void* at, int64_t bytes, size_t in_use, size_t reserved, Device);
void reportOutOfMemoryToProfiler(int64_t bytes, size_t in_use, size_t reserved, Device);
#elif FAKE_C10_ABI == 1
void reportMemoryUsageToProfiler(void* at, int64_t bytes, int64_t in_use, int64_t reserved, Device);
void reportOutOfMemoryToProfiler(int64_t bytes, int64_t in_use, int64_t reserved, Device);
#else  // 1.9 and older
void reportMemoryUsageToProfiler(void* at, int64_t bytes, Device);
#endif

}  // namespace c10

/// What the real functions were called with, which must be all calls, unchanged.
struct FakeC10Calls {
  uint64_t calls, failures;
  int64_t bytes;
  uint64_t hash;  ///< over all arguments, in any order of calls
};
extern "C" FakeC10Calls fake_c10_calls();
/// The next call throws, as a profiler may.
extern "C" void fake_c10_throw_once();
