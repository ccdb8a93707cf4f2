// Threads that hand blocks to each other, free each other's, reuse addresses and move blocks by
// realloc, each step under one lock: so all steps have one true order. Writes it to a file, a line
// a step, for check.py to compare with the log. With a second argument threads keep the lock for
// many steps now and then, so that each is the only one that logs for a while.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "torture.h"

namespace {

constexpr unsigned kSteps = 30000;  // of each thread
constexpr unsigned kBlocks = 300;   // live at most

struct Step {
  char kind;  // m malloc, f free, r realloc
  unsigned site;
  void *address, *moved;
  size_t bytes;
};

TurnLock g_lock;
std::array<Step, kThreads * kSteps> g_steps;  // in true order
size_t g_step_count = 0;
bool g_long_turns = false;
std::vector<void*> g_blocks;
Barrier g_begin(kThreads + 1), g_end(kThreads + 1);

size_t random_bytes(Random& random) {
  switch (random.below(20)) {
    case 0:
      return 200000 + random.below(200000);  // mapped by libc, and moved by mremap
    case 1:
    case 2:
      return 2000 + random.below(20000);
    default:
      return 1 + random.below(300);
  }
}

void step(Random& random) {
  const unsigned choice = random.below(100);
  if (g_blocks.empty() || (choice < 45 && g_blocks.size() < kBlocks)) {
    const unsigned at = random.below(kSites);
    const size_t bytes = random_bytes(random);
    void* block = kSitesAt[at](nullptr, bytes);
    g_steps[g_step_count++] = {'m', at, block, nullptr, bytes};
    g_blocks.push_back(block);
    return;
  }
  void*& block = g_blocks[random.below(static_cast<unsigned>(g_blocks.size()))];
  if (choice < 60) {
    const unsigned at = random.below(kSites);
    const size_t bytes = random_bytes(random);
    void* moved = kSitesAt[at](block, bytes);
    g_steps[g_step_count++] = {'r', at, block, moved, bytes};
    block = moved;
  } else {
    g_steps[g_step_count++] = {'f', 0, block, nullptr, 0};
    free(std::exchange(block, g_blocks.back()));
    g_blocks.pop_back();
  }
}

void work(unsigned thread) {
  Random random = random_of(thread);
  g_begin.wait();
  for (unsigned i = 0; i < kSteps;) {
    const bool is_long = g_long_turns && random.below(10) == 0;
    unsigned turn = is_long ? 1 + random.below(6000) : 1;
    g_lock.lock();
    for (; turn > 0 && i < kSteps; --turn, ++i) step(random);
    g_lock.unlock();
  }
  g_end.wait();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  g_long_turns = argc == 3;
  g_blocks.reserve(kBlocks);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i + 1);
  g_begin.wait();
  g_end.wait();
  for (std::thread& thread : threads) thread.join();
  FILE* out = fopen(argv[1], "w");
  if (out == nullptr) return 1;
  for (const Step& step : g_steps) {
    fprintf(out, "%c %u %p %p %zu\n", step.kind, step.site, step.address, step.moved, step.bytes);
  }
  return fclose(out) == 0 ? 0 : 1;
}
