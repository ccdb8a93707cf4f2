// Which live blocks are in the sample (GPUPEAK_HOST=sampled), so that their frees are logged and no
// others. Lock-free. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Makes room; `mean_bytes` is the mean gap between sampled bytes. False without memory.
bool init_sampling(uint64_t mean_bytes);
/// An exponentially distributed gap in bytes for 64 random bits.
int64_t exponential_gap(uint64_t random);
/// False if there is no room: the block is then left out of the sample and counted as dropped.
bool sampled_set_insert(const void* block);
/// True if the block was in the set.
bool sampled_set_erase(const void* block);

}  // namespace gpupeak::preload
