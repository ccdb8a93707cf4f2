#include "track/tensor_maps.h"

#include <atomic>
#include <cstring>

#include "base/hook_scope.h"
#include "base/memory.h"
#include "gpupeak/pages.h"
#include "track/device_book.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMaps = 1 << 12;  // if two maps have one place, the later one stays
constexpr size_t kWords = kTensorMapBytes / sizeof(uint64_t);

/// Changed under the book's lock, and read without it. Whoever reads any value of a change sees the
/// odd version before it (the two fences) or a later one, and the versions differ then. All words
/// may be those of an old map and of its address again: only the version tells.
struct KnownMap {
  std::atomic<uint64_t> version;  ///< odd: it changes just now
  std::atomic<uint64_t> address;  ///< 0: none
  std::atomic<uint64_t> words[kWords];

  void set(const uint64_t* to, uint64_t its_address) {
    const uint64_t now = version.load(std::memory_order_relaxed);
    version.store(now + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words[i].store(to[i], std::memory_order_relaxed);
    address.store(its_address, std::memory_order_relaxed);
    version.store(now + 2, std::memory_order_release);
  }
  /// The address that belongs to these words; 0: none is known.
  uint64_t address_of(const uint64_t* wanted) const {
    const uint64_t before = version.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) {
      if (words[i].load(std::memory_order_relaxed) != wanted[i]) return 0;
    }
    const uint64_t its_address = address.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = before % 2 == 0 && version.load(std::memory_order_relaxed) == before;
    return is_whole ? its_address : 0;
  }
};
constinit std::atomic<KnownMap*> g_maps{nullptr};

void read(const void* at, uint64_t* words) {
  memcpy(words, at, kTensorMapBytes);
}

size_t place_of(const uint64_t* words) {
  uint64_t hash = 0;
  for (size_t i = 0; i < kWords; ++i) hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(hash >> 40) % kMaps;
}

}  // namespace

constinit std::atomic<bool> g_has_tensor_maps{false};

void note_tensor_map(const void* map, uint64_t address) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  KnownMap* maps = g_maps.load(std::memory_order_relaxed);
  if (maps == nullptr) {
    maps = static_cast<KnownMap*>(map_pages(whole_pages(kMaps * sizeof(KnownMap))));
    if (maps == nullptr) return;
    g_maps.store(maps, std::memory_order_release);
    g_has_tensor_maps.store(true, std::memory_order_relaxed);
  }
  uint64_t words[kWords];
  read(map, words);
  maps[place_of(words)].set(words, address);
}

void look_for_tensor_maps(const void* at, size_t bytes, uint16_t place, SeenWords& seen) {
  const KnownMap* const maps = g_maps.load(std::memory_order_acquire);
  if (maps == nullptr) return;
  for (size_t offset = 0; offset + kTensorMapBytes <= bytes; offset += kTensorMapAlignment) {
    uint64_t words[kWords];
    read(static_cast<const char*>(at) + offset, words);
    if (const uint64_t address = maps[place_of(words)].address_of(words))
      seen.look_at(address, place);
  }
}

}  // namespace gpupeak::preload
