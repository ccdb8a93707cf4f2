// Who may record. A hook opens a HookScope; if the thread already has one open (our own code called a
// hooked function, or a signal handler interrupted a hook), the inner call must only pass through.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// All of a thread's state outside its slot. Initial-exec TLS: no allocation, no __tls_get_addr.
struct ThreadFlags {
  uint32_t in_hook = 0;       ///< a HookScope is open
  uint32_t driver_depth = 0;  ///< inside a CUDA driver call (hooks/cuda): only the outermost accounts
  uint32_t malloc_depth = 0;  ///< inside the real allocator: an mmap now is the allocator's backing
  struct ThreadSlot* slot = nullptr;  ///< this thread's event stream, once it has one
  uint64_t process_generation = 0;    ///< of `slot`; a forked child's differs
};
extern thread_local ThreadFlags t_flags __attribute__((tls_model("initial-exec")));

/// HOOK-SAFE. `entered` is false in a nested call: pass through and record nothing.
class HookScope {
 public:
  HookScope() : entered_(t_flags.in_hook == 0) {
    if (entered_) {
      t_flags.in_hook = 1;
      asm volatile("" ::: "memory");  // a signal handler on this thread sees it from here on
    }
  }
  ~HookScope() {
    if (entered_) {
      asm volatile("" ::: "memory");
      t_flags.in_hook = 0;
    }
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  bool entered() const { return entered_; }

 private:
  const bool entered_;
};

}  // namespace gpupeak::preload
