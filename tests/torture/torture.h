// What the torture programs share: the sites that allocate, random numbers, and a barrier and a
// lock that take no memory.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#ifndef TORTURE_THREADS
#define TORTURE_THREADS 4
#endif

constexpr unsigned kThreads = TORTURE_THREADS;
constexpr unsigned kSites = 3;

template <unsigned kSite>
__attribute__((noinline)) void* site(void* old, size_t bytes) {
  void* block = old != nullptr ? realloc(old, bytes) : malloc(bytes);
  asm volatile("" ::: "memory");  // no tail call
  return block;
}
constexpr void* (*kSitesAt[kSites])(void*, size_t) = {site<0>, site<1>, site<2>};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint32_t below(uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>((state_ >> 32) * limit >> 32);
  }

 private:
  uint64_t state_;
};

/// Another one for each thread, and for each TORTURE_SEED.
inline Random random_of(unsigned thread) {
  const char* seed = getenv("TORTURE_SEED");
  return Random(thread + (seed != nullptr ? strtoull(seed, nullptr, 10) * kThreads : 0));
}

class Barrier {
 public:
  explicit Barrier(unsigned threads) : threads_(threads) {}
  void wait() {
    const unsigned round = round_.load();
    if (arrived_.fetch_add(1) + 1 == threads_) {
      arrived_.store(0);
      round_.store(round + 1);
    } else {
      while (round_.load() == round) sched_yield();
    }
  }

 private:
  const unsigned threads_;
  std::atomic<unsigned> arrived_{0}, round_{0};
};

/// Fair: waiting threads take turns, so that each step is another thread's.
class TurnLock {
 public:
  void lock() {
    const unsigned turn = next_.fetch_add(1);
    for (int spins = 0; served_.load(std::memory_order_acquire) != turn; ++spins) {
      if (spins > 2000) sched_yield();
    }
  }
  void unlock() { served_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<unsigned> next_{0}, served_{0};
};
