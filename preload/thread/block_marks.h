// A bit for each 8 bytes of addresses: a live heap block has a mark, or has none. So any thread
// that frees the block knows whether it is in the log. ProcessPage::marked says which blocks have
// marks: those that the log has, or those that it does not have. Lock-free. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hot.h"

namespace gpupeak::preload {

/// The table covers all addresses that a program can have. A leaf exists only where a block has
/// been marked, so that the table fits under `ulimit -v`.
constexpr uint64_t kMarkedAddresses = uint64_t{1} << 47;
constexpr uint64_t kLeafAddresses = 256 << 20;
using MarkLeaf = std::atomic<uint8_t>*;
extern GPUPEAK_OWN std::atomic<std::atomic<MarkLeaf>*> g_mark_leaves;

/// Makes the table, with no block marked: a forked child forgets its parent's marks. False: no
/// memory.
bool begin_marks();
/// Counts a dropped event if there is no memory for the mark.
void mark_block(const void* block);
/// Takes the mark away. True if the block had one.
bool unmark_block(const void* block);

inline __attribute__((always_inline)) bool is_marked(const void* block) {
  std::atomic<MarkLeaf>* const leaves = g_mark_leaves.load(std::memory_order_acquire);
  if (leaves == nullptr) return false;
  const auto address = reinterpret_cast<uint64_t>(block);
  const MarkLeaf leaf =
      leaves[(address & (kMarkedAddresses - 1)) / kLeafAddresses].load(std::memory_order_acquire);
  if (leaf == nullptr) return false;
  const uint8_t byte = leaf[(address & (kLeafAddresses - 1)) / 64].load(std::memory_order_relaxed);
  return (byte >> (address >> 3 & 7) & 1) != 0;
}

}  // namespace gpupeak::preload
