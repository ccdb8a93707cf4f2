// The ground truth that tests compare with: the bytes that the simulated driver itself knows to be
// live, and their largest value. It counts by rules of its own, without code of the tool under
// test.
#pragma once

#include <cstdint>

namespace fake_cuda {

enum class Kind {
  // of a device; the first five add up to its total
  linear,
  pool_used,
  vmm,
  array,
  graph_reserved,
  // of a device, in no total
  pool_reserved,
  managed,
  imported,   ///< the exporter owns the bytes
  addresses,  ///< cuMemAddressReserve
  device_total,
  // of the host, for all devices; the first two add up to its total
  pinned,
  host_vmm,  ///< cuMemCreate and pools with a host location
  registered,
  host_total,
  limit
};

/// `device` is ignored for the kinds of the host. All functions here need the driver's lock.
void ledger_add(int device, Kind kind, uint64_t bytes);
void ledger_remove(int device, Kind kind, uint64_t bytes);

/// Writes the ledger to FAKE_CUDA_LEDGER, as JSON.
void write_ledger();

}  // namespace fake_cuda

/// For programs under test. `kind`: as in the JSON file; `which`: "live" or "peak"; device -1: the
/// host.
extern "C" unsigned long long fake_cuda_ledger(int device, const char* kind, const char* which);
