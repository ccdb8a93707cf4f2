// The order in which a thread writes what its own signal handlers may meet. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// A handler that leaves by a jump leaves what stands before this without what stands behind it,
/// never the other way round.
inline __attribute__((always_inline)) void in_order() {
  asm volatile("" ::: "memory");
}

}  // namespace gpupeak::preload
