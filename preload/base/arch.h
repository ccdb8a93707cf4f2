// All that depends on the processor: registers, the stack pointer, page sizes, machine code. Both
// architectures declare the same; what is said of x86's holds for both. HOOK-SAFE.
#pragma once

#include <elf.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>

#include "gpupeak/log_format.h"

namespace gpupeak::preload::arch {

#if defined(__x86_64__)

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

/// As ELF files name the processor.
constexpr uint16_t kMachine = EM_X86_64;

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

#else  // aarch64

inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
}

/// The processor may read the counter out of order. dsb waits until all loads before it have their
/// values; isb keeps the reading behind it. The load whose address depends on the reading comes
/// after the reading; dmb keeps all that follows behind that load: docs/design.md, "Order".
inline __attribute__((always_inline)) uint64_t counter() {
  uint64_t now, zero;
  asm volatile(
      "dsb ishld\n\t"
      "isb\n\t"
      "mrs %0, cntvct_el0\n\t"
      "eor %1, %0, %0\n\t"
      "ldr xzr, [sp, %1]\n\t"
      "dmb ishld"
      : "=&r"(now), "=&r"(zero)::"memory");
  return now;
}
/// The same, sooner, and of no order with loads and stores.
inline __attribute__((always_inline)) uint64_t unordered_counter() {
  uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
}
constexpr gpupeak_clock kCounter = GPUPEAK_CLOCK_TSC;
/// Whether reading counter() takes longer than one of its counts. Machines count at 1 GHz, or at 25
/// MHz. There is one counter for all processors.
bool counter_can_be_trusted();
constexpr const char* kVdsoClock = "__kernel_clock_gettime";
constexpr const char* kVdsoResolution = "__kernel_clock_getres";
/// The kernel's clock counts by the same counter. Where that is slow, two readings may be equal
/// even if one depends on the other.
constexpr bool kKernelClockMayStandStill = true;

constexpr uint16_t kMachine = EM_AARCH64;

constexpr uint32_t kCallRelocation = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kAddressRelocation = R_AARCH64_GLOB_DAT;
constexpr uint32_t kPointerRelocation = R_AARCH64_ABS64;

inline void order_loads() {
  asm volatile("dmb ishld" ::: "memory");
}
inline void order_stores() {
  asm volatile("dmb ishst" ::: "memory");
}

inline __attribute__((always_inline)) uintptr_t stack_pointer() {
  uintptr_t at;
  asm("mov %0, sp" : "=r"(at));
  return at;
}

/// What pthread_self() returns. It lies below the thread pointer, at a distance that differs
/// between glibc's releases.
uint64_t thread_id();

inline void pause() {
  asm volatile("isb");  // yield takes no time on most
}
inline __attribute__((always_inline)) void prefetch(const char* at) {
  asm volatile("prfm pldl1keep, [%0]" : : "r"(at));
}

/// The kernel's page size: 4, 16 or 64 KiB. If the kernel does not say, the largest of these.
inline size_t page_bytes() {
  const unsigned long bytes = getauxval(AT_PAGESZ);
  return bytes != 0 ? bytes : 65536;
}

/// Memory may have tags: then bytes beside a block must not be read through the block's address.
constexpr bool kPlainAddresses = false;

inline void copy_bytes(uint8_t* to, const uint8_t* from, size_t bytes) {
  struct Block {
    uint64_t words[8];
  };
  Block block;
  for (size_t at = 0; at + sizeof block < bytes; at += sizeof block) {
    __builtin_memcpy(&block, from + at, sizeof block);
    __builtin_memcpy(to + at, &block, sizeof block);
  }
  __builtin_memcpy(&block, from + bytes - sizeof block, sizeof block);
  __builtin_memcpy(to + bytes - sizeof block, &block, sizeof block);
}
inline void fill_bytes(uint8_t* at, int value, size_t bytes) {
  const uint64_t word = static_cast<uint8_t>(value) * 0x0101010101010101u;
  for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word)
    __builtin_memcpy(at, &word, sizeof word);
  for (; bytes > 0; --bytes) *at++ = static_cast<uint8_t>(value);
}

/// Asks the resolver of an indirect function (STT_GNU_IFUNC) as glibc does: it passes what the
/// processor can do.
inline void* resolved(uintptr_t resolver) {
  const struct {
    unsigned long bytes, hwcap, hwcap2;
  } features{sizeof features, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  constexpr unsigned long kHasSecondArgument = 1ul << 62;
  return reinterpret_cast<void* (*)(unsigned long, const void*)>(resolver)(
      features.hwcap | kHasSecondArgument, &features);
}

#endif

}  // namespace gpupeak::preload::arch
