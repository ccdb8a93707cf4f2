// A driver call faults in an argument of the program's, and the program's handler leaves it by
// siglongjmp. All later calls are recorded: they are made deeper in the stack than that one.
#include <dlfcn.h>
#include <sys/mman.h>

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace {

using Allocate = int (*)(uint64_t*, size_t);
constexpr int kBlocks = 100;
constexpr size_t kBytes = 1000;
sigjmp_buf g_back;

void leave(int) {
  siglongjmp(g_back, 1);
}

[[gnu::noinline]] int allocate_deeper(Allocate allocate, int depth) {
  volatile char room[256] = {};
  if (depth > 0) return allocate_deeper(allocate, depth - 1) + room[depth];
  uint64_t at = 0;
  return allocate(&at, kBytes);
}

}  // namespace

int main() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto allocate = reinterpret_cast<Allocate>(dlsym(driver, "cuMemAlloc_v2"));
  if (init(0) != 0 || allocate == nullptr) return 2;
  void* const nowhere = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  signal(SIGSEGV, leave);
  if (sigsetjmp(g_back, 1) == 0) {
    allocate(static_cast<uint64_t*>(nowhere), kBytes);
    return 3;
  }
  for (int i = 0; i < kBlocks; ++i) {
    if (allocate_deeper(allocate, i % 30) != 0) return 4;
  }
  puts("done");
  return 0;
}
