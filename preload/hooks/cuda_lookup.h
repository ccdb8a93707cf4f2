// Which driver function is which: from an export name or a driver's own address to our hook, and
// from a row of cuda_table.def to the real function. Used by the hooks, dlsym and cuGetProcAddress.
// HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/compiler.h"

namespace gpupeak::preload {

/// A row of cuda_table.def or cuda_uses.def at run time.
struct DriverRow {
  std::string_view export_name;  ///< a runtime asks for hundreds of names: most differ in length
  const char* base_name;
  int version;
  int flags;
  void* hook;
  /// What the program would call by export name without us: the function of another interposer
  /// that was preloaded behind us, else the driver's own.
  void* next;
  void* exported;  ///< the driver's own, by export name
  /// The driver's own, as its cuGetProcAddress gives it for exactly this version and flags.
  void* looked_up;
  uint32_t api_id;  ///< of base_name in the log's strings
  bool only_sees;   ///< of cuda_uses.def: no hook, unless uses are recorded
};
/// Of these hooks write to api_id; else driver_rows() is asked, which names them first: written by
/// code when they are needed, they cost a process that has no driver no pages and no relocations.
extern constinit GPUPEAK_OWN DriverRow g_driver_rows[];
extern constinit GPUPEAK_OWN std::atomic<bool> g_driver_rows_named;
/// Threads may do it at once: all write the same.
void name_driver_rows();
extern const size_t kDriverRowCount;
inline std::span<DriverRow> driver_rows() {
  if (!g_driver_rows_named.load(std::memory_order_acquire)) name_driver_rows();
  return {g_driver_rows, kDriverRowCount};
}
/// Whether the rows' functions have been looked up.
extern constinit GPUPEAK_OWN std::atomic<bool> g_driver_is_resolved;

/// The real function of a row, if the driver has been looked at and has it.
inline void* known_function(int row) {
  if (!g_driver_is_resolved.load(std::memory_order_acquire)) return nullptr;
  const DriverRow& it = g_driver_rows[row];
  return it.next != nullptr ? it.next : it.looked_up;
}
/// The same where known_function() has none: looks at the driver, if it is loaded by now.
void* look_for_function(int row);
/// The real function of a row, or nullptr: the driver is not loaded, or too old to have it.
inline void* real_function(int row) {
  void* const known = known_function(row);
  return __builtin_expect(known != nullptr, 1) ? known : look_for_function(row);
}

/// Our hook for a function that the driver gave out, or nullptr if it is not one of the table's. By
/// address only: what name, version and flags mean is the driver's business.
void* hook_of_address(void* real);

/// Whether the code at `caller` is another interposer's that was preloaded behind us: what it looks
/// up is the driver's, not our hooks, since those call it.
bool is_next_interposer(const void* caller);

/// The row whose hook a program is given for this name. nullptr: there is none, so that dlsym need
/// not look at the name.
DriverRow* driver_row_of(const char* name);

/// What a program's dlsym(…, the row's name) = `found` should give: our hook in place of the
/// driver's own function; else `found`.
void* replace_symbol(const DriverRow& row, void* found);

/// A driver was loaded in a namespace of its own: its dynamic section. Used where no other is
/// loaded.
void driver_lies_apart(uintptr_t bias, const void* dynamic);
void driver_apart_is_gone(uintptr_t bias);

/// Whether libcuda is loaded. Asks it for its functions when it is first seen.
bool has_driver();

/// The same, without a call of the driver: its constructors may not have run yet.
bool driver_is_there();

/// After a dlclose: libcuda may be gone (programs probe for it), and come back at another address.
void check_driver_is_loaded();

// Functions of a newer driver that look like allocators and have no row in cuda_table.def. Their
// blocks are not seen, so the report names them. HOOK-SAFE.

/// The driver gave this function to the program, and there is no hook for it.
void note_unhooked(const char* name);
/// The program looks up this name. It matters if the driver exports it and there is no hook.
void note_asked_for(const char* name);
/// Whether any are known.
bool has_missing_hooks();
/// Writes what was found into the log, once it is open.
void log_missing_hooks();

}  // namespace gpupeak::preload
