#include "hooks/pool_tables.h"

#include "base/elf_lookup.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/proc_file.h"
#include "hooks/pool_thunks.h"
#include "stack/module_map.h"

namespace gpupeak::preload {

constinit PoolTable g_pool_tables[kMostPoolTables];

namespace {

constinit FutexLock g_writing;      // tables share pages
constinit int g_call_filters = -1;  // when the first was taken over

uintptr_t* slots_of(const PoolTable& table) {
  return reinterpret_cast<uintptr_t*>(table.at.load(std::memory_order_acquire));
}

/// Whether the slots hold what we put there: a library that was loaded where another one was has
/// its own functions there.
bool is_taken(const PoolTable& table, size_t place) {
  return slots_of(table)[table.of->slot[kPoolAlloc]] == gpupeak_pool_thunks[place][kPoolAlloc];
}

/// A sandbox that the program has gone into since might kill for making a page writable.
void put_back(PoolTable& table) {
  uintptr_t* const slots = slots_of(table);
  if (slots == nullptr || !table.has_slots || call_filters() != g_call_filters) return;
  for (size_t i = 0; i < kPoolFunctions; ++i) {
    const size_t slot = table.of->slot[i];
    if (slot != kNoSlot && slots[slot] != table.real[i]) replace_slot(slots + slot, table.real[i]);
  }
}

/// kMostPoolTables: none is there.
size_t place_of(uintptr_t at) {
  size_t place = 0;
  while (place < kMostPoolTables && g_pool_tables[place].at.load(std::memory_order_relaxed) != at) {
    ++place;
  }
  return place;
}

PoolTable& begin_table(size_t place, const PoolClass& of) {
  PoolTable& table = g_pool_tables[place];
  table.of = &of;
  table.proven.store(false, std::memory_order_relaxed);
  table.off.store(false, std::memory_order_relaxed);
  return table;
}

bool take_over(const PoolClass& of, const VirtualTable& found) {
  size_t place = place_of(reinterpret_cast<uintptr_t>(found.slots));
  if (place < kMostPoolTables && is_taken(g_pool_tables[place], place)) return true;
  if (place == kMostPoolTables) place = place_of(0);
  if (place == kMostPoolTables) return false;
  PoolTable& table = begin_table(place, of);
  for (size_t i = 0; i < kPoolFunctions; ++i) {
    table.real[i] = of.slot[i] == kNoSlot ? 0 : found.slots[of.slot[i]];
  }
  table.statistics = of.statistics == kNoSlot ? 0 : found.slots[of.statistics];
  table.block_size = of.block_size == kNoSlot ? 0 : found.slots[of.block_size];
  table.has_slots = true;
  table.at.store(reinterpret_cast<uintptr_t>(found.slots), std::memory_order_release);
  for (size_t i = 0; i < kPoolFunctions; ++i) {
    if (of.slot[i] == kNoSlot) continue;
    if (!replace_slot(found.slots + of.slot[i], gpupeak_pool_thunks[place][i])) {
      put_back(table);
      return false;
    }
  }
  return true;
}

}  // namespace

bool take_over_pool_tables(const PoolClass& of, const VirtualTable* tables, size_t count) {
  HookScope hook;
  if (!hook.entered()) return false;
  LockGuard guard(g_writing);
  g_call_filters = call_filters();
  if (g_call_filters < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (take_over(of, tables[i])) continue;
    for (size_t taken = 0; taken < i; ++taken) {
      const size_t place = place_of(reinterpret_cast<uintptr_t>(tables[taken].slots));
      if (place < kMostPoolTables) put_back(g_pool_tables[place]);
    }
    return false;
  }
  return true;
}

const uintptr_t* stand_in_for(const PoolClass& of, const uintptr_t (&real)[kPoolFunctions]) {
  LockGuard guard(g_writing);
  size_t place = place_of(real[kPoolAlloc]);
  if (place == kMostPoolTables) {
    place = place_of(0);
    if (place == kMostPoolTables) return nullptr;
    PoolTable& table = begin_table(place, of);
    for (size_t i = 0; i < kPoolFunctions; ++i) table.real[i] = real[i];
    table.has_slots = false;
    table.at.store(real[kPoolAlloc], std::memory_order_release);
  }
  return gpupeak_pool_thunks[place];
}

void put_back_pool_table(PoolTable& table) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_writing);
  put_back(table);
}

void put_back_pool_tables() {
  forget_unloaded_pool_tables();
  for (PoolTable& table : g_pool_tables) put_back_pool_table(table);
}

void forget_unloaded_pool_tables() {
  for (PoolTable& table : g_pool_tables) {
    const uintptr_t at = table.at.load(std::memory_order_acquire);
    if (at != 0 && data_end(reinterpret_cast<const void*>(at)) == nullptr)
      table.at.store(0, std::memory_order_release);
  }
}

}  // namespace gpupeak::preload
