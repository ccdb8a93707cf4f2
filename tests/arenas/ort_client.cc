// A program over the stand-in for ONNX Runtime's arenas. After each call a mark and a line of what
// the arena's own ledger says; the blocks that are left come last.
//   ort_client TRUTH LIBRARY [LIBRARY] [threads|jump|hold|device|fork]
// With two libraries the first one is unloaded in between. fork: a child goes on with the arenas.
// jump: requests are left by longjmp and by exceptions. hold: a request waits until another thread
// has given a block of the same arena back. Of releases in which the arena for streams cannot be
// seen it is left out.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "fake_ort_arena.h"
#include "gpupeak/gpupeak.h"

namespace {

FILE* g_truth;
unsigned g_step;

struct ApiBase {
  const void* (*get_api)(uint32_t);
  const char* (*get_version)();
};

void on_block(uint64_t address, uint64_t bytes) {
  fprintf(g_truth, "block %lu %lu\n", address, bytes);
}

void note(const FakeOrt* ort, const std::vector<void*>& arenas) {
  uint64_t in_use = 0, reserved = 0;
  for (size_t i = 0; i < (ort->streams_are_virtual ? arenas.size() : 1); ++i) {
    in_use += ort->ledger(arenas[i]).in_use;
    reserved += ort->ledger(arenas[i]).reserved;
  }
  char name[32];
  snprintf(name, sizeof name, "s%u", g_step++);
  gpupeak_mark(name);
  fprintf(g_truth, "mark %s %lu %lu\n", name, in_use, reserved);
}

void use(const FakeOrt* ort, void* arena, unsigned seed, const std::vector<void*>* all) {
  std::vector<void*> kept;
  unsigned state = seed;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  const int rounds = all != nullptr ? 300 : 3000;
  for (int i = 0; i < rounds; ++i) {
    const unsigned what = random(100);
    const size_t size = random(4) == 0 ? random(3 << 20) : random(20'000) + 1;
    if (what < 8) {
      kept.push_back(ort->reserve(arena, size + 1));
    } else if (what < 30) {
      kept.push_back(ort->alloc_on_stream(arena, size));
    } else if (what < 50 || kept.empty()) {
      kept.push_back(ort->alloc(arena, size));
    } else if (what == 60) {
      bool caught = false;
      try {
        ort->alloc(arena, size_t{1} << 40);
      } catch (const std::runtime_error&) {
        caught = true;
      }
      CHECK(caught);
    } else {
      std::swap(kept[random(static_cast<unsigned>(kept.size()))], kept.back());
      ort->free(arena, kept.back());
      kept.pop_back();
    }
    if (all != nullptr) note(ort, *all);
  }
  while (kept.size() > 5) {
    ort->free(arena, kept.back());
    kept.pop_back();
  }
  ort->free(arena, nullptr);
}

jmp_buf g_back;
void jump() {
  longjmp(g_back, 1);
}

void leave_by_jump(const FakeOrt* ort, const std::vector<void*>& arenas) {
  static int i;  // in no register that longjmp restores
  for (i = 0; i < 20; ++i) {
    ort->before_lock(&jump);
    if (setjmp(g_back) == 0) {
      ort->alloc(arenas[0], 1000);
      CHECK(false);
    }
    ort->before_lock(nullptr);
    // Another thread does not wait for the one that left.
    if (i % 2 == 0) ort->alloc(arenas[0], 3000);
    const auto by_another = [&] {
      std::thread([&] { ort->free(arenas[0], ort->alloc(arenas[0], 5000)); }).join();
      note(ort, arenas);
    };
    by_another();
    try {
      ort->alloc(arenas[0], size_t{1} << 40);
      CHECK(false);
    } catch (const std::runtime_error&) {
    }
    by_another();
  }
}

std::atomic<int> g_holds{0};
void wait_for_the_other() {
  if (g_holds.exchange(1) == 0) {
    while (g_holds < 2) std::this_thread::yield();
  }
}

void hold(const FakeOrt* ort, void* arena) {
  void* const block = ort->alloc(arena, 1000);
  ort->before_lock(&wait_for_the_other);
  std::thread other([&] {
    while (g_holds < 1) std::this_thread::yield();
    ort->free(arena, block);
    g_holds = 2;
  });
  ort->free(arena, ort->alloc(arena, 2000));
  other.join();
}

/// The child has blocks from before its own log.
void fork_off(const FakeOrt* ort, void* arena) {
  void* const first = ort->alloc(arena, 1000);
  void* const second = ort->alloc(arena, 2000);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    ort->free(arena, first);
    void* const own = ort->alloc(arena, 5000);
    ort->free(arena, second);
    ort->free(arena, own);
    ort->alloc(arena, 700);
    exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  ort->free(arena, second);
}

/// Whether the object's table of functions lies where nobody can write, as the loader left it.
bool is_protected(void* object) {
  const auto table = *static_cast<uintptr_t*>(object);
  FILE* const maps = fopen("/proc/self/maps", "r");
  CHECK(maps != nullptr);
  char line[4096];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t begin = 0, end = 0;
    char rights[8] = {};
    found = sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && begin <= table &&
            table < end && strcmp(rights, "r--p") == 0;
  }
  fclose(maps);
  return found;
}

const FakeOrt* load(const char* path, void** library) {
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(*library != nullptr);
  const auto get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(*library, "OrtGetApiBase"));
  CHECK(get_base()->get_api(15) != nullptr);
  return reinterpret_cast<const FakeOrt* (*)()>(dlsym(*library, "fake_ort"))();
}

void run(const char* path, const std::string& what, bool unload) {
  void* library = nullptr;
  const FakeOrt* ort = load(path, &library);
  if (ort->odd != nullptr) {
    CHECK(ort->odd());
    return;
  }
  constexpr int64_t kLimit = int64_t{1} << 30;
  std::vector<void*> arenas = {ort->make(false, kLimit), ort->make(true, kLimit)};
  for (void* arena : arenas) CHECK(is_protected(arena));
  if (what == "threads") {
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 4; ++i) all.emplace_back(use, ort, arenas[i % 2], i + 1, nullptr);
    for (std::thread& thread : all) thread.join();
    note(ort, arenas);
  } else if (what == "jump") {
    leave_by_jump(ort, arenas);
  } else if (what == "hold") {
    hold(ort, arenas[0]);
  } else if (what == "fork") {
    fork_off(ort, arenas[0]);
  } else {
    use(ort, arenas[0], 1, &arenas);
    use(ort, arenas[1], 2, &arenas);
    // Another one where the first one was, which has blocks.
    ort->destroy(arenas[0]);
    arenas[0] = ort->make(false, kLimit);
    note(ort, arenas);
    use(ort, arenas[0], 3, &arenas);
  }
  if (unload) {
    for (void* arena : arenas) ort->destroy(arena);
    CHECK(dlclose(library) == 0);
    return;
  }
  gpupeak_mark("last");
  for (size_t i = 0; i < (ort->streams_are_virtual ? arenas.size() : 1); ++i) {
    fprintf(g_truth, "peak %lu\n", ort->ledger(arenas[i]).peak);
    ort->each(arenas[i], on_block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  g_truth = fopen(argv[1], "w");
  CHECK(g_truth != nullptr);
  const std::string last = argv[argc - 1];
  const std::string what = last.find('/') == std::string::npos ? last : "";
  const int libraries = argc - 2 - (what.empty() ? 0 : 1);
  for (int i = 0; i < libraries; ++i) run(argv[2 + i], what, i + 1 < libraries);
  fclose(g_truth);
  return 0;
}
