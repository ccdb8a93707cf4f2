#include "thread/block_marks.h"

#include <sys/mman.h>

#include "base/memory.h"
#include "base/syscalls.h"
#include "log/log.h"

namespace gpupeak::preload {

constinit std::atomic<std::atomic<MarkLeaf>*> g_mark_leaves{nullptr};

namespace {

constexpr uint64_t kLeafBytes = kLeafAddresses / 8 / 8;
constexpr uint64_t kLeaves = kMarkedAddresses / kLeafAddresses;

/// The byte of `address`. Its leaf is made if `make`. nullptr: there is no leaf, or no memory for
/// one.
std::atomic<uint8_t>* byte_of(uint64_t address, bool make) {
  std::atomic<MarkLeaf>* const leaves = g_mark_leaves.load(std::memory_order_acquire);
  std::atomic<MarkLeaf>& place = leaves[(address & (kMarkedAddresses - 1)) / kLeafAddresses];
  MarkLeaf leaf = place.load(std::memory_order_acquire);
  if (leaf == nullptr && make) {
    auto* made = static_cast<MarkLeaf>(reserve_pages(kLeafBytes));
    if (made == nullptr) return nullptr;
    sys::madvise(made, kLeafBytes, MADV_DONTDUMP);
    if (place.compare_exchange_strong(leaf, made, std::memory_order_acq_rel)) {
      leaf = made;
    } else {
      sys::munmap(made, kLeafBytes);  // another thread was faster
    }
  }
  return leaf == nullptr ? nullptr : leaf + (address & (kLeafAddresses - 1)) / 64;
}
uint8_t bit_of(uint64_t address) {
  return static_cast<uint8_t>(1u << (address >> 3 & 7));
}

}  // namespace

bool begin_marks() {
  std::atomic<MarkLeaf>* leaves = g_mark_leaves.load(std::memory_order_relaxed);
  if (leaves == nullptr) {
    leaves = static_cast<std::atomic<MarkLeaf>*>(reserve_pages(kLeaves * sizeof(MarkLeaf)));
    g_mark_leaves.store(leaves, std::memory_order_release);
    return leaves != nullptr;
  }
  for (uint64_t i = 0; i < kLeaves; ++i) {
    if (MarkLeaf leaf = leaves[i].load(std::memory_order_relaxed))
      sys::madvise(leaf, kLeafBytes, MADV_DONTNEED);
  }
  return true;
}

GPUPEAK_HOT void mark_block(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (std::atomic<uint8_t>* byte = byte_of(address, true)) {
    byte->fetch_or(bit_of(address), std::memory_order_relaxed);
  } else {
    count(&gpupeak_counters_page::dropped_events);
  }
}

GPUPEAK_HOT bool unmark_block(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const uint8_t bit = bit_of(address);
  std::atomic<uint8_t>* byte = byte_of(address, false);
  if (byte == nullptr || (byte->load(std::memory_order_relaxed) & bit) == 0) return false;
  byte->fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
  return true;
}

}  // namespace gpupeak::preload
