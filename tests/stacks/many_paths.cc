// Allocates on top of stacks whose every frame the program knows: at each of kLevels levels one of
// two functions was called, by a bit of the path, and the block's size says which path it was.
// many_paths.py knows the paths too and compares the log with them. The two functions' frames are
// alike, so that all stacks have their innermost frames at one place. Ways:
//
//   callers   two paths in turns that differ in the outermost frame alone
//   middle    each path differs from the first in one frame, at each level in turn
//   crossed   each of some outer halves with each of some inner ones, three times on end
//   many      2,000 paths at random, in the same order again and again
//   beyond    more of them than a thread may remember
//   threads   waves of threads with paths of their own; whoever remembers them must not grow
//   jumps     once all have been met, a timer's handler leaves by siglongjmp whatever it
//   interrupts.
//             Mappings, since it may leave no malloc
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kLevels = 60;
constexpr size_t kPage = 4096;
constexpr int kFirst = 100'000;  // larger than any other block

volatile int g_sink;
bool g_maps = false;

/// As in many_paths.py. Path 0 is 0.
uint64_t random_path(uint64_t number) {
  uint64_t x = number * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

__attribute__((noinline)) void allocate(int number) {
  if (g_maps) {
    const size_t bytes = kPage * static_cast<size_t>(kFirst + number);
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    munmap(at, bytes);
  } else {
    void* volatile block = malloc(static_cast<size_t>(kFirst + number));
    free(block);
  }
  g_sink = number;
}

void descend(uint64_t path, int number, int level);
__attribute__((noinline)) void left(uint64_t path, int number, int level) {
  descend(path, number, level);
  g_sink = 1;
}
__attribute__((noinline)) void right(uint64_t path, int number, int level) {
  descend(path, number, level);
  g_sink = 2;
}
__attribute__((noinline)) void descend(uint64_t path, int number, int level) {
  if (level == kLevels) {
    allocate(number);
  } else {
    void (*volatile next)(uint64_t, int, int) = (path >> level & 1) != 0 ? right : left;
    next(path, number, level + 1);
  }
  g_sink = level;
}

/// The halves' frames are the levels 0 to 29 and 30 to 59; each inner half begins with another
/// outer one.
uint64_t crossed(uint64_t number) {
  constexpr uint64_t kOuter = 4, kLow = (uint64_t{1} << kLevels / 2) - 1;
  const uint64_t inner = number / kOuter, outer = (number + inner) % kOuter;
  return (random_path(inner) & ~kLow) | (random_path(1000 + outer) & kLow);
}

void in_turns(int paths, int rounds, uint64_t (*path)(uint64_t)) {
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < paths; ++i) descend(path(static_cast<uint64_t>(i)), i, 0);
  }
}

uint64_t one_bit(uint64_t number) {
  return number == 0 ? 0 : uint64_t{1} << (number - 1);
}

/// Of the process, not of files.
long anonymous_kib() {
  char line[256];
  long kib = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status) != nullptr) sscanf(line, "RssAnon: %ld", &kib);
  fclose(status);
  return kib;
}

constexpr int kThreads = 8, kPathsOfThread = 300;
void* run_thread(void* first) {
  const int begin = *static_cast<int*>(first);
  for (int round = 0; round < 4; ++round) {
    for (int i = begin; i < begin + kPathsOfThread; ++i) {
      descend(random_path(static_cast<uint64_t>(i)), i, 0);
    }
  }
  return nullptr;
}
void run_waves(int waves) {
  for (int wave = 0; wave < waves; ++wave) {
    pthread_t threads[kThreads];
    int first[kThreads];
    for (int i = 0; i < kThreads; ++i) {
      first[i] = i * kPathsOfThread;
      pthread_create(&threads[i], nullptr, run_thread, &first[i]);
    }
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
}
bool threads_do_not_grow() {
  constexpr long kMostKib = 4096;
  run_waves(4);
  const long before = anonymous_kib();
  run_waves(20);
  const long grown = anonymous_kib() - before;
  printf("%ld KiB more after five times as many threads\n", grown);
  return grown <= kMostKib;
}

sigjmp_buf g_back;
volatile sig_atomic_t g_may_jump;
void strike(int) {
  if (g_may_jump != 0) siglongjmp(g_back, 1);
}
void run_jumps() {
  constexpr int kPaths = 400, kJumps = 3000, kMore = 3 * kPaths;
  g_maps = true;
  signal(SIGALRM, strike);
  const itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  static int at = 0, jumps = 0, more = 0;  // not on the stack: a jump may lose those
  setitimer(ITIMER_REAL, &often, nullptr);
  if (sigsetjmp(g_back, 1) != 0) {
    g_may_jump = 0;
    if (++jumps == kJumps) setitimer(ITIMER_REAL, &never, nullptr);
  }
  for (; more < kMore; at = (at + 1) % kPaths) {
    if (jumps == kJumps) ++more;
    g_may_jump = jumps < kJumps ? 1 : 0;
    descend(random_path(static_cast<uint64_t>(at)), at, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc == 2 ? argv[1] : "";
  if (strcmp(way, "callers") == 0) {
    in_turns(2, 5000, one_bit);
  } else if (strcmp(way, "middle") == 0) {
    in_turns(1 + kLevels, 50, one_bit);
  } else if (strcmp(way, "crossed") == 0) {
    for (int i = 0; i < 3 * 400; ++i) descend(crossed(static_cast<uint64_t>(i / 3)), i / 3, 0);
  } else if (strcmp(way, "many") == 0) {
    in_turns(2000, 10, random_path);
  } else if (strcmp(way, "beyond") == 0) {
    in_turns(12'000, 3, random_path);
  } else if (strcmp(way, "threads") == 0) {
    return threads_do_not_grow() ? 0 : 1;
  } else if (strcmp(way, "jumps") == 0) {
    run_jumps();
  } else {
    return 2;
  }
  return 0;
}
