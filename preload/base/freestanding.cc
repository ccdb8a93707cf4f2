// The C library's functions on bytes and strings that the compiler and our code call: our own ones
// hide those of the library. A program may define strcmp or strlen, or a sanitizer's runtime may
// replace them and be called before it can run. And a store into the log must be made by our own
// code (log/cut_guard.cc). HOOK-SAFE.
#include <cstring>

#ifndef __clang__  // otherwise memset's loop would become a call of memset
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "base/arch.h"  // behind the pragma

namespace {

/// Copies both ends of a block whose size is, say, in [16, 32], so that the copies overlap. Their
/// size is fixed, so the compiler makes them in place.
template <size_t kBytes>
inline void copy_both_ends(uint8_t* to, const uint8_t* from, size_t bytes) {
  uint8_t first[kBytes], last[kBytes];
  __builtin_memcpy(first, from, kBytes);
  __builtin_memcpy(last, from + bytes - kBytes, kBytes);
  __builtin_memcpy(to, first, kBytes);
  __builtin_memcpy(to + bytes - kBytes, last, kBytes);
}

inline bool copied_short(uint8_t* to, const uint8_t* from, size_t bytes) {
  if (bytes > 32) return false;
  if (bytes >= 16) {
    copy_both_ends<16>(to, from, bytes);
  } else if (bytes >= 8) {
    copy_both_ends<8>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_both_ends<4>(to, from, bytes);
  } else if (bytes >= 2) {
    copy_both_ends<2>(to, from, bytes);
  } else if (bytes == 1) {
    *to = *from;
  }
  return true;
}

}  // namespace

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) {
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  if (copied_short(target, source, bytes)) return to;
  if (bytes <= 256) {
    for (size_t at = 0; at + 16 < bytes; at += 16) __builtin_memcpy(target + at, source + at, 16);
    __builtin_memcpy(target + bytes - 16, source + bytes - 16, 16);
    return to;
  }
  gpupeak::preload::arch::copy_bytes(target, source, bytes);
  return to;
}

/// If the two overlap, begins at the end where no byte is overwritten that is still to be read.
void* memmove(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  if (copied_short(target, source, bytes)) return to;  // reads all before it writes
  constexpr size_t kStep = 16;
  uint8_t step[kStep];
  const auto copy_step = [&](size_t at) {
    __builtin_memcpy(step, source + at, kStep);
    __builtin_memcpy(target + at, step, kStep);
  };
  const bool forwards =
      reinterpret_cast<uintptr_t>(target) - reinterpret_cast<uintptr_t>(source) >= bytes;
  if (forwards) {
    size_t at = 0;
    for (; at + kStep <= bytes; at += kStep) copy_step(at);
    for (; at < bytes; ++at) target[at] = source[at];
  } else {
    size_t left = bytes;
    for (; left >= kStep; left -= kStep) copy_step(left - kStep);
    for (; left > 0; --left) target[left - 1] = source[left - 1];
  }
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  gpupeak::preload::arch::fill_bytes(static_cast<uint8_t*>(to), value, bytes);
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const auto* left = static_cast<const uint8_t*>(a);
  const auto* right = static_cast<const uint8_t*>(b);
  size_t i = 0;
  for (uint64_t x, y; i + 8 <= bytes; i += 8) {
    __builtin_memcpy(&x, left + i, 8);
    __builtin_memcpy(&y, right + i, 8);
    if (x != y) break;
  }
  for (; i < bytes; ++i) {
    if (left[i] != right[i]) return left[i] - right[i];
  }
  return 0;
}

size_t strnlen(const char* text, size_t most) {
  size_t n = 0;
  while (n < most && text[n] != 0) ++n;
  return n;
}
size_t strlen(const char* text) {
  return strnlen(text, SIZE_MAX);
}

int strncmp(const char* a, const char* b, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    const auto x = static_cast<uint8_t>(a[i]), y = static_cast<uint8_t>(b[i]);
    if (x != y || x == 0) return x - y;
  }
  return 0;
}
int strcmp(const char* a, const char* b) {
  return strncmp(a, b, SIZE_MAX);
}

const char* gpupeak_strchr(const char* text, int wanted) asm("strchr");
const char* gpupeak_strchr(const char* text, int wanted) {
  for (;; ++text) {
    if (*text == static_cast<char>(wanted)) return text;
    if (*text == 0) return nullptr;
  }
}
const char* gpupeak_strrchr(const char* text, int wanted) asm("strrchr");
const char* gpupeak_strrchr(const char* text, int wanted) {
  const char* last = nullptr;
  for (;; ++text) {
    if (*text == static_cast<char>(wanted)) last = text;
    if (*text == 0) return last;
  }
}
const char* gpupeak_strstr(const char* text, const char* wanted) asm("strstr");
const char* gpupeak_strstr(const char* text, const char* wanted) {
  const size_t bytes = strlen(wanted);
  for (;; ++text) {
    if (*text == *wanted && strncmp(text, wanted, bytes) == 0) return text;
    if (*text == 0) return nullptr;
  }
}

}  // extern "C"
