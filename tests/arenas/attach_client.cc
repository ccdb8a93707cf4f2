// A program over one of the stand-ins for frameworks' allocators, which runs already when somebody
// attaches to it. Told by lines of standard input, each answered by what the allocator's own ledger
// says: "in_use reserved".
//   open       loads the library; unless it is to do so later, it has at the begin
//   ask        asks the library for its entries once more
//   give N B   N blocks of B bytes
//   free N     the last N of them
//   usage: attach_client torch|ort|ort_host|xla LIBRARY [later]
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "fake_c10_cuda.h"
#include "fake_ort_arena.h"
#include "fake_xla.h"

namespace {

struct Ledger {
  uint64_t in_use = 0, reserved = 0;
};
struct Allocator {
  void* (*give)(size_t bytes);
  void (*free)(void* at);
  Ledger (*ledger)();
};

void* g_library;
const FakeTorch* g_torch;
Ledger g_of_torch;
const FakeOrt* g_ort;
void* g_arena;
const FakeXla* g_xla;

template <typename Functions>
const Functions* functions_of(void* library, const char* name) {
  return reinterpret_cast<const Functions* (*)()>(dlsym(library, name))();
}

Allocator open_torch(void* library) {
  g_torch = functions_of<FakeTorch>(library, "fake_torch");
  g_torch->init(false, [](int, const FakeTorchLedger& now) {
    g_of_torch = {now.in_use, now.reserved};
  });
  return {[](size_t bytes) { return g_torch->give(0, 0, bytes); },
          [](void* at) { g_torch->take(0, at); }, [] { return g_of_torch; }};
}

Allocator open_ort(void* library, bool on_gpu) {
  g_ort = functions_of<FakeOrt>(library, "fake_ort");
  g_arena = g_ort->make(on_gpu, INT64_MAX);
  return {[](size_t bytes) { return g_ort->alloc(g_arena, bytes); },
          [](void* at) { g_ort->free(g_arena, at); },
          [] {
            const FakeOrtLedger now = g_ort->ledger(g_arena);
            return Ledger{now.in_use, now.reserved};
          }};
}

Allocator open_xla(void* library) {
  CHECK(functions_of<uintptr_t>(library, "GetPjrtApi") != nullptr);
  g_xla = functions_of<FakeXla>(library, "fake_xla");
  return {[](size_t bytes) { return g_xla->alloc(bytes); }, [](void* at) { g_xla->free(at); },
          [] {
            const FakeXlaLedger now = g_xla->ledger();
            return Ledger{now.in_use, now.pool};
          }};
}

Allocator open_allocator(const std::string& kind, const char* path) {
  g_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(g_library != nullptr);
  if (kind == "torch") return open_torch(g_library);
  if (kind == "xla") return open_xla(g_library);
  return open_ort(g_library, kind == "ort");
}

}  // namespace

__attribute__((noinline)) static void hold(const Allocator& allocator, int count, size_t bytes,
                                           std::vector<void*>& blocks) {
  for (int i = 0; i < count; ++i) {
    blocks.push_back(allocator.give(bytes));
    CHECK(blocks.back() != nullptr);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 3 || argc == 4);
  Allocator allocator{nullptr, nullptr, [] { return Ledger{}; }};
  if (argc == 3) allocator = open_allocator(argv[1], argv[2]);
  std::vector<void*> blocks;
  char line[256];
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof line, stdin) != nullptr) {
    int count = 0;
    size_t bytes = 0;
    if (strcmp(line, "open\n") == 0) allocator = open_allocator(argv[1], argv[2]);
    if (strcmp(line, "ask\n") == 0)
      for (const char* name : {"OrtGetApiBase", "GetPjrtApi"}) dlsym(g_library, name);
    if (sscanf(line, "give %d %zu", &count, &bytes) == 2) hold(allocator, count, bytes, blocks);
    if (sscanf(line, "free %d", &count) == 1) {
      for (; count > 0 && !blocks.empty(); --count) {
        allocator.free(blocks.back());
        blocks.pop_back();
      }
    }
    const Ledger now = allocator.ledger();
    printf("%lu %lu\n", now.in_use, now.reserved);
  }
  puts("done");
  return 0;
}
