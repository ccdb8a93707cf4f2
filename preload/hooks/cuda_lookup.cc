#include "hooks/cuda_lookup.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "base/process_state.h"
#include "base/text.h"
#include "log/log.h"
#include "track/driver.h"

namespace gpupeak::preload {

constinit std::atomic<bool> g_driver_is_resolved{false};

namespace {

constexpr const char* kDriver = "libcuda.so";
constexpr int kLegacyStream = 1;  // CU_GET_PROC_ADDRESS_LEGACY_STREAM

constinit void* g_cu_init = nullptr;  ///< of the driver that was resolved

/// In a namespace of its own, as the auditor has told.
constinit std::atomic<uintptr_t> g_apart_bias{0};
constinit const void* g_apart_dynamic = nullptr;

/// All from one driver: the one that the first look-up found, until it is gone.
constinit std::atomic<bool> g_use_apart{false};

void* find_in_driver(const char* name) {
  const uintptr_t bias = g_apart_bias.load(std::memory_order_acquire);
  return g_use_apart.load(std::memory_order_relaxed) && bias != 0
             ? find_in_image(bias, g_apart_dynamic, name)
             : find_in(kDriver, name);
}

using GetProcAddress4 = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetProcAddress5 = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

const char* export_name_of(size_t row) {
  return driver_rows()[row].export_name.data();
}

/// What the driver itself calls this row. One of the two forms of its look-up may be missing.
void* look_up(const DriverRow& row, GetProcAddress5 by_five, GetProcAddress4 by_four) {
  const auto flags = static_cast<cuuint64_t>(row.flags != 0 ? row.flags : kLegacyStream);
  void* found = nullptr;
  int status = 0;
  CUresult result = CUDA_ERROR_NOT_FOUND;
  if (by_five != nullptr)
    result = by_five(row.base_name, &found, row.version, flags, &status);
  else if (by_four != nullptr)
    result = by_four(row.base_name, &found, row.version, flags);
  return result == CUDA_SUCCESS ? found : nullptr;
}

bool is_given_out(const DriverRow& row) {
  return !row.only_sees || environment().uses != UseRecording::kOff;
}

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

/// Each begins with a capital letter, of which a name has few.
constexpr std::string_view kWords[] = {"Alloc",     "MemCreate",      "ArrayCreate", "PoolCreate",
                                       "MemImport", "AddressReserve", "CtxCreate"};

bool has_word(const char* name) {
  for (; *name != 0; ++name) {
    if (*name <= 'Z' &&
        std::ranges::any_of(kWords, [name](std::string_view it) { return begins(name, it); }))
      return true;
  }
  return false;
}

bool begins_capture(const char* name) {
  return strstr(name, "Begin") != nullptr && strstr(name, "apture") != nullptr;
}

bool looks_like_allocator(const char* name) {
  if (strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z') return false;
  return has_word(name) &&
         std::ranges::none_of(kHarmless, [name](const char* it) { return strcmp(it, name) == 0; });
}

/// Notes a function without a hook that begins captures, or may hand out memory.
void note(const char* name, bool asked_for) {
  const bool captures = begins_capture(name), may_allocate = looks_like_allocator(name);
  if (!(captures || may_allocate) || (!asked_for && driver_row_of(name) != nullptr)) return;
  if (captures) captures_begin();
  if (!may_allocate) return;
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

/// Libraries that were preloaded behind us and hook the driver, too: the first 16 of them.
struct Interposer {
  std::atomic<uintptr_t> begin, end;  ///< end 0: none
};
constinit Interposer g_next_interposers[16] = {};
constinit std::atomic<bool> g_interposers_known{false};

/// Threads may do it at once: all find the same.
void find_next_interposers() {
  for_each_preloaded_with(&export_name_of, kDriverRowCount, [](AddressRange memory, size_t, void*) {
    for (Interposer& place : g_next_interposers) {
      uintptr_t nobody = 0;
      if (place.end.compare_exchange_strong(nobody, memory.end) || nobody == memory.end) {
        place.begin.store(memory.begin, std::memory_order_relaxed);
        return;
      }
    }
  });
  g_interposers_known.store(true, std::memory_order_release);
}

}  // namespace

/// Threads may do it at once: all find the same.
bool has_driver() {
  if (g_driver_is_resolved.load(std::memory_order_acquire)) return true;
  // The object once for all rows, since to walk to it takes longer than to find a name there.
  SymbolTable driver = table_with(kDriver, "cuInit");
  g_use_apart = driver.symbols == nullptr;
  const uintptr_t bias = g_apart_bias.load(std::memory_order_acquire);
  if (g_use_apart && bias != 0)
    driver = symbol_table(bias, static_cast<const ElfW(Dyn)*>(g_apart_dynamic));
  void* const cu_init = find_in_table(driver, "cuInit");
  if (cu_init == nullptr) return false;
  // What was preloaded behind us comes first, as malloc's other interposers are called too.
  for_each_preloaded_with(&export_name_of, kDriverRowCount,
                          [](AddressRange, size_t number, void* function) {
                            DriverRow& row = driver_rows()[number];
                            if (row.next == nullptr) row.next = function;
                          });
  for (DriverRow& row : driver_rows()) {
    row.exported = find_in_table(driver, row.export_name.data());
    if (row.next == nullptr) row.next = row.exported;
  }
  const auto by_five =
      reinterpret_cast<GetProcAddress5>(driver_row_of("cuGetProcAddress_v2")->next);
  const auto by_four = reinterpret_cast<GetProcAddress4>(driver_row_of("cuGetProcAddress")->next);
  for (DriverRow& row : driver_rows())
    row.looked_up = is_given_out(row) ? look_up(row, by_five, by_four) : nullptr;
  set_driver_lookup([](const char* name) { return find_in_driver(name); });
  g_cu_init = cu_init;
  for_each_export(kDriver, [](const char* name) { note(name, false); });
  g_driver_is_resolved.store(true, std::memory_order_release);
  return true;
}

void* look_for_function(int index) {
  DriverRow& row = driver_rows()[static_cast<size_t>(index)];
  if (has_driver()) return known_function(index);
  void* const instead = find_preloaded(row.export_name.data());
  if (instead == nullptr) set_quality(GPUPEAK_Q_NO_DRIVER);
  return instead;
}

void* hook_of_address(void* real) {
  if (real == nullptr || !has_driver()) return nullptr;
  // An export's own address says for sure which ABI it is; what a look-up of ours gave may be
  // shared by rows.
  void *by_next = nullptr, *by_look_up = nullptr;
  for (const DriverRow& row : driver_rows()) {
    if (row.exported == real && is_given_out(row)) return row.hook;
    if (row.next == real && by_next == nullptr && is_given_out(row)) by_next = row.hook;
    if (row.looked_up == real && by_look_up == nullptr) by_look_up = row.hook;
  }
  return by_next != nullptr ? by_next : by_look_up;
}

bool is_next_interposer(const void* caller) {
  if (!g_interposers_known.load(std::memory_order_acquire)) find_next_interposers();
  for (const Interposer& interposer : g_next_interposers) {
    const uintptr_t end = interposer.end.load(std::memory_order_relaxed);
    if (end == 0) return false;
    const auto at = reinterpret_cast<uintptr_t>(caller);
    if (at >= interposer.begin.load(std::memory_order_relaxed) && at < end) return true;
  }
  return false;
}

DriverRow* driver_row_of(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
    return nullptr;
  const std::string_view wanted(name);
  for (DriverRow& row : driver_rows()) {
    if (row.export_name == wanted && is_given_out(row)) return &row;
  }
  return nullptr;
}

void* replace_symbol(const DriverRow& row, void* found) {
  // Only the driver's own or the next interposer's: another library may use the name for something
  // else.
  if (found == row.hook || !has_driver()) return found;
  return found == row.next || is_in(found, kDriver) ? row.hook : found;
}

void driver_lies_apart(uintptr_t bias, const void* dynamic) {
  if (g_apart_bias.load(std::memory_order_relaxed) == bias) return;
  g_apart_dynamic = dynamic;
  g_apart_bias.store(bias, std::memory_order_release);
}

void driver_apart_is_gone(uintptr_t bias) {
  if (g_apart_bias.load(std::memory_order_relaxed) != bias) return;
  g_apart_bias.store(0, std::memory_order_release);
  check_driver_is_loaded();
}

bool driver_is_there() {
  if (g_driver_is_resolved.load(std::memory_order_acquire)) return true;
  if (find_in(kDriver, "cuInit") != nullptr) return true;
  const uintptr_t bias = g_apart_bias.load(std::memory_order_acquire);
  return bias != 0 && find_in_image(bias, g_apart_dynamic, "cuInit") != nullptr;
}

void check_driver_is_loaded() {
  if (!g_driver_is_resolved.load(std::memory_order_acquire)) return;
  if (find_in_driver("cuInit") == g_cu_init) return;
  g_driver_is_resolved.store(false, std::memory_order_release);
  for (DriverRow& row : driver_rows()) row.next = nullptr;
  forget_driver_functions();
}

void note_unhooked(const char* name) {
  note(name, true);
  log_missing_hooks();
}

bool has_missing_hooks() {
  return __atomic_load_n(&g_count, __ATOMIC_RELAXED) > 0;
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
    define_fact(missing.asked_for ? "hook_missing.asked_for" : "hook_missing.exported",
                missing.name.view());
  }
}

}  // namespace gpupeak::preload
