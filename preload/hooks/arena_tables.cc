#include "hooks/arena_tables.h"

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "base/proc_file.h"
#include "hooks/adapters.h"

namespace gpupeak::preload {

constinit ArenaFunctions g_arena_tables[kMostArenaTables];

namespace {

constinit FutexLock g_writing;      // one lock for all, since tables share pages
constinit int g_call_filters = -1;  // call_filters() when a table was last taken over

uintptr_t* slots_of(const ArenaFunctions& table) {
  return reinterpret_cast<uintptr_t*>(table.at.load(std::memory_order_acquire));
}

/// Whether the slots hold our thunks. If another library is loaded there now, they hold that
/// library's functions.
bool is_taken(const ArenaFunctions& table, size_t place) {
  return slots_of(table)[table.of->slot[kArenaAlloc]] == gpupeak_arena_thunks[place][kArenaAlloc];
}

/// Puts back the functions of one table; not if the program has a new filter of system calls, which
/// might kill it for making a page writable.
void put_back(ArenaFunctions& table) {
  uintptr_t* const slots = slots_of(table);
  if (slots == nullptr || !table.has_slots || call_filters() != g_call_filters) return;
  for (size_t i = 0; i < kArenaFunctions; ++i) {
    const size_t slot = table.of->slot[i];
    if (slot != kNoSlot && slots[slot] != table.real[i]) replace_slot(slots + slot, table.real[i]);
  }
}

/// The place of the table with this `at`; kMostArenaTables: none.
size_t place_of(uintptr_t at) {
  size_t place = 0;
  while (place < kMostArenaTables &&
         g_arena_tables[place].at.load(std::memory_order_relaxed) != at) {
    ++place;
  }
  return place;
}

ArenaFunctions& begin_table(size_t place, const ArenaClass& of) {
  ArenaFunctions& table = g_arena_tables[place];
  table.of = &of;
  table.proven.store(false, std::memory_order_relaxed);
  table.off.store(false, std::memory_order_relaxed);
  return table;
}

bool take_over(const ArenaClass& of, const VirtualTable& found) {
  size_t place = place_of(reinterpret_cast<uintptr_t>(found.slots));
  if (place < kMostArenaTables && is_taken(g_arena_tables[place], place)) return true;
  if (place == kMostArenaTables) place = place_of(0);
  if (place == kMostArenaTables) return false;
  ArenaFunctions& table = begin_table(place, of);
  for (size_t i = 0; i < kArenaFunctions; ++i) {
    table.real[i] = of.slot[i] == kNoSlot ? 0 : found.slots[of.slot[i]];
  }
  table.statistics = of.statistics == kNoSlot ? 0 : found.slots[of.statistics];
  table.block_size = of.block_size == kNoSlot ? 0 : found.slots[of.block_size];
  table.has_slots = true;
  table.at.store(reinterpret_cast<uintptr_t>(found.slots), std::memory_order_release);
  for (size_t i = 0; i < kArenaFunctions; ++i) {
    if (of.slot[i] == kNoSlot) continue;
    if (!replace_slot(found.slots + of.slot[i], gpupeak_arena_thunks[place][i])) {
      put_back(table);
      return false;
    }
  }
  return true;
}

void forget_unloaded() {
  for (ArenaFunctions& table : g_arena_tables) {
    const uintptr_t at = table.at.load(std::memory_order_acquire);
    if (at != 0 && data_end(reinterpret_cast<const void*>(at)) == nullptr)
      table.at.store(0, std::memory_order_release);
  }
}

void put_back_all() {
  forget_unloaded();
  for (ArenaFunctions& table : g_arena_tables) put_back_arena_table(table);
}

}  // namespace

bool take_over_arena_tables(const ArenaClass& of, const VirtualTable* tables, size_t count) {
  HookScope hook;
  if (!hook.entered()) return false;
  LockGuard guard(g_writing);
  g_call_filters = call_filters();
  if (g_call_filters < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (take_over(of, tables[i])) continue;
    for (size_t taken = 0; taken < i; ++taken) {
      const size_t place = place_of(reinterpret_cast<uintptr_t>(tables[taken].slots));
      if (place < kMostArenaTables) put_back(g_arena_tables[place]);
    }
    return false;
  }
  return true;
}

bool has_arena_tables(const void* inside) {
  const char* const library = module_path(inside);
  for (size_t place = 0; place < kMostArenaTables; ++place) {
    const ArenaFunctions& table = g_arena_tables[place];
    const uintptr_t at = table.at.load(std::memory_order_acquire);
    if (at != 0 && table.has_slots && module_path(reinterpret_cast<const void*>(at)) == library &&
        is_taken(table, place))
      return true;
  }
  return false;
}

const uintptr_t* trampolines_for(const ArenaClass& of, const uintptr_t (&real)[kArenaFunctions]) {
  LockGuard guard(g_writing);
  size_t place = place_of(real[kArenaAlloc]);
  if (place == kMostArenaTables) {
    place = place_of(0);
    if (place == kMostArenaTables) return nullptr;
    ArenaFunctions& table = begin_table(place, of);
    for (size_t i = 0; i < kArenaFunctions; ++i) table.real[i] = real[i];
    table.has_slots = false;
    table.at.store(real[kArenaAlloc], std::memory_order_release);
  }
  return gpupeak_arena_thunks[place];
}

void put_back_arena_table(ArenaFunctions& table) {
  if (table.at.load(std::memory_order_acquire) == 0) return;  // so in most programs
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_writing);
  put_back(table);
}

const Adapter kArenaTablesAdapter{.of = "the functions of arenas that any of them replaced",
                                  .forget_unloaded = forget_unloaded,
                                  .leave_jump = leave_arena_calls_for,
                                  .put_back = put_back_all};

}  // namespace gpupeak::preload
