// As long as one of these lives, no signal handler interrupts its thread, so that none can leave by
// a jump. Used where a descriptor of ours is open, or where memory must be unmapped exactly once,
// on paths so rare that two system calls do not matter. HOOK-SAFE.
#pragma once

#include <csignal>
#include <cstdint>

#include "base/syscalls.h"

namespace gpupeak::preload {

class SignalsHeld {
 public:
  static constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }

  /// `but`: bits of those that are let through.
  explicit SignalsHeld(uint64_t but = 0) {
    // All but those that an instruction of ours may raise: a blocked one of these would kill.
    // SIGSYS is how sandboxes answer system calls.
    const uint64_t held = ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) |
                            bit(SIGSYS) | but);
    held_ = !sys::failed(set(SIG_BLOCK, &held, &before_));
  }
  ~SignalsHeld() { let_go(); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// In this thread, or in a child that is about to call exec.
  void let_go() const {
    if (held_) set(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static long set(int how, const uint64_t* mask, uint64_t* before) {
    return sys::call6(SYS_rt_sigprocmask, how, reinterpret_cast<long>(mask),
                      reinterpret_cast<long>(before), sizeof(uint64_t), 0, 0);
  }

  uint64_t before_ = 0;
  bool held_;
};

}  // namespace gpupeak::preload
