#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>

#include "base/memory.h"
#include "base/next_functions.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "log/log_file.h"

// The library's own code, as the linker lays it out.
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char etext[] __attribute__((visibility("hidden")));

namespace gpupeak::preload {
namespace {

// What the code was doing that a signal has stopped. HOOK-SAFE.

#if defined(__x86_64__)

uintptr_t code_at_fault(const ucontext_t& context) {
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}
/// Whether the instruction was about to store. Only for our own code.
bool stores_at_fault(const ucontext_t& context) {
  constexpr greg_t kWrite = 2;  // of the page fault's error code
  return (context.uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
}

#else  // aarch64

uintptr_t code_at_fault(const ucontext_t& context) {
  return context.uc_mcontext.pc;
}

/// Decides by the instruction's class in the table "Loads and Stores" of the architecture's manual.
/// The kernel says the same in a record behind the registers, but emulators leave that out.
bool is_store(uint32_t instruction) {
  const auto has = [instruction](uint32_t mask, uint32_t bits) {
    return (instruction & mask) == bits;
  };
  const bool loads = has(1u << 22, 1u << 22);
  // Exclusive, ordered, compare and swap. An exclusive load is the first half of a store.
  if (has(0x3f000000, 0x08000000)) return !has(0x00a00000, 0x00800000) || !loads;
  if (has(0x3a000000, 0x28000000)) return !loads;                        // pairs
  if (has(0xbe000000, 0x0c000000)) return !loads;                        // vectors by element
  if (has(0x3f200c00, 0x38200000)) return !has(0x0000f000, 0x0000c000);  // atomics, but for ldapr
  if (has(0x3a000000, 0x38000000)) return has(0x00c00000, 0) || has(0x04c00000, 0x04800000);
  return false;
}

/// Whether the instruction was about to store. Only for our own code, since the instruction is
/// read.
bool stores_at_fault(const ucontext_t& context) {
  return is_store(*reinterpret_cast<const uint32_t*>(code_at_fault(context)));
}

#endif

using Handler = void (*)(int, siginfo_t*, void*);
using Notice = void (*)();

/// The program's action for SIGBUS. Its mask is in the kernel's copy.
constinit std::atomic<Handler> g_handler{nullptr};  // nullptr is SIG_DFL
constinit std::atomic<int> g_flags{0};
/// The process that has these actions; 0: none. A vfork child shares this memory, but has its own
/// actions in the kernel, so a child's are set in the kernel alone.
constinit std::atomic<int> g_guarded_process{0};
constinit Notice g_on_cut = nullptr;

/// Our own code writes to no other file mapping than the log. It reads many of the program's files,
/// so a fault of a read is the log's only in the counters page.
bool is_of_the_log(const siginfo_t& info, const ucontext_t& context) {
  const auto at = reinterpret_cast<const char*>(code_at_fault(context));
  const bool is_ours = info.si_code == BUS_ADRERR && at >= __ehdr_start && at < etext;
  const auto from_counters =
      reinterpret_cast<uintptr_t>(info.si_addr) - reinterpret_cast<uintptr_t>(&counters());
  return is_ours && (from_counters < sizeof(gpupeak_counters_page) || stores_at_fault(context));
}

bool put_page(void* address) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  auto* const page = reinterpret_cast<void*>(page_begin(reinterpret_cast<uintptr_t>(address)));
  return page == sys::mmap(page, arch::page_bytes(), PROT_READ | PROT_WRITE, kFlags, -1, 0);
}

/// Lets the signal end the process as it would without us: the same instruction runs again, or a
/// signal that was sent is sent again.
void take_default(const siginfo_t& info) {
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action{};
  sys::sigaction(SIGBUS, &action);
  if (info.si_code <= 0) sys::tgkill(sys::getpid(), sys::gettid(), SIGBUS);
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  if (is_of_the_log(*info, *static_cast<const ucontext_t*>(context))) {
    if (put_page(info->si_addr)) return g_on_cut();
  }
  const Handler handler = g_handler.load(std::memory_order_acquire);
  if (handler == nullptr) return take_default(*info);
  if ((g_flags.load(std::memory_order_relaxed) & static_cast<int>(SA_RESETHAND)) != 0)
    g_handler.store(nullptr, std::memory_order_release);
  handler(number, info, context);
}

}  // namespace

void guard_log(void (*on_cut)()) {
  g_on_cut = on_cut;
  struct sigaction before {};
  if (next().sigaction == nullptr || next().sigaction(SIGBUS, nullptr, &before) != 0) return;
  g_guarded_process = sys::getpid();
  if (before.sa_sigaction != &on_bus_error) program_action(&before, nullptr);
}

void unguard_log() {
  struct sigaction now {};
  if (g_guarded_process != sys::getpid() || next().sigaction(SIGBUS, nullptr, &now) != 0) return;
  if (now.sa_sigaction == &on_bus_error) {
    now.sa_sigaction = g_handler.load(std::memory_order_acquire);
    now.sa_flags = g_flags.load(std::memory_order_relaxed);
    next().sigaction(SIGBUS, &now, nullptr);
  }
  g_guarded_process = 0;
}

int program_action(const struct sigaction* action, struct sigaction* old) {
  const int guarded = g_guarded_process.load(std::memory_order_relaxed);
  if (guarded == 0) return next().sigaction(SIGBUS, action, old);
  const bool is_ours = guarded == sys::getpid();
  const Handler handler_before = g_handler.load(std::memory_order_acquire);
  const int flags_before = g_flags.load(std::memory_order_relaxed);
  struct sigaction ours {};
  if (action != nullptr) ours = *action;
  // We leave SIG_IGN alone: it outlives exec, and a handler does not. `action` may be our own
  // handler, if the program learned of it in another way (a bare system call).
  if (is_ours && action != nullptr && action->sa_handler != SIG_IGN &&
      action->sa_sigaction != &on_bus_error) {
    const Handler handler = action->sa_sigaction;  // nullptr for SIG_DFL
    ours.sa_sigaction = &on_bus_error;
    ours.sa_flags = (action->sa_flags & ~static_cast<int>(SA_RESETHAND)) |
                    (handler != nullptr ? 0 : SA_ONSTACK | SA_RESTART);
    g_flags.store(action->sa_flags, std::memory_order_relaxed);
    g_handler.store(handler, std::memory_order_release);
  }
  if (ours.sa_sigaction == &on_bus_error) ours.sa_flags |= SA_SIGINFO;
  struct sigaction kernels {};
  const int result = next().sigaction(SIGBUS, action != nullptr ? &ours : nullptr, &kernels);
  if (result != 0) {
    g_flags.store(flags_before, std::memory_order_relaxed);
    g_handler.store(handler_before, std::memory_order_release);
  } else if (old != nullptr) {
    const bool was_ours = kernels.sa_sigaction == &on_bus_error;
    *old = kernels;
    if (was_ours) {
      old->sa_sigaction = handler_before;
      old->sa_flags = flags_before;
    }
  }
  return result;
}

}  // namespace gpupeak::preload
