#include "stack/unwinder.h"

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <initializer_list>

#include "base/loader.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "stack/frame_layout.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

constexpr uintptr_t kLargestGap = 64 * kPageBytes;  // that is probed, to join it to what is known

constinit std::atomic<bool> g_by_copies{false};

/// Reads the word as if it were another process's.
bool is_copied(uintptr_t address) {
  uint32_t word;
  const iovec to{&word, sizeof word}, from{reinterpret_cast<void*>(address), sizeof word};
  return sys::process_vm_readv(sys::getpid(), &to, 1, &from, 1) == sizeof word;
}

/// The kernel reads the word before it finds that there is nothing to wait for: mostly the word has
/// another value, and if not, the wait ends at once. `address`: of a word.
bool is_readable(uintptr_t address) {
  constexpr uint32_t kNobodysValue = 0x51a7c0de;
  if (__builtin_expect(g_by_copies.load(std::memory_order_relaxed), 0)) return is_copied(address);
  const timespec at_once{};
  return sys::futex(reinterpret_cast<const void*>(address), FUTEX_WAIT, kNobodysValue, &at_once) !=
         -EFAULT;
}

/// The page that is looked at; it is no larger than the kernel's.
constexpr uintptr_t page_of(uintptr_t at) {
  return at & ~(kPageBytes - 1);
}

/// Up to where all pages from that of `at` are readable; not beyond `limit`. Nothing below `at` is
/// touched: memory below the stack's end is nobody's (valgrind).
uintptr_t probe(uintptr_t at, uintptr_t limit) {
  while (at < limit && is_readable(at)) at = page_of(at) + kPageBytes;
  return at < limit ? page_of(at) : at;
}

/// The lowest word in use.
uintptr_t lowest_word(uintptr_t sp) {
  return sp & ~uintptr_t{7};
}

constexpr uintptr_t kMostUnseen = 4 << 20;  // of its own stack that a thread probes in one go

using Backtrace = int (*)(UnwindScratch& scratch, void** frames, int capacity);
constinit std::atomic<Backtrace> g_backtrace{nullptr};
constinit std::atomic<bool> g_does_without{false};
constinit std::atomic<bool> g_tried{false};
/// Calls of the unwinder that are open. A child that is forked meanwhile has its locks as they
/// were.
constinit std::atomic<uint32_t> g_unwinding{0};

// The functions of libunwind that we use; we do not link to it.
struct Libunwind {
  /// Fast, but never forgets what it has seen at an address.
  int (*backtrace)(void** frames, int capacity);
  // The slow way, which can be told to forget.
  void (*flush_cache)(void* address_space, uintptr_t begin, uintptr_t end);
  void** local_address_space;
  int (*get_context)(ucontext_t* context);
  int (*begin)(void* cursor, ucontext_t* context, int flags);
  int (*step)(void* cursor);
  int (*get_register)(void* cursor, int number, uintptr_t* value);
};
constinit Libunwind g_libunwind{};

int backtrace_fast(UnwindScratch&, void** frames, int capacity) {
  return g_libunwind.backtrace(frames, capacity);
}

int backtrace_with_steps(UnwindScratch& scratch, void** frames, int capacity) {
  int count = 0;
  GPUPEAK_UNWIND_CONTEXT(&scratch.context);
  if (g_libunwind.begin(scratch.cursor, &scratch.context, 0) < 0) return 0;
  do {
    uintptr_t ip = 0;
    if (g_libunwind.get_register(scratch.cursor, kUnwindIp, &ip) < 0 || ip == 0) break;
    frames[count++] = reinterpret_cast<void*>(code_address(ip));
    // A libunwind that does not know signatures would stay here until the capacity is reached.
    if (code_address(ip) != ip) break;
  } while (count < capacity && g_libunwind.step(scratch.cursor) > 0);
  return count;
}

// The functions of libgcc that we use; we do not link to it.
using UnwindStep = int (*)(void* context, void* data);
int (*g_libgcc_backtrace)(UnwindStep, void*) = nullptr;
uintptr_t (*g_libgcc_get_ip)(void*) = nullptr;

int backtrace_with_libgcc(UnwindScratch&, void** frames, int capacity) {
  struct Walk {
    void** frames;
    int count, capacity;
  } walk{frames, 0, capacity};
  g_libgcc_backtrace(
      [](void* context, void* data) -> int {
        auto* state = static_cast<Walk*>(data);
        if (state->count == state->capacity) return 5;  // _URC_END_OF_STACK
        const uintptr_t ip = g_libgcc_get_ip(context);
        if (ip == 0) return 5;
        state->frames[state->count++] = reinterpret_cast<void*>(ip);
        return 0;
      },
      &walk);
  return walk.count;
}

bool find_libunwind(void* library, Libunwind& found) {
  return find_symbol(library, "unw_backtrace", found.backtrace) &&
         find_symbol(library, GPUPEAK_LIBUNWIND("flush_cache"), found.flush_cache) &&
         find_symbol(library, GPUPEAK_LIBUNWIND_LOCAL("local_addr_space"),
                     found.local_address_space) &&
         (!kUnwindHasContext ||
          find_symbol(library, GPUPEAK_LIBUNWIND("getcontext"), found.get_context)) &&
         find_symbol(library, GPUPEAK_LIBUNWIND_LOCAL("init_local2"), found.begin) &&
         find_symbol(library, GPUPEAK_LIBUNWIND_LOCAL("step"), found.step) &&
         find_symbol(library, GPUPEAK_LIBUNWIND_LOCAL("get_reg"), found.get_register);
}

