#include "stack/readable_stack.h"

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include <cerrno>
#include <ctime>

#include "base/syscalls.h"
#include "gpupeak/pages.h"

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

}  // namespace gpupeak::preload
