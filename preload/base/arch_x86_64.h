// x86-64's part of base/: see arch.h. HOOK-SAFE.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "gpupeak/log_format.h"

namespace gpupeak::preload::arch {

inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

/// rdtscp reads the time after all loads before it have their values, so never before the load that
/// told this thread what another thread has done. Others see this thread's later stores only after
/// the time was read. rdtsc does neither.
inline __attribute__((always_inline)) uint64_t counter() {
  uint32_t low, high;
  asm volatile("rdtscp" : "=a"(low), "=d"(high)::"rcx", "memory");
  return ((static_cast<uint64_t>(high) << 32) | low) / GPUPEAK_CYCLES_OF_TICK;
}
/// The same, sooner, and of no order with loads and stores. Emulators have rdtsc that lack rdtscp,
/// whatever their cpuid says.
inline __attribute__((always_inline)) uint64_t unordered_counter() {
  return __builtin_ia32_rdtsc() / GPUPEAK_CYCLES_OF_TICK;
}
/// The unit of counter().
constexpr gpupeak_clock kCounter = GPUPEAK_CLOCK_TSC_16;
/// Whether counter() exists, ticks evenly, and is in step on all processors.
bool counter_can_be_trusted();
/// The vDSO's names for clock_gettime and clock_getres.
constexpr const char* kVdsoClock = "__vdso_clock_gettime";
constexpr const char* kVdsoResolution = "__vdso_clock_getres";
/// The kernel's clock counts this counter's cycles, or reading it takes longer than one count.
constexpr bool kKernelClockMayStandStill = false;

/// How the loader fills in a slot: for a function's calls, for its address, and for a pointer in
/// data.
constexpr uint32_t kCallRelocation = R_X86_64_JUMP_SLOT;
constexpr uint32_t kAddressRelocation = R_X86_64_GLOB_DAT;
constexpr uint32_t kPointerRelocation = R_X86_64_64;

/// order_loads(): this thread's later loads and stores come after its earlier loads.
/// order_stores(): others see this thread's later stores after its earlier ones. x86 does both by
/// itself.
inline void order_loads() {
  asm volatile("" ::: "memory");
}
inline void order_stores() {
  asm volatile("" ::: "memory");
}

/// Where the calling function's frame ends.
inline __attribute__((always_inline)) uintptr_t stack_pointer() {
  uintptr_t at;
  asm("mov %%rsp, %0" : "=r"(at));
  return at;
}

/// What pthread_self() returns: the thread pointer.
inline uint64_t thread_id() {
  uint64_t id;
  asm("mov %%fs:0, %0" : "=r"(id));
  return id;
}

inline void pause() {
  __builtin_ia32_pause();
}
inline __attribute__((always_inline)) void prefetch(const char* at) {
  asm volatile("prefetcht0 %0" : : "m"(*at));  // as a builtin it is dropped
}

/// The kernel's page size; it has no other.
constexpr size_t page_bytes() {
  return 4096;
}

/// Memory has no tags: bytes beside a block may be read through the block's address.
constexpr bool kPlainAddresses = true;

/// For more than 256 bytes; for fewer there are quicker ways.
inline void copy_bytes(uint8_t* to, const uint8_t* from, size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}
inline void fill_bytes(uint8_t* at, int value, size_t bytes) {
  asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
}

/// Asks the resolver of an indirect function (STT_GNU_IFUNC).
inline void* resolved(uintptr_t resolver) {
  return reinterpret_cast<void* (*)()>(resolver)();
}

}  // namespace gpupeak::preload::arch
