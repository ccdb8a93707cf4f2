#include "base/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>

#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<size_t> g_self_bytes{0};
constinit std::atomic<size_t> g_addresses{0};

void* map(size_t bytes, int flags, int prot = PROT_READ | PROT_WRITE) {
  void* at = sys::mmap(nullptr, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (sys::mmap_failed(at)) return nullptr;
  add_addresses(static_cast<ptrdiff_t>(bytes));
  return at;
}

}  // namespace

void* map_pages(size_t bytes) {
  void* at = map(bytes, 0);
  if (at != nullptr) add_self_bytes(static_cast<ptrdiff_t>(bytes));
  return at;
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
  if (before > 0) sys::munmap(at, before);
  sys::munmap(begin + bytes, kLargePageBytes - before);
  add_addresses(-static_cast<ptrdiff_t>(kLargePageBytes));
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

void unmap_reserved(void* at, size_t bytes) {
  sys::munmap(at, bytes);
  add_addresses(-static_cast<ptrdiff_t>(bytes));
}

void unmap_pages(void* at, size_t bytes) {
  unmap_reserved(at, bytes);
  add_self_bytes(-static_cast<ptrdiff_t>(bytes));
}

void add_addresses(ptrdiff_t bytes) {
  g_addresses.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}

size_t mapped_addresses() {
  return g_addresses.load(std::memory_order_relaxed);
}

size_t self_bytes() {
  return g_self_bytes.load(std::memory_order_relaxed);
}

void add_self_bytes(ptrdiff_t bytes) {
  g_self_bytes.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
