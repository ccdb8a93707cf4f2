#include "stack/readable_stack.h"

#include <cerrno>

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr uintptr_t kLargestGap = 64 * kPage;  // that is probed to join what is known

/// The kernel reads the signal set before it refuses the operation, which there is not.
bool is_readable(uintptr_t address) {
  constexpr long kNoOperation = -1;
  return sys::call6(SYS_rt_sigprocmask, kNoOperation, static_cast<long>(address), 0, 8, 0, 0) ==
         -EINVAL;
}

/// Up to where, from page `at`, all pages are readable; not beyond `limit`.
uintptr_t probe(uintptr_t at, uintptr_t limit) {
  while (at < limit && is_readable(at)) at += kPage;
  return at;
}

}  // namespace

bool ReadableStack::extend(uintptr_t sp, uintptr_t end) {
  const uintptr_t first = sp & ~(kPage - 1);
  uintptr_t known_begin = begin(), known_end = this->end();
  const bool joins = first <= known_end && known_begin <= first + kLargestGap;
  if (!joins) known_begin = known_end = first;
  if (first < known_begin) {
    const uintptr_t reached = probe(first, known_begin);
    if (reached < known_begin) known_end = reached;  // a gap: another stack lies above it
    known_begin = first;
  }
  if (known_end < end) known_end = probe(known_end, end);
  set(known_begin, known_end);
  return end <= known_end;
}

}  // namespace gpupeak::preload
