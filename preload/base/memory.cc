#include "base/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/own_ranges.h"
#include "base/syscalls.h"

/// This library, from its first byte to the end of its variables, by the linker.
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace gpupeak::preload {

constinit std::atomic<uint64_t> g_own_bytes{512 << 10};  // at the start of every process

namespace {

constinit std::atomic<size_t> g_addresses{0};
constinit OwnRanges g_own;

void* map(size_t bytes, int flags, int prot = PROT_READ | PROT_WRITE) {
  void* at = sys::mmap(nullptr, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (sys::mmap_failed(at)) return nullptr;
  note_own(at, bytes);
  return at;
}

}  // namespace

void* map_pages(size_t bytes) {
  return map(bytes, 0);
}

void* reserve_pages(size_t bytes) {
  void* at = map(bytes, MAP_NORESERVE);
  if (at != nullptr)
    sys::madvise(at, bytes, MADV_NOHUGEPAGE);  // a first touch costs 4 KiB, not 2 MiB
  return at;
}

void* reserve_large_pages(size_t bytes) {
  void* at = map(bytes + kLargePageBytes, MAP_NORESERVE);
  if (at == nullptr) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(at) % kLargePageBytes;
  char* begin = static_cast<char*>(at) + before;
  if (before > 0) unmap_pages(at, before);
  unmap_pages(begin + bytes, kLargePageBytes - before);
  sys::madvise(begin, bytes, MADV_HUGEPAGE);
  return begin;
}

void* reserve_addresses(size_t bytes) {
  return map(bytes, MAP_NORESERVE, PROT_NONE);
}

bool commit_pages(void* at, size_t bytes) {
  if (sys::failed(sys::mprotect(at, bytes, PROT_READ | PROT_WRITE))) return false;
  sys::madvise(at, bytes, MADV_NOHUGEPAGE);
  return true;
}

bool addresses_are_limited() {
  rlimit limit{};
  return !sys::failed(sys::getrlimit(RLIMIT_AS, &limit)) && limit.rlim_cur != RLIM_INFINITY;
}

void clear_pages(std::atomic<uint64_t>* words, size_t count) {
  if (!sys::failed(sys::madvise(words, count * sizeof *words, MADV_DONTNEED))) return;
  for (size_t i = 0; i < count; ++i) words[i].store(0, std::memory_order_relaxed);
}

void unmap_pages(void* at, size_t bytes) {
  forget_own(at, bytes);
  sys::munmap(at, bytes);
}

void note_own(const void* at, size_t bytes) {
  add_addresses(static_cast<ptrdiff_t>(bytes));
  g_own.add(reinterpret_cast<uintptr_t>(at), bytes);
}

void forget_own(const void* at, size_t bytes) {
  add_addresses(-static_cast<ptrdiff_t>(bytes));
  g_own.take(reinterpret_cast<uintptr_t>(at), bytes);
}

uint64_t own_within(uint64_t begin, uint64_t end) {
  const auto file = reinterpret_cast<uintptr_t>(__ehdr_start);
  return bytes_in_both(file, reinterpret_cast<uintptr_t>(_end), begin, end) +
         g_own.within(begin, end);
}

void add_addresses(ptrdiff_t bytes) {
  g_addresses.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}

size_t mapped_addresses() {
  return g_addresses.load(std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
