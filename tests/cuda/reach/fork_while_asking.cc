// Threads look up names in a driver that has allocators which gpupeak does not know, while children
// are forked that do so too: none of them may wait for what a thread of its parent had locked.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

constexpr int kChildren = 400, kThreads = 3;
std::atomic<bool> g_done{false};

void ask(void* driver) {
  dlsym(driver, "cuMemAllocShiny");
  dlsym(driver, "cuDriverGetVersion");
}

}  // namespace

int main() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  if (init(0) != 0) return 2;
  std::thread threads[kThreads];
  for (std::thread& thread : threads) {
    thread = std::thread([driver] {
      while (!g_done) ask(driver);
    });
  }
  int failed = 0;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // one that hangs ends by it
      ask(driver);
      _exit(0);
    }
    int status = 0;
    failed += waitpid(child, &status, 0) != child || status != 0;
  }
  g_done = true;
  for (std::thread& thread : threads) thread.join();
  if (failed != 0) return 3;
  puts("done");
  return 0;
}
