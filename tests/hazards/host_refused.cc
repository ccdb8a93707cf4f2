// The machine refuses a request, by a limit of the process that it would pass. argv: what is
// limited (addresses, data, none), how it asks, and whether it goes on.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kAsked = 4096 * kMiB;

__attribute__((noinline)) char* load_model(size_t bytes) {
  return static_cast<char*>(memset(malloc(bytes), 1, bytes));
}

__attribute__((noinline)) bool ask(const char* how, char* held) {
  const auto is = [how](const char* name) { return strcmp(how, name) == 0; };
  volatile size_t bytes = kAsked;
  void* block = nullptr;
  if (is("malloc")) block = malloc(bytes);
  if (is("calloc")) block = calloc(bytes / 16, 16);
  if (is("realloc")) block = realloc(held, bytes);
  if (is("posix_memalign")) return posix_memalign(&block, 64, bytes) == 0;
  if (is("aligned_alloc")) block = aligned_alloc(64, bytes);
  if (is("new")) block = operator new(bytes, std::nothrow);
  if (is("mmap")) {
    block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) block = nullptr;
  }
  if (is("sbrk")) {
    block = sbrk(static_cast<intptr_t>(bytes));
    if (block == reinterpret_cast<void*>(-1)) block = nullptr;
  }
  if (is("thrown")) block = operator new(bytes);
  if (block == nullptr && errno != ENOMEM) printf("errno %d\n", errno);
  return block != nullptr;
}

}  // namespace

int main(int, char** argv) {
  const bool addresses = strcmp(argv[1], "addresses") == 0;
  const rlimit limit{2048 * kMiB, 2048 * kMiB};
  setrlimit(addresses ? RLIMIT_AS : RLIMIT_DATA, &limit);
  char* const held = load_model(250 * kMiB);
  if (ask(argv[2], held)) return 2;
  puts("refused");
  fflush(stdout);
  if (strcmp(argv[3], "ends") == 0) _exit(1);
  free(held);
  return 0;
}
