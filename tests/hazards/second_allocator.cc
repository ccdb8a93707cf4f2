// Memory by malloc, by every operator new, and by what an allocator hands out under its own names:
// each block counts once, whoever has the allocator. Its own functions are looked up, so that the
// program can be run with any allocator, or none.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "own_functions.h"

namespace {

constexpr size_t kMiB = 1 << 20;

__attribute__((noinline)) void* by_malloc(size_t bytes) {
  return memset(malloc(bytes), 1, bytes);
}
__attribute__((noinline)) char* by_new(size_t bytes) {
  return new char[bytes];
}
struct alignas(64) Line {
  char bytes[64];
};
__attribute__((noinline)) Line* by_aligned_new(size_t bytes) {
  return new Line[bytes / sizeof(Line)];
}
__attribute__((noinline)) void* by_nothrow_new(size_t bytes) {
  return ::operator new(bytes, std::nothrow);
}

/// Every form of operator new and delete, all gone again: a hundred rounds of them would be seen.
void use_all_forms() {
  const std::align_val_t line{64};
  for (int i = 0; i < 100; ++i) {
    ::operator delete(::operator new(kMiB));
    ::operator delete(::operator new(kMiB), kMiB);
    ::operator delete(::operator new(kMiB, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](kMiB));
    ::operator delete[](::operator new[](kMiB), kMiB);
    ::operator delete[](::operator new[](kMiB, std::nothrow), std::nothrow);
    ::operator delete(::operator new(kMiB, line), line);
    ::operator delete(::operator new(kMiB, line), kMiB, line);
    ::operator delete(::operator new(kMiB, line, std::nothrow), line, std::nothrow);
    ::operator delete[](::operator new[](kMiB, line), line);
    ::operator delete[](::operator new[](kMiB, line), kMiB, line);
    ::operator delete[](::operator new[](kMiB, line, std::nothrow), line, std::nothrow);
  }
}

/// An exception leaves operator new; what follows is counted as before.
bool throws(size_t bytes) {
  try {
    ::operator delete(::operator new(bytes));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  volatile size_t too_much = size_t{1} << 62;
  const bool aborts = dlsym(RTLD_DEFAULT, "mi_version") != nullptr;  // mimalloc built as C
  if (!aborts && !throws(too_much)) return 2;
  use_all_forms();
  const OwnFunctions own = find_own_functions();
  const size_t own_mib = own.allocate != nullptr ? 100 : 0;
  static void *by_malloc_held[200], *own_held[100];
  static char* by_new_held[250 * 16];
  for (void*& block : by_malloc_held) block = by_malloc(kMiB);
  for (char*& block : by_new_held) block = by_new(kMiB / 16);
  void* const plain = by_nothrow_new(50 * kMiB);
  Line* const lines = by_aligned_new(100 * kMiB);
  for (size_t i = 0; i < own_mib; ++i) own_held[i] = own.reallocate(own.allocate(1000), kMiB);
  for (size_t i = 0; i < own_mib; ++i) own.free(own_held[i]);
  delete[] lines;
  ::operator delete(plain);
  for (char* block : by_new_held) delete[] block;
  for (void* block : by_malloc_held) free(block);
  printf("truth heap_peak %zu\n", (600 + own_mib) * kMiB);
  return 0;
}
