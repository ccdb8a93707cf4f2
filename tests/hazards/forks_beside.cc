// Children begin while other threads have locks of the loader, of the C library and of ours: they
// open and close a library, ask for symbols, go through what is loaded, throw, allocate, set
// variables and print. A child does no more than it may do by itself, and ends.
// forks_beside PLUGIN HOW CHILDREN     HOW: fork, vfork, clone or spawn
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

extern char** environ;

namespace {

constexpr int kCode = 7;
constexpr int kHungSeconds = 30;  // for what takes a millisecond

std::atomic<bool> g_ends{false};
std::atomic<int> g_found{0};

/// So that a log stays small.
void pause_a_little() {
  const timespec nap{0, 50'000};
  nanosleep(&nap, nullptr);
}

template <typename Work>
std::thread again_and_again(Work work) {
  return std::thread([work] {
    while (!g_ends) work();
  });
}

void map_some() {
  void* at = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) _exit(1);
  static_cast<char*>(at)[4096] = 1;
  munmap(at, 1 << 20);
}

// The C library's fork leaves malloc usable, and the lock that dlsym takes.
void allocate_some() {
  for (size_t bytes : {10, 1000, 70000, 2 << 20}) {
    auto* block = static_cast<char*>(malloc(bytes));
    if (block == nullptr) _exit(1);
    block[0] = 1;
    free(realloc(block, bytes * 2));
  }
}

/// Waits until the child has ended: a signal at its time would be a race. False: it hangs.
bool ends_well(pid_t child) {
  timespec nap{0, 1'000'000};
  for (int naps = 0; naps < kHungSeconds * 1000; ++naps) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == kCode;
    nanosleep(&nap, nullptr);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return false;
}

pid_t begin_forked() {
  const pid_t child = fork();
  if (child != 0) return child;
  allocate_some();
  map_some();
  if (dlsym(RTLD_DEFAULT, "puts") == nullptr) _exit(1);
  allocate_some();
  _exit(kCode);
}

/// Without the C library, whose locks nobody looks after then.
pid_t begin_cloned() {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child != 0) return child;
  map_some();
  _exit(kCode);
}

pid_t begin_vforked(char* const* program) {
  const pid_t child = vfork();
  if (child != 0) return child;
  execve(program[0], program, environ);
  _exit(1);
}

pid_t begin_spawned(char* const* program) {
  pid_t child = -1;
  return posix_spawn(&child, program[0], nullptr, nullptr, program, environ) == 0 ? child : -1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) return kCode;  // what a child has become
  if (count != 4) return 2;
  const char* const plugin = arguments[1];
  const char* const how = arguments[2];
  const int children = atoi(arguments[3]);
  static char once[] = "once";
  char* const program[] = {arguments[0], once, nullptr};

  std::vector<std::thread> beside;
  for (int i = 0; i < 2; ++i) {
    beside.push_back(again_and_again([plugin] {
      if (void* library = dlopen(plugin, RTLD_NOW)) dlclose(library);
    }));
  }
  beside.push_back(again_and_again([] {
    g_found += dlsym(RTLD_DEFAULT, "malloc") != nullptr;
    g_found += dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != nullptr;
  }));
  beside.push_back(again_and_again([] {
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void*) { return object->dlpi_phnum > 1000 ? 1 : 0; },
        nullptr);
  }));
  beside.push_back(again_and_again([] {
    try {
      throw std::runtime_error("caught");
    } catch (const std::exception&) {
    }
    pause_a_little();
  }));
  beside.push_back(again_and_again([] {
    for (int i = 0; i < 50; ++i) free(malloc(3000));
    pause_a_little();
  }));
  beside.push_back(again_and_again([] {
    static std::atomic<int> next{0};
    char value[16];
    snprintf(value, sizeof value, "%d", next++ % 100);
    setenv("FORKS_BESIDE", value, 1);
  }));
  FILE* const nowhere = fopen("/dev/null", "w");
  beside.push_back(again_and_again([nowhere] { fprintf(nowhere, "line\n"); }));

  int bad = 0;
  for (int i = 0; i < children && bad < 3; ++i) {
    pid_t child = -1;
    if (strcmp(how, "fork") == 0) child = begin_forked();
    if (strcmp(how, "clone") == 0) child = begin_cloned();
    if (strcmp(how, "vfork") == 0) child = begin_vforked(program);
    if (strcmp(how, "spawn") == 0) child = begin_spawned(program);
    if (child < 0) return 3;
    if (!ends_well(child)) ++bad;
  }
  g_ends = true;
  for (std::thread& thread : beside) thread.join();
  fclose(nowhere);
  printf("%d of %d children hung or failed\n", bad, children);
  return bad == 0 ? 0 : 1;
}
