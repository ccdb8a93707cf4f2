// The simulated machine, as environment variables describe it.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

struct Config {
  int devices = 1;                      ///< FAKE_CUDA_DEVICES
  uint64_t memory_bytes = 80ull << 30;  ///< FAKE_CUDA_MEMORY, of each device: 80GiB, 512MiB, bytes
  /// FAKE_CUDA_UNIFIED. `integrated`: devices have no memory of their own, as on Jetson; the
  /// process's host memory takes of the same memory. `coherent`: devices have memory, and also use
  /// the host's by its page tables, as on Grace Hopper.
  bool integrated = false, coherent = false;
  bool costs = false;         ///< FAKE_CUDA_COSTS=on: see costs.h
  uint64_t others_bytes = 0;  ///< FAKE_CUDA_OTHERS: in use by other processes at the start
  /// FAKE_CUDA_JOINING: other processes take it while the first context is made
  uint64_t joining_bytes = 0;
  /// FAKE_CUDA_LEAVING: other processes give it back while a primary context is released
  uint64_t leaving_bytes = 0;
  uint64_t host_blocks = 0;  ///< FAKE_CUDA_HOST_BLOCKS: small ones that a primary context mallocs
  std::string ledger_path;   ///< FAKE_CUDA_LEDGER: written at exit; %p becomes the pid
};

/// The configuration, read once.
const Config& config();

/// FAKE_CUDA_FAIL="cuMemAlloc:3:2,…": the third call of that base name fails with CUresult 2.
/// Counts this call; returns the result to fail with, or 0. Needs the driver's lock.
int injected_failure(const char* base_name);

}  // namespace fake_cuda
