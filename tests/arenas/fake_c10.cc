#include "fake_c10.h"

#include <atomic>
#include <stdexcept>

namespace {

std::atomic<uint64_t> g_calls, g_failures, g_hash;
std::atomic<int64_t> g_bytes;
std::atomic<bool> g_throws;

void note(void* at, int64_t bytes, uint64_t in_use, uint64_t reserved, c10::Device device) {
  ++g_calls;
  g_bytes += bytes;
  g_hash += (reinterpret_cast<uint64_t>(at) ^ static_cast<uint64_t>(bytes) * 3 ^ in_use * 5 ^
             reserved * 7 ^ static_cast<uint64_t>(device.index) * 11 ^
             static_cast<uint64_t>(device.type) * 13) *
            UINT64_C(0x9e3779b97f4a7c15);
  if (g_throws.exchange(false)) throw std::runtime_error("a profiler's");
}

}  // namespace

namespace c10 {

#if FAKE_C10_ABI == 0
void reportMemoryUsageToProfiler(void* at, int64_t bytes, size_t in_use, size_t reserved,
                                 Device device) {
  note(at, bytes, in_use, reserved, device);
}
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device) {
  ++g_failures;
}
#elif FAKE_C10_ABI == 1
void reportMemoryUsageToProfiler(void* at, int64_t bytes, int64_t in_use, int64_t reserved,
                                 Device device) {
  note(at, bytes, static_cast<uint64_t>(in_use), static_cast<uint64_t>(reserved), device);
}
void reportOutOfMemoryToProfiler(int64_t, int64_t, int64_t, Device) {
  ++g_failures;
}
#else
void reportMemoryUsageToProfiler(void* at, int64_t bytes, Device device) {
  note(at, bytes, 0, 0, device);
}
#endif

}  // namespace c10

FakeC10Calls fake_c10_calls() {
  return {g_calls, g_failures, g_bytes, g_hash};
}
void fake_c10_throw_once() {
  g_throws = true;
}
