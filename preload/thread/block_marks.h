// A bit for each 8 bytes of addresses, so that of each live block one thing is known whatever thread
// frees it: whether the log has it, or that it has not (ProcessPage::marked). Lock-free. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hot.h"

namespace gpupeak::preload {

/// All addresses that a program can have are so many, in leaves that exist only where blocks have
/// been marked: also under `ulimit -v` there are addresses for those that are used.
constexpr uint64_t kMarkedAddresses = uint64_t{1} << 47;
constexpr uint64_t kLeafAddresses = 256 << 20;
using MarkLeaf = std::atomic<uint8_t>*;
extern GPUPEAK_OWN std::atomic<MarkLeaf>* g_mark_leaves;

/// Makes room, with no block marked: in a forked child the parent's are forgotten. False without
/// memory.
bool begin_marks();
/// Counts a dropped event where there is no memory for the mark.
void mark_block(const void* block);
/// True if the block was marked; it is not from here on.
bool unmark_block(const void* block);

inline __attribute__((always_inline)) bool is_marked(const void* block) {
  if (g_mark_leaves == nullptr) return false;
  const auto address = reinterpret_cast<uint64_t>(block);
  const MarkLeaf leaf = g_mark_leaves[(address & (kMarkedAddresses - 1)) / kLeafAddresses].load(
      std::memory_order_acquire);
  if (leaf == nullptr) return false;
  const uint8_t byte = leaf[(address & (kLeafAddresses - 1)) / 64].load(std::memory_order_relaxed);
  return (byte >> (address >> 3 & 7) & 1) != 0;
}

}  // namespace gpupeak::preload
