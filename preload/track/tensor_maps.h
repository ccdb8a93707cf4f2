// Tensor maps (CUtensorMap), which the driver makes of an address and which a kernel is given by
// value: 128 bytes that the driver alone can read. Those it made are kept by their bytes, as many
// as fit, so that the address is known when one is found among a launch's parameters. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "track/last_use.h"

namespace gpupeak::preload {

constexpr size_t kTensorMapBytes = 128, kTensorMapAlignment = 64;

/// The driver made the map, which lies at `map` now, of the memory at `address`.
void note_tensor_map(const void* map, uint64_t address);
/// Whether there was one.
extern constinit GPUPEAK_OWN std::atomic<bool> g_has_tensor_maps;
/// Where parameters may hold maps: at `at`, and behind it each kTensorMapAlignment bytes.
void look_for_tensor_maps(const void* at, size_t bytes, SeenWords& seen);

}  // namespace gpupeak::preload
