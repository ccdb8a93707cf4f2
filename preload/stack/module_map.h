// Which code lies where: the loaded libraries, logged as they come and go. HOOK-SAFE, inside a
// HookScope; calls into the loader, so never with a lock of ours held.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Makes sure that the module that holds `ip` is in the log, if the loader knows one.
void cover_with_modules(uintptr_t ip);
struct UnwindTable {
  const uint8_t* header;  ///< .eh_frame_hdr; nullptr: the module has none
  bool of_module;         ///< false: the loader knows no module there
};
/// The unwind table of the module that holds `ip`.
UnwindTable unwind_table_of(uintptr_t ip);
/// After a dlclose: logs what is gone.
void drop_unloaded_modules();
/// Our own code. Callable anywhere.
bool is_own_code(uintptr_t ip);
/// The path under which the loader knows this library.
const char* own_path();

/// In a forked child: defines all modules again in the new log.
void redefine_modules();

}  // namespace gpupeak::preload
