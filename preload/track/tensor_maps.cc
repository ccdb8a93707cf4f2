#include "track/tensor_maps.h"

#include <cstring>

#include "base/hook_scope.h"
#include "base/memory.h"
#include "gpupeak/pages.h"
#include "track/device_book.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kMaps = 1 << 12;  // if two maps have one place, the later one stays
constexpr size_t kWords = kTensorMapBytes / sizeof(uint64_t);

struct KnownMap {
  uint64_t address = 0;  ///< 0: none
  uint64_t words[kWords];
};
constinit std::atomic<KnownMap*> g_maps{nullptr};  // entries are changed under the book's lock

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
  KnownMap& known = maps[place_of(words)];
  memcpy(known.words, words, sizeof words);
  known.address = address;
}

/// Reads without the lock. An entry that changes meanwhile either does not compare equal, or is the
/// new map.
void look_for_tensor_maps(const void* at, size_t bytes, SeenWords& seen) {
  const KnownMap* const maps = g_maps.load(std::memory_order_acquire);
  if (maps == nullptr) return;
  for (size_t offset = 0; offset + kTensorMapBytes <= bytes; offset += kTensorMapAlignment) {
    uint64_t words[kWords];
    read(static_cast<const char*>(at) + offset, words);
    const KnownMap& known = maps[place_of(words)];
    if (known.address != 0 && memcmp(known.words, words, sizeof words) == 0)
      seen.look_at(known.address);
  }
}

}  // namespace gpupeak::preload
