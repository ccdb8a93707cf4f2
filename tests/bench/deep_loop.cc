// What one malloc+free pair costs in a loop of many different deep stacks, as eager PyTorch has
// them: SITES stacks of FRAMES frames, ROUNDS times over in the same order. Their return addresses
// differ
//   own    in all frames: each site is a function of its own that recurses;
//   mixed  in some of the frames, at random: four functions call each other, so that hundreds of
//          stacks have their innermost frames at one place;
//   outer  in the outermost frames only: the inner ones are alike, as those of an allocator are.
// Prints the nanoseconds a pair, of processor time, the calls included.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace {

constexpr int kMostSites = 2000;
volatile int g_sink;  // keeps the recursion from becoming a loop

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

__attribute__((noinline)) void allocate(int site) {
  void* volatile block = malloc(static_cast<size_t>(16 + site % 64 * 16));
  free(block);
}

template <int kSite>
__attribute__((noinline)) void own(int frames) {
  if (frames <= 2) {
    allocate(kSite);
  } else {
    own<kSite>(frames - 1);
  }
  g_sink = kSite + frames;
}
using Own = void (*)(int);
template <int... kSites>
const Own* own_sites(std::integer_sequence<int, kSites...>) {
  static constexpr Own kAll[] = {own<kSites>...};
  return kAll;
}

/// Which of the four functions stands at a depth of a site's stack.
unsigned choice(int site, int frames) {
  uint64_t mixed = static_cast<uint64_t>(site * 1024 + frames) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
  return mixed >> 40 & 3;
}
int g_alike = 0;  // that many inner frames are the same function

void next(int site, int frames);
template <unsigned kWhich>
__attribute__((noinline)) void mixed(int site, int frames) {
  if (frames <= 2) {
    allocate(site);
  } else {
    next(site, frames - 1);
  }
  g_sink = static_cast<int>(kWhich);
}
__attribute__((always_inline)) inline void next(int site, int frames) {
  switch (frames <= g_alike ? 0 : choice(site, frames)) {
    case 0:
      return mixed<0>(site, frames);
    case 1:
      return mixed<1>(site, frames);
    case 2:
      return mixed<2>(site, frames);
    default:
      return mixed<3>(site, frames);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int sites = argc == 5 ? atoi(argv[1]) : 0;
  if (sites < 1 || sites > kMostSites) {
    fprintf(stderr, "usage: %s SITES FRAMES ROUNDS own|mixed|outer; at most %d sites\n", argv[0],
            kMostSites);
    return 2;
  }
  const int frames = atoi(argv[2]), rounds = atoi(argv[3]);
  const bool is_own = strcmp(argv[4], "own") == 0;
  if (strcmp(argv[4], "outer") == 0) g_alike = frames - 16;
  const Own* own_site = own_sites(std::make_integer_sequence<int, kMostSites>());
  const double start = thread_ns();
  for (int round = 0; round < rounds; ++round) {
    for (int site = 0; site < sites; ++site) {
      if (is_own) {
        own_site[site](frames);
      } else {
        next(site, frames);
      }
    }
  }
  printf("%.1f\n", (thread_ns() - start) / rounds / sites);
  return 0;
}
