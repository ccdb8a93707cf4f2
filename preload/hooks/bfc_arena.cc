#include "hooks/bfc_arena.h"

#include "base/elf_lookup.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/proc_file.h"
#include "hooks/bfc_arena_table.h"
#include "stack/module_map.h"

namespace gpupeak::preload {

constinit BfcArenaTable g_bfc_arena_tables[kMostBfcArenaTables];

namespace {

constinit FutexLock g_writing;      // tables share pages
constinit int g_call_filters = -1;  // when the first was taken over

/// Whether the slots hold what we put there: a library that was loaded where another one was has
/// its own functions there.
bool is_taken(const BfcArenaTable& table, size_t place) {
  const uintptr_t* slots = table.slots.load(std::memory_order_acquire);
  return slots[table.of->slot[kBfcAlloc]] == gpupeak_bfc_arena_thunks[place][kBfcAlloc];
}

/// A sandbox that the program has gone into since might kill for making a page writable.
void put_back(BfcArenaTable& table) {
  uintptr_t* const slots = table.slots.load(std::memory_order_acquire);
  if (slots == nullptr || call_filters() != g_call_filters) return;
  for (size_t i = 0; i < kBfcArenaFunctions; ++i) {
    const size_t slot = table.of->slot[i];
    if (slot != kNoSlot && slots[slot] != table.real[i]) replace_slot(slots + slot, table.real[i]);
  }
}

bool take_over(const BfcClass& of, const VirtualTable& found) {
  size_t place = 0;
  for (; place < kMostBfcArenaTables; ++place) {
    if (g_bfc_arena_tables[place].slots.load(std::memory_order_relaxed) == found.slots) break;
  }
  if (place < kMostBfcArenaTables && is_taken(g_bfc_arena_tables[place], place)) return true;
  for (size_t free = 0; place == kMostBfcArenaTables && free < kMostBfcArenaTables; ++free) {
    if (g_bfc_arena_tables[free].slots.load(std::memory_order_relaxed) == nullptr) place = free;
  }
  if (place == kMostBfcArenaTables) return false;
  BfcArenaTable& table = g_bfc_arena_tables[place];
  table.of = &of;
  for (size_t i = 0; i < kBfcArenaFunctions; ++i) {
    table.real[i] = of.slot[i] == kNoSlot ? 0 : found.slots[of.slot[i]];
  }
  table.statistics = found.slots[of.statistics];
  table.block_size = of.block_size == kNoSlot ? 0 : found.slots[of.block_size];
  table.proven.store(false, std::memory_order_relaxed);
  table.off.store(false, std::memory_order_relaxed);
  table.slots.store(found.slots, std::memory_order_release);
  for (size_t i = 0; i < kBfcArenaFunctions; ++i) {
    if (of.slot[i] == kNoSlot) continue;
    if (!replace_slot(found.slots + of.slot[i], gpupeak_bfc_arena_thunks[place][i])) {
      put_back(table);
      return false;
    }
  }
  return true;
}

}  // namespace

bool take_over_bfc_tables(const BfcClass& of, const VirtualTable* tables, size_t count) {
  HookScope hook;
  if (!hook.entered()) return false;
  LockGuard guard(g_writing);
  g_call_filters = call_filters();
  if (g_call_filters < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (take_over(of, tables[i])) continue;
    for (BfcArenaTable& table : g_bfc_arena_tables) {
      for (size_t taken = 0; taken < i; ++taken) {
        if (table.slots.load(std::memory_order_relaxed) == tables[taken].slots) put_back(table);
      }
    }
    return false;
  }
  return true;
}

void put_back_bfc_arena_table(BfcArenaTable& table) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_writing);
  put_back(table);
}

void put_back_bfc_arenas() {
  forget_unloaded_bfc_arenas();
  for (BfcArenaTable& table : g_bfc_arena_tables) put_back_bfc_arena_table(table);
}

void forget_unloaded_bfc_arenas() {
  for (BfcArenaTable& table : g_bfc_arena_tables) {
    uintptr_t* const slots = table.slots.load(std::memory_order_acquire);
    if (slots != nullptr && data_end(slots) == nullptr) {
      table.slots.store(nullptr, std::memory_order_release);
    }
  }
}

}  // namespace gpupeak::preload
