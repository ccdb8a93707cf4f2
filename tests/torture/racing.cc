// Threads that race: each puts its blocks into shared mailboxes and frees what it finds there, or
// moves it by realloc. Now and then all stand at a barrier and hold known blocks; that is where the
// peak is. Prints what each site held there and in all.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "torture.h"

namespace {

constexpr unsigned kRounds = 30;
constexpr unsigned kHandovers = 3000;  // a round and thread

/// At each block's begin.
struct Label {
  size_t bytes;
  unsigned site;
};
struct alignas(64) Held {
  std::array<long long, kSites> bytes{};  // may be below zero: blocks are freed by others
};

std::array<std::atomic<Label*>, 64> g_mailboxes;
std::array<Held, kThreads> g_held;
Barrier g_barrier(kThreads);
long long g_peak = 0;
std::array<long long, kSites> g_at_peak{};

Label* take(Held& held, Label* old, unsigned at, size_t bytes) {
  if (old != nullptr) held.bytes[old->site] -= static_cast<long long>(old->bytes);
  auto* block = static_cast<Label*>(kSitesAt[at](old, bytes));
  *block = {bytes, at};
  held.bytes[at] += static_cast<long long>(bytes);
  return block;
}
void give_back(Held& held, Label* block) {
  if (block == nullptr) return;
  held.bytes[block->site] -= static_cast<long long>(block->bytes);
  free(block);
}

void note_peak() {
  std::array<long long, kSites> now{};
  long long sum = 0;
  for (const Held& held : g_held) {
    for (unsigned i = 0; i < kSites; ++i) {
      now[i] += held.bytes[i];
      sum += held.bytes[i];
    }
  }
  if (sum <= g_peak) return;
  g_peak = sum;
  g_at_peak = now;
}

void work(unsigned thread) {
  Random random = random_of(thread + 1);
  Held& held = g_held[thread];
  g_barrier.wait();
  for (unsigned round = 0; round < kRounds; ++round) {
    for (unsigned i = 0; i < kHandovers; ++i) {
      Label* mine = take(held, nullptr, random.below(kSites), 32 + random.below(400));
      Label* theirs = g_mailboxes[random.below(g_mailboxes.size())].exchange(mine);
      if (theirs != nullptr && random.below(4) == 0)
        theirs = take(held, theirs, random.below(kSites), 32 + random.below(4000));
      give_back(held, theirs);
    }
    std::array<Label*, 40> crest;
    const size_t height =
        20000 + 1000 * std::min(round, kRounds - round);  // the middle round's is highest
    for (Label*& block : crest)
      block = take(held, nullptr, random.below(kSites), height + random.below(500));
    g_barrier.wait();
    if (thread == 0) note_peak();
    g_barrier.wait();
    for (Label* block : crest) give_back(held, block);
  }
  g_barrier.wait();
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  Held& rest = g_held[0];
  for (std::atomic<Label*>& mailbox : g_mailboxes) give_back(rest, mailbox.exchange(nullptr));
  printf("truth heap_peak %lld\n", g_peak);
  for (unsigned i = 0; i < kSites; ++i) printf("site<%uu> %lld\n", i, g_at_peak[i]);
  return 0;
}
