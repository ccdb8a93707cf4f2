// Which code lies where: the loaded libraries, logged as they come and go. HOOK-SAFE, inside a
// HookScope; calls into the loader, so never with a lock of ours held.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/malloc_entry.h"

namespace gpupeak::preload {

/// Makes sure that the module that holds `ip` is in the log, if the loader knows one.
void cover_with_modules(uintptr_t ip);
struct UnwindTable {
  const uint8_t* header;  ///< .eh_frame_hdr; nullptr: the module has none
  bool of_module;         ///< false: the loader knows no module there
};
/// The unwind table of the module that holds `ip`.
UnwindTable unwind_table_of(uintptr_t ip);
/// Whether libraries were unloaded since we last looked.
bool modules_were_unloaded();
/// If so, logs what is gone and forgets what is known of its code.
void drop_unloaded_modules();

/// Right after the loader has unmapped a library, before another one can take its place, it frees
/// what it knew of the library. This free comes to our hook (hooks/malloc_entry_*.S), and by it we
/// notice the unload. dlclose's hook does not see all: not libc's own calls for gconv, nor those of
/// a library that was opened with RTLD_DEEPBIND.
/// Whether such frees reach us; they do not if the program has a malloc of its own. While false,
/// each stack that is walked asks the loader whether something is gone.
extern GPUPEAK_OWN std::atomic<bool> g_hears_loader;
/// Where the known module that holds `address` ends; 0: no known module does. Callable anywhere.
uintptr_t module_end_at(uintptr_t address);
/// Whether `ip` is our own code. Callable anywhere.
bool is_own_code(uintptr_t ip);
/// The path under which the loader knows this library.
const char* own_path();

/// Logs the functions that libraries export whose files were removed or written anew since they
/// were loaded, from their images in memory: nobody can read the files later. Call it at the
/// process's end.
void define_lost_names();

/// Defines all modules in a new log, if the process knew them before it had that log: in a forked
/// child (`forked`: no thread of it holds the lock), in a process that was only counted so far, or
/// in a program that is attached to again.
void redefine_modules(bool forked);

}  // namespace gpupeak::preload
