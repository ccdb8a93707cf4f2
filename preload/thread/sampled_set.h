// Which live blocks the log has, so that their frees are logged, and no others.
// GPUPEAK_HOST=sampled: a set of those in the sample. A log that has reached GPUPEAK_LOG_MAX: marks
// at those that it lacks, since what it had before may be much. Lock-free. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Makes room; `mean_bytes` is the mean gap between sampled bytes. False without memory.
bool init_sampling(uint64_t mean_bytes);
/// An exponentially distributed gap in bytes for 64 random bits.
int64_t exponential_gap(uint64_t random);
/// False if there is no room: the block is then left out of the sample and counted as dropped.
bool sampled_set_insert(const void* block);
/// Whether the block may be in the set; else it is not.
bool sampled_set_may_have(const void* block);
/// True if the block was in the set.
bool sampled_set_erase(const void* block);

/// Once the log has reached GPUPEAK_LOG_MAX, the heap is a sample from there on.
void keep_to_log_limit();
/// A block that the log does not have, in a process that is sampled late. What is not noted here
/// was logged before.
void note_unlogged(const void* block);
/// True if the block was noted; it is not from here on.
bool forget_unlogged(const void* block);

}  // namespace gpupeak::preload
