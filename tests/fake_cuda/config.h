// What the environment says about the simulated machine.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

struct Config {
  int devices = 1;                      ///< FAKE_CUDA_DEVICES
  uint64_t memory_bytes = 80ull << 30;  ///< FAKE_CUDA_MEMORY, of each device: 80GiB, 512MiB, bytes
  /// FAKE_CUDA_UNIFIED. `integrated`: devices have no memory of their own, as Jetson's; the process's
  /// host memory takes of the same. `coherent`: they have, and use the host's by its page tables, as
  /// Grace Hopper's.
  bool integrated = false, coherent = false;
  bool costs = false;                   ///< FAKE_CUDA_COSTS=on: see costs.h
  uint64_t others_bytes = 0;  ///< FAKE_CUDA_OTHERS: in use by other processes at the start
  uint64_t joining_bytes = 0;  ///< FAKE_CUDA_JOINING: others take it while the first context is made
  std::string ledger_path;    ///< FAKE_CUDA_LEDGER: written at exit; %p becomes the pid
};

/// Read once.
const Config& config();

/// FAKE_CUDA_FAIL="cuMemAlloc:3:2,…": the third call of that base name fails with CUresult 2.
/// Counts this call; returns the result to fail with, or 0. Needs the driver's lock.
int injected_failure(const char* base_name);

}  // namespace fake_cuda
