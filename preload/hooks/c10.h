// PyTorch's allocator tells libc10 of each block that it hands out and takes back, whether or not a
// profiler runs, by a function that is exported and called through the PLT: ours is found first,
// notes the block and goes on to the real one.
#pragma once

namespace gpupeak::preload {

/// Whether `name` is one of the functions that we export in libc10's place. HOOK-SAFE.
bool is_c10_entry(const char* name);
/// After a dlclose: which functions are the real ones must be looked up anew.
void forget_unloaded_c10();

}  // namespace gpupeak::preload
