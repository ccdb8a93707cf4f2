// How the stack is walked: libunwind if it can be loaded, else libgcc's unwinder, else only the
// caller.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

// How libunwind is called.

#if defined(__x86_64__)

#define GPUPEAK_LIBUNWIND(name) "_Ux86_64_" name         // its general names …
#define GPUPEAK_LIBUNWIND_LOCAL(name) "_ULx86_64_" name  // … and those for one's own process

constexpr int kUnwindCursorWords = 127;  // unw_cursor_t of libunwind.so.8
constexpr int kUnwindIp = 16;            // UNW_REG_IP

/// Reads the registers of the function that uses this, by a function of libunwind.
#define GPUPEAK_UNWIND_CONTEXT(context) g_libunwind.get_context(context)
constexpr bool kUnwindHasContext = true;
/// unw_backtrace, the fast way, finds what single steps find.
constexpr bool kUnwindFastIsWhole = true;

#else  // aarch64

#define GPUPEAK_LIBUNWIND(name) "_Uaarch64_" name         // its general names …
#define GPUPEAK_LIBUNWIND_LOCAL(name) "_ULaarch64_" name  // … and those for one's own process

constexpr int kUnwindCursorWords = 250;  // unw_cursor_t of libunwind.so.8
constexpr int kUnwindIp = 30;            // UNW_REG_IP

/// Reads the registers of the function that calls this; those that a callee may change are unused.
inline __attribute__((always_inline)) void read_registers(ucontext_t* context) {
  auto* registers = reinterpret_cast<uint64_t*>(context->uc_mcontext.regs);
  asm volatile(
      "stp x18, x19, [%0, #144]\n\t"
      "stp x20, x21, [%0, #160]\n\t"
      "stp x22, x23, [%0, #176]\n\t"
      "stp x24, x25, [%0, #192]\n\t"
      "stp x26, x27, [%0, #208]\n\t"
      "stp x28, x29, [%0, #224]\n\t"
      "mov x16, sp\n\t"
      "stp x30, x16, [%0, #240]\n\t"
      "adr x16, .\n\t"
      "str x16, [%0, #256]"
      :
      : "r"(registers)
      : "x16", "memory");
}
#define GPUPEAK_UNWIND_CONTEXT(context) read_registers(context)
constexpr bool kUnwindHasContext = false;
/// unw_backtrace, the fast way, ends early (1.6.2: where a frame has no frame pointer).
constexpr bool kUnwindFastIsWhole = false;

#endif

// Which part of its stack a thread may read while it follows frames. Unwind rules are wrong where
// assembly switches to another stack, and frame pointers may be no frame pointers: both lead to
// words that were never written, or behind the stack's end.

/// For Valgrind: it complains of a word without a value if the kernel compares the word, but not if
/// the kernel copies it out of a process.
void probe_by_copies();

/// Pages in one piece that were found readable, page by page, and are still mapped: munmap and its
/// like are watched (StackCache, mapping.cc). Written by its thread alone. HOOK-SAFE.
class ReadableStack {
 public:
  /// Whether all from `sp`, where the thread's stack is in use, up to `end` can be read.
  bool reaches(uintptr_t sp, uintptr_t end) { return has(sp, end) || extend(sp, end); }
  /// Whether all from `sp` up to `end` is known to be readable. Callable from any thread.
  bool has(uintptr_t sp, uintptr_t end) const { return begin() <= sp && end <= this->end(); }
  /// Whether it has pages of [begin, end). Callable from any thread.
  bool overlaps(uintptr_t begin, uintptr_t end) const {
    return begin < this->end() && this->begin() < end;
  }
  void forget() { set(0, 0); }

 private:
  uintptr_t begin() const { return begin_.load(std::memory_order_relaxed); }
  uintptr_t end() const { return end_.load(std::memory_order_relaxed); }
  void set(uintptr_t begin, uintptr_t end) {
    begin_.store(begin, std::memory_order_relaxed);
    end_.store(end, std::memory_order_relaxed);
  }
  bool extend(uintptr_t sp, uintptr_t end);

  std::atomic<uintptr_t> begin_{0}, end_{0};
};

/// The stack that the thread was started on, from its top down to where it was seen in use: all of
/// it was found readable, in one piece, and stays so as long as the thread lives. HOOK-SAFE.
class OwnStack {
 public:
  bool has(uintptr_t sp, uintptr_t end) const { return begin_ <= sp && end <= end_; }
  /// The same, after a look at what lies between. False: this is another stack, or none.
  bool reaches(uintptr_t sp, uintptr_t end);
  void forget() { begin_ = end_ = 0; }

 private:
  bool begins_at(uintptr_t sp, uintptr_t top);

  uintptr_t begin_ = 0, end_ = 0;
};

/// What single steps need, some KiB: signal handlers' stacks may be small.
struct UnwindScratch {
  uintptr_t cursor[kUnwindCursorWords];
  ucontext_t context;
};

/// Loads an unwinder. Once, from the library's constructor or at a process's first CUDA call: it
/// calls dlopen, which calls malloc, so never from within an allocator hook, nor before main where
/// the program has its own. Sets the quality bit if libunwind is missing.
void load_unwinder();

/// Say that no unwinder is to be loaded for now: a process that is only counted needs none, and
/// loading one takes as long as all else at the start. Until load_unwinder() a call site that
/// unwind rules do not describe is one frame deep, and the quality bit says so.
void do_without_unwinder();

/// Call it in a forked child, which then does without an unwinder whose locks another thread of the
/// parent may have had, or which would ask a loader that is held for good.
void leave_unwinder_in_child();

/// Call it when code was unloaded: what the unwinder remembers of it may not hold for code that
/// comes to its place. libunwind's fast way cannot be told so, and is not used any more.
void forget_unwound_code();

/// Return addresses of the calling thread, innermost first, at most `capacity`. 0: no unwinder yet.
int unwind(UnwindScratch& scratch, void** frames, int capacity);

}  // namespace gpupeak::preload
