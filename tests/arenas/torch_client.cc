// A program over the stand-in for PyTorch, which it loads as Python does, with RTLD_LOCAL. Every
// change of a device's arena is a mark in the log and a line of what the allocator's own ledger
// says then; the blocks that are left come last. many: tens of thousands of blocks; then each
// hundredth change is told.
//   torch_client LIBRARY TRUTH [expandable] [threads] [small_card] [throw] [many]
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "fake_c10_cuda.h"
#include "gpupeak/gpupeak.h"

namespace {

FILE* g_truth;
std::mutex g_truth_lock;
std::atomic<unsigned> g_step;
const FakeTorch* g_torch;
bool g_expandable, g_threads, g_small_card, g_throw, g_many;

void on_change(int device, const FakeTorchLedger& ledger) {
  const unsigned step = g_step++;
  if (g_many && step % 100 != 0) return;
  char name[32];
  snprintf(name, sizeof name, "s%u", step);
  gpupeak_mark(name);
  const std::lock_guard guard(g_truth_lock);
  fprintf(g_truth, "mark %s %d %lu %lu\n", name, device, ledger.in_use, ledger.reserved);
}

void on_block(int device, uint64_t address, uint64_t bytes) {
  fprintf(g_truth, "block %d %lu %lu\n", device, address, bytes);
}

void work(unsigned seed, int device, unsigned steps) {
  std::vector<void*> kept;
  unsigned state = seed;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (unsigned i = 0; i < steps; ++i) {
    const unsigned what = random(100);
    if (what < 55 || kept.empty()) {
      const int arena = random(10) == 0 ? 1 : 0;
      const size_t bytes = random(3) == 0 ? size_t{1 + random(30)} << 20 : 1 + random(1 << 20);
      if (void* at = g_torch->give(device, arena, bytes)) kept.push_back(at);
    } else if (what < 98) {
      std::swap(kept[random(static_cast<unsigned>(kept.size()))], kept.back());
      g_torch->take(device, kept.back());
      kept.pop_back();
    } else {
      g_torch->empty_cache(device);
    }
  }
  // Half of it stays.
  while (kept.size() > 8) {
    g_torch->take(device, kept.back());
    kept.pop_back();
  }
}

/// Small blocks that come and go, thousands of them at once.
void work_with_many() {
  std::vector<void*> kept;
  unsigned state = 5;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (unsigned i = 0; i < 60'000; ++i) {
    if (kept.size() < 9000 ? random(100) < 70 || kept.empty() : random(2) == 0) {
      const size_t bytes = random(50) == 0 ? size_t{2 + random(6)} << 20 : 512 + random(20'000);
      kept.push_back(g_torch->give(0, 0, bytes));
    } else {
      std::swap(kept[random(static_cast<unsigned>(kept.size()))], kept.back());
      g_torch->take(0, kept.back());
      kept.pop_back();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  for (int i = 3; i < argc; ++i) {
    g_expandable = g_expandable || strcmp(argv[i], "expandable") == 0;
    g_threads = g_threads || strcmp(argv[i], "threads") == 0;
    g_small_card = g_small_card || strcmp(argv[i], "small_card") == 0;
    g_throw = g_throw || strcmp(argv[i], "throw") == 0;
    g_many = g_many || strcmp(argv[i], "many") == 0;
  }
  // What the program finds is what it would find without a preload: nothing.
  for (const char* name : {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
                           "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE"}) {
    CHECK(dlsym(RTLD_DEFAULT, name) == nullptr);
    CHECK(dlsym(dlopen(nullptr, RTLD_NOW), name) == nullptr);
  }
  g_truth = fopen(argv[2], "w");
  CHECK(g_truth != nullptr);
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  g_torch = reinterpret_cast<const FakeTorch* (*)()>(dlsym(library, "fake_torch"))();
  g_torch->init(g_expandable, on_change);

  if (g_throw) {
    void* const first = g_torch->give(0, 0, 1000);
    g_torch->throw_once();
    bool caught = false;
    try {
      g_torch->give(0, 0, 3000);
    } catch (...) {
      caught = true;  // the block stays in use, in both accounts
    }
    CHECK(caught);
    g_torch->take(0, first);
  }
  if (g_many) {
    work_with_many();
  } else if (g_threads) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 6; ++i)
      threads.emplace_back(work, i + 1, static_cast<int>(i % 2), 120);
    for (std::thread& thread : threads) thread.join();
  } else {
    work(7, 0, 500);
    work(8, 1, 200);
  }
  gpupeak_mark("last");
  g_torch->for_each_block(on_block);
  const FakeC10Calls real = g_torch->real_calls(), own = g_torch->own_calls();
  CHECK(real.calls == own.calls && real.failures == own.failures && real.bytes == own.bytes &&
        real.hash == own.hash);
  fclose(g_truth);
  return 0;
}
