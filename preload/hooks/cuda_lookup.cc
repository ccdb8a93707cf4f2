#include "hooks/cuda_lookup.h"

#include <atomic>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "hooks/missing_hooks.h"
#include "log/log.h"
#include "stack/module_map.h"
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

/// Preloaded behind us, as malloc's other interposers are called too; else the driver's.
void* next_of(const char* name, void* drivers) {
  void* const found = find_preloaded(name);
  return found != nullptr ? found : drivers;
}

using GetProcAddress4 = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetProcAddress5 = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

void find_exported(DriverRow& row) {
  row.exported = find_in_driver(row.export_name);
  row.next = next_of(row.export_name, row.exported);
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
  return !row.only_sees || environment().last_use;
}

/// The driver's addresses, once it is loaded. False before. Threads may do it at once: all find the
/// same.
bool resolve() {
  if (g_driver_is_resolved.load(std::memory_order_acquire)) return true;
  g_use_apart = find_in(kDriver, "cuInit") == nullptr;
  void* const cu_init = find_in_driver("cuInit");
  if (cu_init == nullptr) return false;
  for (int i = 0; i < kDriverRowCount; ++i) {
    if (is_given_out(driver_rows()[i])) find_exported(driver_rows()[i]);
  }
  const auto by_five = reinterpret_cast<GetProcAddress5>(
      next_of("cuGetProcAddress_v2", find_in_driver("cuGetProcAddress_v2")));
  const auto by_four = reinterpret_cast<GetProcAddress4>(
      next_of("cuGetProcAddress", find_in_driver("cuGetProcAddress")));
  for (int i = 0; i < kDriverRowCount; ++i) {
    DriverRow& row = driver_rows()[i];
    row.looked_up = is_given_out(row) ? look_up(row, by_five, by_four) : nullptr;
  }
  set_driver_lookup([](const char* name) { return find_in_driver(name); });
  g_cu_init = cu_init;
  look_for_missing_hooks(kDriver);
  g_driver_is_resolved.store(true, std::memory_order_release);
  return true;
}

}  // namespace

void* look_for_function(int index) {
  if (resolve()) {
    DriverRow& row = driver_rows()[index];
    if (row.next == nullptr && !is_given_out(row)) find_exported(row);  // called by its name
    return known_function(index);
  }
  void* const instead = find_preloaded(driver_rows()[index].export_name);
  if (instead == nullptr) set_quality(GPUPEAK_Q_NO_DRIVER);
  return instead;
}

void* hook_of_address(void* real) {
  if (real == nullptr || !resolve()) return nullptr;
  // An export's own address says for sure which ABI it is; what a look-up of ours gave may be
  // shared by rows.
  for (int i = 0; i < kDriverRowCount; ++i) {
    const DriverRow& row = driver_rows()[i];
    if (is_given_out(row) && (row.exported == real || row.next == real)) return row.hook;
  }
  for (int i = 0; i < kDriverRowCount; ++i) {
    if (driver_rows()[i].looked_up == real) return driver_rows()[i].hook;
  }
  return nullptr;
}

bool is_next_interposer(const void* caller) {
  return is_preloaded_with(
      caller, [](int row) { return driver_rows()[row].export_name; }, kDriverRowCount);
}

bool is_hooked_name(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
    return false;
  for (int i = 0; i < kDriverRowCount; ++i) {
    const DriverRow& row = driver_rows()[i];
    if (is_given_out(row) && strcmp(row.export_name, name) == 0) return true;
  }
  return false;
}

void* replace_symbol(const char* name, void* found) {
  for (int i = 0; i < kDriverRowCount; ++i) {
    DriverRow& row = driver_rows()[i];
    if (!is_given_out(row) || strcmp(row.export_name, name) != 0) continue;
    // Only the driver's own or the next interposer's: another library may use the name for
    // something else.
    if (found == row.hook || !resolve()) return found;
    return found == row.next || is_in(found, kDriver) ? row.hook : found;
  }
  return found;
}

void* hook_of_name(const char* name) {
  for (int i = 0; i < kDriverRowCount; ++i) {
    const DriverRow& row = driver_rows()[i];
    if (is_given_out(row) && strcmp(row.export_name, name) == 0) return row.hook;
  }
  return nullptr;
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

bool has_driver() {
  return resolve();
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
  forget_driver_functions();
}

}  // namespace gpupeak::preload
