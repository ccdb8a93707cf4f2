// PyTorch's allocator tells libc10 of each block that it hands out and takes back, whether or not a
// profiler runs. The function for that is exported and called through the PLT. Ours is found first:
// it notes the block and calls the real one.
#pragma once

namespace gpupeak::preload {

/// Whether `name` is one of the functions that we export in libc10's place. HOOK-SAFE.
bool is_c10_entry(const char* name);
/// Call it after a dlclose: the real functions must then be looked up anew.
void forget_unloaded_c10();

}  // namespace gpupeak::preload
