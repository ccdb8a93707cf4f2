#include "hooks/ort_arena.h"

#include <cstring>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/futex_lock.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "base/virtual_table.h"
#include "hooks/ort_arena_table.h"
#include "life/process.h"
#include "stack/module_map.h"
#include "track/pool_ort.h"

namespace gpupeak::preload {

constinit OrtArenaTable g_ort_arena_tables[kMostOrtArenaTables];

namespace {

constinit FutexLock g_writing;      // tables share pages
constinit int g_call_filters = -1;  // when the first was taken over

/// Where the functions stand: by the classes' declarations in each release, and as found in the
/// libraries of 1.15, 1.17, 1.20 to 1.27, 1.29 and 1.30.
constexpr size_t kNone = SIZE_MAX;
struct Layout {
  int first_minor, last_minor;
  size_t least, most;  ///< functions of the table
  const char* base;    ///< the class that the arena's is derived from
  size_t slot[kOrtArenaFunctions];
  size_t statistics;
};
constexpr Layout kLayouts[] = {
    // Alloc, AllocOnStream (no virtual function yet), Reserve, Free, the destructors
    {15, 22, 7, 7, "N11onnxruntime10IAllocatorE", {2, kNone, 4, 3, 0, 1}, 5},
    {23, 23, 8, 8, "N11onnxruntime10IAllocatorE", {2, 4, 6, 5, 0, 1}, 7},
    {24, 30, 10, 12, "N11onnxruntime6IArenaE", {2, 4, 6, 5, 0, 1}, 7},
};
constexpr const char* kArena = "N11onnxruntime8BFCArenaE";
constexpr const char* kStreamArena = "N11onnxruntime19StreamAwareBFCArenaE";
constexpr const char* kOldStreamArena = "N11onnxruntime16StreamAwareArenaE";  // till 1.23

const Layout* layout_of(int minor, const VirtualTable& table) {
  for (const Layout& layout : kLayouts) {
    if (minor >= layout.first_minor && minor <= layout.last_minor && table.count >= layout.least &&
        table.count <= layout.most && strcmp(table.base, layout.base) == 0) {
      return &layout;
    }
  }
  return nullptr;
}

/// The arena for streams has these functions of the other one, and its own for streams.
bool is_stream_arena(const VirtualTable& derived, const VirtualTable& arena, const Layout& layout) {
  if (derived.slots == nullptr || derived.count < arena.count ||
      strcmp(derived.base, kArena) != 0) {
    return false;
  }
  for (const size_t slot : {layout.slot[kOrtAlloc], layout.slot[kOrtFree], layout.slot[kOrtReserve],
                            layout.statistics}) {
    if (derived.slots[slot] != arena.slots[slot]) return false;
  }
  const size_t on_stream = layout.slot[kOrtAllocOnStream];
  return derived.slots[on_stream] != arena.slots[on_stream];
}

/// Whether the slots hold what we put there: a library that was loaded where another one was has
/// its own functions there.
bool is_taken(const OrtArenaTable& table, size_t place) {
  const uintptr_t* slots = table.slots.load(std::memory_order_acquire);
  return slots[table.slot[kOrtAlloc]] == gpupeak_ort_arena_thunks[place][kOrtAlloc];
}

/// A sandbox that the program has gone into since might kill for making a page writable.
void put_back(OrtArenaTable& table) {
  uintptr_t* const slots = table.slots.load(std::memory_order_acquire);
  if (slots == nullptr || call_filters() != g_call_filters) return;
  for (size_t i = 0; i < kOrtArenaFunctions; ++i) {
    if (table.slot[i] != kNone && slots[table.slot[i]] != table.real[i]) {
      replace_slot(slots + table.slot[i], table.real[i]);
    }
  }
}

bool take_over(const VirtualTable& found, const Layout& layout) {
  size_t place = 0;
  for (; place < kMostOrtArenaTables; ++place) {
    if (g_ort_arena_tables[place].slots.load(std::memory_order_relaxed) == found.slots) break;
  }
  if (place < kMostOrtArenaTables && is_taken(g_ort_arena_tables[place], place)) return true;
  for (size_t free = 0; place == kMostOrtArenaTables && free < kMostOrtArenaTables; ++free) {
    if (g_ort_arena_tables[free].slots.load(std::memory_order_relaxed) == nullptr) place = free;
  }
  if (place == kMostOrtArenaTables) return false;
  OrtArenaTable& table = g_ort_arena_tables[place];
  for (size_t i = 0; i < kOrtArenaFunctions; ++i) {
    table.slot[i] = layout.slot[i];
    table.real[i] = layout.slot[i] == kNone ? 0 : found.slots[layout.slot[i]];
  }
  table.statistics = found.slots[layout.statistics];
  table.proven.store(false, std::memory_order_relaxed);
  table.off.store(false, std::memory_order_relaxed);
  table.slots.store(found.slots, std::memory_order_release);
  for (size_t i = 0; i < kOrtArenaFunctions; ++i) {
    if (layout.slot[i] == kNone) continue;
    if (!replace_slot(found.slots + layout.slot[i], gpupeak_ort_arena_thunks[place][i])) {
      put_back(table);
      return false;
    }
  }
  return true;
}

bool take_over(const VirtualTable& arena, const VirtualTable* stream_arena, const Layout& layout) {
  HookScope hook;
  if (!hook.entered()) return false;
  LockGuard guard(g_writing);
  g_call_filters = call_filters();
  if (g_call_filters < 0 || !take_over(arena, layout)) return false;
  if (stream_arena == nullptr || take_over(*stream_arena, layout)) return true;
  for (OrtArenaTable& table : g_ort_arena_tables) {
    if (table.slots.load(std::memory_order_relaxed) == arena.slots) put_back(table);
  }
  return false;
}

void off(const char* version, const char* why) {
  Text<256> text;
  text.add("ONNX Runtime ").add(version).add(": ").add(why);
  ort_pools_off(text.view());
}

}  // namespace

void take_over_ort_arenas(const void* inside, int minor, const char* version) {
  if (!environment().pools || !may_record()) return;
  // Searched without our lock, since the loader's is taken.
  const VirtualTable arena = find_virtual_table(inside, kArena);
  if (arena.slots == nullptr) return off(version, "the class of its arenas was not found");
  const Layout* const layout = layout_of(minor, arena);
  if (layout == nullptr) return off(version, "its arenas are not those of a release that is known");
  // Before 1.23 those for streams hand out by a function that is not virtual: they are left alone.
  const bool for_streams = layout->slot[kOrtAllocOnStream] != kNone;
  VirtualTable stream_arena;
  if (for_streams) {
    stream_arena = find_virtual_table(inside, kStreamArena);
    if (stream_arena.slots == nullptr) stream_arena = find_virtual_table(inside, kOldStreamArena);
    if (!is_stream_arena(stream_arena, arena, *layout)) {
      return off(version, "its arenas for streams are not those that are known");
    }
  }
  if (!take_over(arena, for_streams ? &stream_arena : nullptr, *layout)) {
    return off(version, "its table of functions cannot be written");
  }
  ort_pools_on(version);
}

void put_back_ort_arena_table(OrtArenaTable& table) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_writing);
  put_back(table);
}

void put_back_ort_arenas() {
  forget_unloaded_ort_arenas();
  for (OrtArenaTable& table : g_ort_arena_tables) put_back_ort_arena_table(table);
}

void forget_unloaded_ort_arenas() {
  for (OrtArenaTable& table : g_ort_arena_tables) {
    uintptr_t* const slots = table.slots.load(std::memory_order_acquire);
    if (slots != nullptr && data_end(slots) == nullptr) {
      table.slots.store(nullptr, std::memory_order_release);
    }
  }
}

}  // namespace gpupeak::preload
