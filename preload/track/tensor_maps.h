// Tensor maps (CUtensorMap). The driver makes one of an address, and a kernel gets it by value: 128
// bytes that only the driver can read. The maps that the driver made are kept by their bytes, as
// many as fit. So the address is known when a map is found among a launch's parameters. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "track/last_use.h"

namespace gpupeak::preload {

constexpr size_t kTensorMapBytes = 128, kTensorMapAlignment = 64;

/// The driver made a map of the memory at `address`, and wrote it to `map`.
void note_tensor_map(const void* map, uint64_t address);
/// Whether the driver has made a map.
extern constinit GPUPEAK_OWN std::atomic<bool> g_has_tensor_maps;
/// Looks for maps in parameters: at `at`, and each kTensorMapAlignment bytes behind it.
void look_for_tensor_maps(const void* at, size_t bytes, uint16_t place, SeenWords& seen);

}  // namespace gpupeak::preload