#if defined __aarch64__
#define GPUPEAK_MACHINE "aarch64-linux-gnu"
#else
#define GPUPEAK_MACHINE "x86_64-linux-gnu"
#endif
constexpr const char* kSystemLibunwind[] = {"/usr/lib/" GPUPEAK_MACHINE "/libunwind.so.8",
                                            "/lib/" GPUPEAK_MACHINE "/libunwind.so.8",
                                            "/usr/lib64/libunwind.so.8", "/usr/lib/libunwind.so.8"};

Backtrace load_libunwind() {
  Path beside;
  const char* own = own_path();
  if (const char* slash = strrchr(own, '/'))
    beside.add(std::string_view(own, static_cast<size_t>(slash - own))).add("/libunwind.so.8");
  // By whole paths: the program's current folder may be in LD_LIBRARY_PATH.
  for (const char* name : {beside.c_str(), kSystemLibunwind[0], kSystemLibunwind[1],
                           kSystemLibunwind[2], kSystemLibunwind[3]}) {
    if (name[0] == '/' && find_libunwind(load_library(name), g_libunwind))
      return kUnwindFastIsWhole ? &backtrace_fast : &backtrace_with_steps;
  }
  return nullptr;
}

Backtrace load_libgcc() {
  void* library = load_library("libgcc_s.so.1");
  const bool found = find_symbol(library, "_Unwind_Backtrace", g_libgcc_backtrace) &&
                     find_symbol(library, "_Unwind_GetIP", g_libgcc_get_ip);
  return found ? &backtrace_with_libgcc : nullptr;
}

}  // namespace

void probe_by_copies() {
  g_by_copies.store(true, std::memory_order_relaxed);
}

bool OwnStack::begins_at(uintptr_t sp, uintptr_t top) {
  const uintptr_t first = page_of(sp);
  if (sp >= top || top - sp > kMostUnseen || probe(lowest_word(sp), top) < top) return false;
  if (end_ == 0) end_ = top;
  begin_ = first;
  return true;
}

bool OwnStack::reaches(uintptr_t sp, uintptr_t end) {
  // glibc keeps the thread's own data at the top of its stack. Above the first thread's stack lie
  // the program's arguments and its name.
  const bool begins =
      end_ != 0 ? sp < begin_ && begins_at(sp, begin_)
                : begins_at(sp, reinterpret_cast<uintptr_t>(__builtin_thread_pointer())) ||
                      begins_at(sp, getauxval(AT_EXECFN));
  return begins && end <= end_;
}

bool ReadableStack::extend(uintptr_t sp, uintptr_t end) {
  const uintptr_t first = page_of(sp);
  uintptr_t known_begin = begin(), known_end = this->end();
  const bool joins = first <= known_end && known_begin <= first + kLargestGap;
  if (!joins) known_begin = known_end = first;
  if (first < known_begin) {
    const uintptr_t reached = probe(lowest_word(sp), known_begin);
    if (reached < known_begin) known_end = reached;  // a gap: what is above it is another stack
    known_begin = first;
  }
  if (known_end < end) known_end = probe(known_end < sp ? lowest_word(sp) : known_end, end);
  set(known_begin, known_end);
  return end <= known_end;
}

void do_without_unwinder() {
  g_does_without.store(true, std::memory_order_relaxed);
}

void load_unwinder() {
  if (g_tried.exchange(true)) return;
  Backtrace backtrace = load_libunwind();
  if (backtrace == nullptr) {
    set_quality(GPUPEAK_Q_NO_LIBUNWIND);
    backtrace = load_libgcc();
    if (backtrace == nullptr) set_quality(GPUPEAK_Q_NO_UNWINDER);
  }
  g_does_without.store(false, std::memory_order_relaxed);
  g_backtrace.store(backtrace, std::memory_order_release);
}

void leave_unwinder_in_child() {
  if (g_unwinding.exchange(0, std::memory_order_relaxed) == 0 && !is_loader_held_for_good()) return;
  g_tried.store(true, std::memory_order_relaxed);
  g_backtrace.store(nullptr, std::memory_order_release);
  do_without_unwinder();
}

void forget_unwound_code() {
  const Backtrace used = g_backtrace.load(std::memory_order_acquire);
  if (used == nullptr || used == backtrace_with_libgcc) return;
  g_unwinding.fetch_add(1, std::memory_order_relaxed);
  g_libunwind.flush_cache(*g_libunwind.local_address_space, 0, 0);
  g_unwinding.fetch_sub(1, std::memory_order_relaxed);
  g_backtrace.store(backtrace_with_steps, std::memory_order_release);
}

int unwind(UnwindScratch& scratch, void** frames, int capacity) {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);
  if (backtrace != nullptr) {
    g_unwinding.fetch_add(1, std::memory_order_relaxed);
    const int count = backtrace(scratch, frames, capacity);
    g_unwinding.fetch_sub(1, std::memory_order_relaxed);
    return count;
  }
  if (g_does_without.load(std::memory_order_relaxed)) set_quality(GPUPEAK_Q_NO_UNWINDER);
  return 0;
}

}  // namespace gpupeak::preload
