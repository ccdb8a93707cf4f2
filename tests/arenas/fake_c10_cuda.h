// The stand-in for PyTorch's caching allocator, by its rules: blocks of 512 bytes' multiples, small
// and large ones apart, the best fit split and merged; segments from the driver of 2 MiB, 20 MiB or
// as asked for, given back where the driver refuses; private pools, segments that grow in place, a
// lock a device; with a ledger of its own, which is the truth. What could not be mapped whole is
// unmapped again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fake_c10.h"

struct FakeTorchLedger {
  uint64_t in_use, reserved, peak_in_use, peak_reserved, given, failed;
};
/// Called with the device's lock held after each change.
using FakeTorchObserver = void (*)(int device, const FakeTorchLedger& ledger);
using FakeTorchVisit = void (*)(int device, uint64_t address, uint64_t bytes);

struct FakeTorch {
  void (*init)(bool expandable, FakeTorchObserver observer);
  /// nullptr: out of memory. `pool`: 0 the common one, others are private.
  void* (*give)(int device, int pool, size_t bytes);
  void (*take)(int device, void* at);
  void (*empty_cache)(int device);
  void (*for_each_block)(FakeTorchVisit visit);
  FakeC10Calls (*real_calls)();
  FakeC10Calls (*own_calls)();  ///< what it called, as fake_c10_calls() counts
  void (*throw_once)();
  /// As set_per_process_memory_fraction does: beyond it the driver is not asked.
  void (*limit)(uint64_t bytes);
};
extern "C" const FakeTorch* fake_torch();
