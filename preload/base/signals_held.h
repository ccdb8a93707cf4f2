// While one of these lives, no signal handler interrupts its thread: none can leave by a jump, and
// none can keep the thread from going on. Used while a lock or a descriptor of ours is held, or
// where memory must be unmapped exactly once. These paths are so rare that two system calls do not
// matter; an inner SignalsHeld makes none. HOOK-SAFE.
#pragma once

#include <csignal>
#include <cstdint>

#include "base/compiler.h"
#include "base/hook_scope.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

class SignalsHeld : NoCopies {
 public:
  static constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }

  /// `but`: bits of signals that are let through.
  explicit SignalsHeld(uint64_t but = 0) {
    if (t_flags.signals_held == 0) block(but);
    in_order();
    ++t_flags.signals_held;
  }
  ~SignalsHeld() {
    --t_flags.signals_held;
    in_order();
    let_go();
  }

  /// Restores the mask, in this thread or in a child that is about to call exec.
  void let_go() const {
    if (held_) set(SIG_SETMASK, &before_, nullptr);
  }

 private:
  void block(uint64_t but) {
    // All but those that an instruction of ours may raise: a blocked one of these would kill.
    // SIGSYS is how sandboxes answer system calls.
    const uint64_t held = ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) |
                            bit(SIGSYS) | but);
    held_ = !sys::failed(set(SIG_BLOCK, &held, &before_));
  }
  static long set(int how, const uint64_t* mask, uint64_t* before) {
    return sys::sigprocmask(how, mask, before);
  }

  uint64_t before_ = 0;
  bool held_ = false;
};

}  // namespace gpupeak::preload
