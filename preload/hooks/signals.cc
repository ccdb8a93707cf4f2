// sigaction, and signal with its other names. For SIGBUS, which log/cut_guard.cc guards, they set
// and return the program's own action. Other signals pass through.
#include <atomic>
#include <csignal>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/next_functions.h"
#include "hooks/adapters.h"
#include "hooks/export.h"
#include "log/log_file.h"

using namespace gpupeak::preload;

namespace {

constexpr int kOnce = static_cast<int>(SA_RESETHAND) | SA_NODEFER;

/// Does what `set` does, a function like signal(). For SIGBUS it sets an action with `flags`,
/// during which SIGBUS is masked or not.
sighandler_t set_handler(SignalHandler (*set)(int, SignalHandler), int number, sighandler_t handler,
                         int flags, bool masked) {
  if (number != SIGBUS || handler == SIG_ERR) return set(number, handler);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  if (masked) action.sa_mask.__val[0] = 1ul << (SIGBUS - 1);
  action.sa_flags = flags;
  return program_action(&action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

#if defined(__x86_64__)

/// The stack pointer in a glibc jmp_buf: its seventh word, mangled.
uintptr_t jump_target(const void* buffer) {
  uintptr_t target = static_cast<const uintptr_t*>(buffer)[6];
  asm("ror $17, %0\n\txor %%fs:0x30, %0" : "+r"(target) : : "cc");
  return target;
}

#else  // aarch64

/// The stack pointer in a glibc jmp_buf: its fourteenth word, mangled by a word that the loader
/// has. 0 if the loader has no such word (musl): then the thread's next hook finds out what the
/// jump has left.
uintptr_t jump_target(const void* buffer) {
  static constinit std::atomic<const uintptr_t*> known{nullptr};
  const uintptr_t* guard = known.load(std::memory_order_relaxed);
  if (guard == nullptr) {
    guard = static_cast<const uintptr_t*>(find_in("ld-linux-aarch64.so", "__pointer_chk_guard"));
    if (guard == nullptr) return 0;
    known.store(guard, std::memory_order_relaxed);
  }
  return static_cast<const uintptr_t*>(buffer)[13] ^ *guard;
}

#endif

[[noreturn]] void leave_by(void (*jump)(void*, int), void* buffer, int value) {
  const uintptr_t target = jump_target(buffer);
  leave_scopes_for(target);
  call_adapters(&Adapter::leave_jump, target);
  jump(buffer, value);
  __builtin_unreachable();
}

}  // namespace

GPUPEAK_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  return number == SIGBUS ? program_action(action, old) : next().sigaction(number, action, old);
}

GPUPEAK_EXPORT sighandler_t signal(int number, sighandler_t handler) {
  return set_handler(next().signal, number, handler, SA_RESTART, true);
}

GPUPEAK_EXPORT sighandler_t bsd_signal(int, sighandler_t) noexcept __attribute__((alias("signal")));
GPUPEAK_EXPORT sighandler_t ssignal(int, sighandler_t) __attribute__((alias("signal")));

GPUPEAK_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) {
  return set_handler(next().__sysv_signal, number, handler, kOnce, false);
}

/// signal() in a program that asks for the C standard alone.
GPUPEAK_EXPORT sighandler_t __sysv_signal(int, sighandler_t) __attribute__((alias("sysv_signal")));

/// sigset() also changes the signal mask. The C library does all of that; only its answer may be
/// wrong for SIGBUS.
GPUPEAK_EXPORT sighandler_t sigset(int number, sighandler_t handler) {
  if (number != SIGBUS) return next().sigset(number, handler);
  struct sigaction before {};
  program_action(nullptr, &before);
  const sighandler_t answer = next().sigset(number, handler);
  return answer == SIG_ERR || answer == SIG_HOLD ? answer : before.sa_handler;
}

// longjmp and its family. A jump that leaves a hook of ours or a driver call leaves no lock and no
// scope behind.

#define JUMP(name)                                                              \
  GPUPEAK_EXPORT __attribute__((noreturn)) void name(void* buffer, int value) { \
    leave_by(next().name, buffer, value);                                       \
  }
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)  // programs built with _FORTIFY_SOURCE call it
#undef JUMP
