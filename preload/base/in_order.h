// The order in which a thread writes what its own signal handlers may meet. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// If a signal handler leaves by a jump, the writes above this may have happened without those
/// below it, but never those below without those above.
inline __attribute__((always_inline)) void in_order() {
  asm volatile("" ::: "memory");
}

}  // namespace gpupeak::preload
