#include "hooks/missing_hooks.h"

#include <cstring>
#include <initializer_list>

#include "base/elf_lookup.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/text.h"
#include "hooks/cuda_lookup.h"
#include "log/log.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

constexpr int kMost = 32;

struct Missing {
  Text<64> name;
  bool asked_for = false;
  bool logged = false;
};
constinit Missing g_missing[kMost];
constinit int g_count = 0;

/// Functions with names like an allocator's that hand out no memory of the device.
constexpr const char* kHarmless[] = {"cuGraphMemAllocNodeGetParams",
                                     "cuMemGetAllocationGranularity",
                                     "cuMemGetAllocationPropertiesFromHandle",
                                     "cuMemPoolImportFromShareableHandle", "cuMulticastCreate"};

bool looks_like_allocator(const char* name) {
  if (strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z') return false;
  for (const char* harmless : kHarmless) {
    if (strcmp(name, harmless) == 0) return false;
  }
  for (const char* word : {"Alloc", "MemCreate", "ArrayCreate", "PoolCreate", "MemImport",
                           "AddressReserve", "CtxCreate"}) {
    if (strstr(name, word) != nullptr) return true;
  }
  return false;
}

bool begins_capture(const char* name) {
  return strstr(name, "Begin") != nullptr && strstr(name, "apture") != nullptr;
}

void note(const char* name, bool asked_for) {
  if (begins_capture(name)) captures_begin();
  if (!looks_like_allocator(name)) return;
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_process->missing_hooks);
  int i = 0;
  while (i < g_count && strcmp(g_missing[i].name.c_str(), name) != 0) ++i;
  if (i == kMost) return;
  if (i == g_count) {
    g_missing[i].name.add(name);
    ++g_count;
  }
  if (asked_for && !g_missing[i].asked_for) {
    g_missing[i].asked_for = true;
    g_missing[i].logged = false;
  }
}

}  // namespace

void note_unhooked(const char* name) {
  note(name, true);
  log_missing_hooks();
}

bool has_missing_hooks() {
  return __atomic_load_n(&g_count, __ATOMIC_RELAXED) > 0;
}

void look_for_missing_hooks(const char* driver_library) {
  for_each_export(driver_library, [](const char* name) {
    if (!is_hooked_name(name)) note(name, false);
  });
}

void note_asked_for(const char* name) {
  bool exported = false;
  {
    HookScope scope;
    if (!scope.entered()) return;
    LockGuard guard(g_process->missing_hooks);
    for (int i = 0; i < g_count; ++i) exported |= strcmp(g_missing[i].name.c_str(), name) == 0;
  }
  if (exported) note_unhooked(name);
}

void log_missing_hooks() {
  if (g_count == 0 || !recording()) return;
  HookScope scope;
  if (!scope.entered()) return;
  LockGuard guard(g_process->missing_hooks);
  for (int i = 0; i < g_count; ++i) {
    Missing& missing = g_missing[i];
    if (missing.logged) continue;
    missing.logged = true;
    Record record(GPUPEAK_DEF_FACT);
    record.s(missing.asked_for ? "hook_missing.asked_for" : "hook_missing.exported");
    define(record.s(missing.name.view()));
  }
}

}  // namespace gpupeak::preload
