// Thousands of short threads, thread-local destructors that free, threads that end while others
// allocate, and blocks handed from thread to thread. Prints the true peak of what it holds of its
// large blocks.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

struct FreesLate {
  void* block = malloc(777);
  ~FreesLate() { free(block); }
};
thread_local FreesLate t_late;

std::mutex g_mutex;
std::vector<void*> g_handed;

void work(unsigned seed) {
  t_late.block = realloc(t_late.block, 900);
  for (int i = 0; i < 50; ++i) {
    seed = seed * 1664525u + 1013904223u;
    void* mine = malloc(seed % 3000 + 1);
    void* theirs = nullptr;
    {
      std::lock_guard<std::mutex> lock(g_mutex);
      g_handed.push_back(mine);
      if (g_handed.size() > 20) {
        theirs = g_handed[seed % g_handed.size()];
        g_handed[seed % g_handed.size()] = g_handed.back();
        g_handed.pop_back();
      }
    }
    free(theirs);
  }
}

int main() {
  g_handed.reserve(10000);
  for (unsigned round = 0; round < 500; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, round * 4 + i);
    for (std::thread& thread : threads) thread.join();
  }
  for (void* block : g_handed) free(block);
  puts("done");
  return 0;
}
