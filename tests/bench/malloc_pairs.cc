// What one malloc+free pair costs: random sizes of 16 B to 4 KiB among 10,000 live blocks, below a
// stack of DEPTH frames, in THREADS threads. Prints the mean of the threads' nanoseconds a pair, of
// processor time: other programs on a busy machine do not count, nor does waiting for locks.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

namespace {

volatile int g_sink;  // keeps the recursion from becoming a loop

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

__attribute__((noinline)) double time_pairs(long pairs, unsigned seed) {
  std::vector<void*> live(10000);
  for (void*& block : live) block = malloc(64);
  unsigned random = seed;
  const double start = thread_ns();
  for (long i = 0; i < pairs; ++i) {
    random = random * 1664525u + 1013904223u;
    void*& block = live[(random >> 8) % live.size()];
    free(block);
    block = malloc(16 + ((random >> 4) & 4095));
  }
  const double took = thread_ns() - start;
  for (void* block : live) free(block);
  return took / static_cast<double>(pairs);
}

__attribute__((noinline)) double at_depth(int depth, long pairs, unsigned seed) {
  const double ns = depth <= 1 ? time_pairs(pairs, seed) : at_depth(depth - 1, pairs, seed);
  g_sink = depth;
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s DEPTH THREADS PAIRS\n", argv[0]);
    return 2;
  }
  const int depth = atoi(argv[1]);
  const auto threads = static_cast<size_t>(atoi(argv[2]));
  const long pairs = atol(argv[3]);
  std::vector<double> ns(threads);
  if (threads == 1) {
    ns[0] = at_depth(depth, pairs, 1);
  } else {
    std::vector<std::thread> workers;
    for (size_t i = 0; i < threads; ++i) {
      workers.emplace_back(
          [&ns, i, depth, pairs] { ns[i] = at_depth(depth, pairs, static_cast<unsigned>(i + 1)); });
    }
    for (std::thread& worker : workers) worker.join();
  }
  double sum = 0;
  for (double value : ns) sum += value;
  printf("%.1f\n", sum / static_cast<double>(threads));
  return 0;
}
