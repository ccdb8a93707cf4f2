// PyTorch's allocator tells libc10 of each block that it hands out and takes back, whether or not a
// profiler runs. The function for that is exported and called through the PLT. Ours is found first:
// it notes the block and calls the real one.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "hooks/adapters.h"
#include "hooks/export.h"
#include "track/arenas.h"

namespace gpupeak::preload {
namespace {

/// c10::Device, which is passed in one register.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCuda = 1;

enum Entry : uint32_t {
  kUsageTotals,
  kUsageSignedTotals,
  kUsage,
  kFailed,
  kFailedSigned,
  kEntries
};
constexpr const char* kNames[kEntries] = {
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",  // since 2.1
    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE",  // before 1.10
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
};

/// The real function for a caller. There is no lock: if two threads write an entry at once, it fits
/// no caller, since `check` is made of the key and of `real`.
struct Known {
  std::atomic<uintptr_t> real{0};
  std::atomic<uintptr_t> check{0};
};
constexpr size_t kPlaces = 64;
constexpr size_t kTries = 4;  // places to try: else two callers may displace each other in turn
constinit Known g_known[kPlaces];
constinit std::atomic<uintptr_t> g_generation{1};

GPUPEAK_HOT uintptr_t real_for(const void* caller, Entry entry) {
  const uintptr_t generation = g_generation.load(std::memory_order_acquire);
  const uintptr_t key =
      (reinterpret_cast<uintptr_t>(caller) * kEntries + entry) ^ (generation << 56);
  const size_t home = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 58;
  Known* free = &g_known[home];
  for (size_t i = 0; i < kTries; ++i) {
    Known& known = g_known[(home + i) % kPlaces];
    const uintptr_t real = known.real.load(std::memory_order_relaxed);
    const uintptr_t its_key = known.check.load(std::memory_order_relaxed) ^ real;
    if (its_key == key) return real;
    if (its_key >> 56 != key >> 56) {  // empty, or from before an unload
      free = &known;
      break;
    }
  }
  // libc10 is loaded with RTLD_LOCAL, so the program's scope does not have it. The caller's own
  // library names it as needed.
  void* found = find_for(caller, kNames[entry]);
  if (found == nullptr) found = find_in("libc10.so", kNames[entry]);
  const auto real = reinterpret_cast<uintptr_t>(found);
  free->real.store(real, std::memory_order_relaxed);
  free->check.store(real ^ key, std::memory_order_relaxed);
  return real;
}

template <typename... Arguments>
__attribute__((always_inline)) inline void go_on(const void* caller, Entry entry,
                                                 Arguments... arguments) {
  const auto real = reinterpret_cast<void (*)(Arguments...)>(real_for(caller, entry));
  if (real != nullptr) real(arguments...);
}

bool is_ours(Device device) {
  return device.type == kCuda && device.index >= 0 && environment().arenas;
}

template <typename Total>
ArenaSays says_of(Total in_use, Total reserved) {
  return {static_cast<uint64_t>(in_use) + 1, static_cast<uint64_t>(reserved) + 1};
}

inline __attribute__((always_inline)) void note(const void* at, int64_t bytes,
                                                const ArenaSays& says, Device device,
                                                const CallerFrame& caller) {
  if (!is_ours(device) || at == nullptr) return;
  const auto address = reinterpret_cast<uint64_t>(at);
  if (bytes >= 0) {
    torch_block_given(device.index, address, static_cast<uint64_t>(bytes), says, caller);
  } else {
    torch_block_taken(device.index, address, 0 - static_cast<uint64_t>(bytes), says);
  }
}

void note_failed(int64_t bytes, ArenaSays says, Device device, const CallerFrame& caller) {
  if (is_ours(device)) torch_failed(device.index, static_cast<uint64_t>(bytes), says, caller);
}

bool is_c10_entry(const char* name) {
  return strncmp(name, "_ZN3c102", 8) == 0 &&
         std::ranges::any_of(kNames,
                             [name](const char* entry) { return strcmp(entry, name) == 0; });
}

}  // namespace

const Adapter kC10Adapter{.of = "PyTorch's libc10",
                          .wants = is_c10_entry,
                          .replace = behind_us,
                          .forget_unloaded = [] {  // the real functions must be looked up anew
                            g_generation.fetch_add(1, std::memory_order_acq_rel);
                          }};

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

#define GPUPEAK_RETURN_ADDRESS __builtin_return_address(0)

// With totals, of which older releases have signed ones.
#define REPORTS(types, Total, usage_entry, failed_entry)                                       \
  GPUPEAK_EXPORT GPUPEAK_HOT void _ZN3c1027reportMemoryUsageToProfilerEPv##types##NS_6DeviceE( \
      void* at, int64_t bytes, Total in_use, Total reserved, Device device) {                  \
    note(at, bytes, says_of(in_use, reserved), device, GPUPEAK_CALLER);                        \
    go_on(GPUPEAK_RETURN_ADDRESS, usage_entry, at, bytes, in_use, reserved, device);           \
  }                                                                                            \
  GPUPEAK_EXPORT void _ZN3c1027reportOutOfMemoryToProfilerE##types##NS_6DeviceE(               \
      int64_t bytes, Total in_use, Total reserved, Device device) {                            \
    note_failed(bytes, says_of(in_use, reserved), device, GPUPEAK_CALLER);                     \
    go_on(GPUPEAK_RETURN_ADDRESS, failed_entry, bytes, in_use, reserved, device);              \
  }
REPORTS(lmm, uint64_t, kUsageTotals, kFailed)
REPORTS(lll, int64_t, kUsageSignedTotals, kFailedSigned)
#undef REPORTS

GPUPEAK_EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(void* at, int64_t bytes,
                                                                        Device device) {
  note(at, bytes, {}, device, GPUPEAK_CALLER);
  go_on(GPUPEAK_RETURN_ADDRESS, kUsage, at, bytes, device);
}
