// What the order of time stamps costs a malloc+free pair: pairs as in malloc_pairs.cc, with two
// stamps of each kind written into a small ring, as a log would be. The kinds take turns in batches
// within one run, so that other programs disturb all alike. Prints medians and quartiles, of
// processor time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

constexpr int kBatches = 201;
constexpr int kPairs = 20000;

uint64_t none() {
  return 0;
}
uint64_t rdtsc() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
  return (uint64_t{high} << 32) | low;
}
uint64_t rdtscp() {
  uint32_t low, high;
  asm volatile("rdtscp" : "=a"(low), "=d"(high)::"rcx", "memory");
  return (uint64_t{high} << 32) | low;
}
uint64_t lfence_rdtsc() {
  asm volatile("lfence" ::: "memory");
  return rdtsc();
}

uint64_t g_ring[512];
unsigned g_at = 0;
std::vector<void*> g_live(10000);
unsigned g_random = 1;

template <uint64_t (*kAfterMalloc)(), uint64_t (*kBeforeFree)()>
double batch() {
  timespec begin{}, end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (int i = 0; i < kPairs; ++i) {
    g_random = g_random * 1664525u + 1013904223u;
    void*& block = g_live[(g_random >> 8) % g_live.size()];
    g_ring[g_at++ % 512] = kBeforeFree();
    free(block);
    block = malloc(16 + ((g_random >> 4) & 4095));
    g_ring[g_at++ % 512] = kAfterMalloc();
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
          static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
         kPairs;
}

struct Kind {
  const char* name;
  double (*batch)();
  std::vector<double> ns;
};

}  // namespace

int main() {
  Kind kinds[] = {{"no stamp", batch<none, none>, {}},
                  {"rdtsc, not in order", batch<rdtsc, rdtsc>, {}},
                  {"lfence and rdtsc after malloc, rdtsc before free (before the mend)",
                   batch<lfence_rdtsc, rdtsc>,
                   {}},
                  {"rdtscp twice (now)", batch<rdtscp, rdtscp>, {}},
                  {"lfence and rdtsc twice", batch<lfence_rdtsc, lfence_rdtsc>, {}}};
  for (void*& block : g_live) block = malloc(64);
  for (int i = 0; i < kBatches; ++i) {
    for (Kind& kind : kinds) kind.ns.push_back(kind.batch());
  }
  puts("| ns a pair | median | quartiles |\n|---|---|---|");
  for (Kind& kind : kinds) {
    std::sort(kind.ns.begin(), kind.ns.end());
    printf("| %s | %.1f | %.1f to %.1f |\n", kind.name, kind.ns[kBatches / 2],
           kind.ns[kBatches / 4], kind.ns[kBatches * 3 / 4]);
  }
  for (void* block : g_live) free(block);
  return 0;
}
