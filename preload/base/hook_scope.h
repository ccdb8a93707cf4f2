// Who may record. A hook opens a HookScope. If its thread already has one open, our own code called
// a hooked function, or a signal handler interrupted a hook: then the inner call is only passed
// through.
//
//   malloc            scope opened       recorded
//     └ our code calls mmap              scope is open: passed through
//     └ signal handler calls malloc      scope is open: passed through, and counted
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "base/compiler.h"

namespace gpupeak::preload {

/// All of a thread's state outside its slot. Initial-exec TLS: no allocation, no __tls_get_addr.
struct ThreadFlags {
  uintptr_t in_hook = 0;  ///< where on the stack the open HookScope lies; 0: none is open
  /// The same for AllocatorScope: an mmap now is the allocator's backing.
  uintptr_t in_allocator = 0;
  uintptr_t in_driver = 0;  ///< the same for DriverScope (calls/): only the outermost accounts
  /// Inside a library of our choice (unwinder, driver, NVML), which may allocate.
  bool in_library = false;
  bool refused_by_limit = false;             ///< the driver call that failed just now (track/limit)
  uint32_t device_calls = 0;                 ///< DeviceCalls (track/driver_readings) that are open
  struct ThreadSlot* slot = nullptr;         ///< this thread's event stream, once it has one
  uint64_t process_generation = UINT64_MAX;  ///< of `slot`; a forked child's differs
  uint32_t thread = 0;                       ///< its id, as locks have it; 0: not asked for yet
  uint32_t arena_calls = 0;                  ///< of arenas that are open (hooks/arena_tables)
  uint32_t signals_held = 0;                 ///< SignalsHeld that are open
  static constexpr uint32_t kMostLocks = 6;
  uint32_t lock_count = 0;                  ///< LockGuards that are open
  class FutexLock* locks[kMostLocks] = {};  ///< theirs, outermost first
};
extern constinit thread_local ThreadFlags t_flags __attribute__((tls_model("initial-exec")));

/// Whether a scope that lay at `opened` was left by longjmp: we are now nearer to the stack's base,
/// and not on a signal handler's own stack. Called only when a scope seems to be open.
bool was_left_by_longjmp(uintptr_t opened, uintptr_t here);

/// A jump has left the HookScope: what it had locked is released, and it is in no library any more.
void release_left_locks();
/// longjmp is about to make `target` the stack pointer: the scopes that this leaves are closed, and
/// what was locked there is released. The thread's next hook would find it out too, but it may lie
/// deeper in the stack, or come only after the thread has waited for another one, which waits for
/// the lock.
void leave_scopes_for(uintptr_t target);

/// Whether the thread is on a signal handler's own stack, which a program makes as large as its own
/// needs, and too little of it is left for more than what a record takes. Asks the kernel.
bool is_short_of_stack();

/// Whether the thread is inside a driver call.
inline bool is_in_driver() {
  return t_flags.in_driver != 0 && !was_left_by_longjmp(t_flags.in_driver, arch::stack_pointer());
}

/// Whether `target` lies on a signal handler's own stack, on which the thread is now: a jump there
/// leaves nothing of the other stack.
bool is_within_handler(uintptr_t target);

/// Marks a stretch of the thread's work in one of its flags. HOOK-SAFE. `entered` is false in a
/// nested call.
template <uintptr_t ThreadFlags::*kFlag>
class Scope : NoCopies {
 public:
  __attribute__((always_inline)) Scope() {
    const uintptr_t here = arch::stack_pointer();
    const uintptr_t opened = t_flags.*kFlag;
    entered_ = true;
    if (__builtin_expect(opened != 0, 0)) {
      entered_ = was_left_by_longjmp(opened, here);
      if constexpr (kFlag == &ThreadFlags::in_hook) {
        if (entered_) release_left_locks();
      }
    }
    if (entered_) {
      t_flags.*kFlag = here;
      in_order();  // a signal handler on this thread sees it from here on
    }
  }
  __attribute__((always_inline)) ~Scope() {
    if (entered_) {
      in_order();
      t_flags.*kFlag = 0;
    }
  }
  bool entered() const { return entered_; }

 private:
  bool entered_;
};

/// Inside a library of our choice: what it allocates is the process's, and is recorded, without a
/// stack. No record may be half-written meanwhile.
class LibraryScope : NoCopies {
 public:
  LibraryScope() : outer_(t_flags.in_library) { t_flags.in_library = true; }
  ~LibraryScope() { t_flags.in_library = outer_; }

 private:
  const bool outer_;
};

using HookScope = Scope<&ThreadFlags::in_hook>;
/// HookScope for where none is open.
struct OutermostScope : NoCopies {
  __attribute__((always_inline)) OutermostScope() {
    t_flags.in_hook = arch::stack_pointer();
    in_order();
  }
  __attribute__((always_inline)) ~OutermostScope() {
    in_order();
    t_flags.in_hook = 0;
  }
};
/// Around calls of the real allocator.
using AllocatorScope = Scope<&ThreadFlags::in_allocator>;

}  // namespace gpupeak::preload
