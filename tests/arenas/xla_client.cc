// A program over the stand-in for an XLA plugin. After each step a mark and a line of what the
// plugin's own ledger says; the blocks that are left come last.
//   xla_client TRUTH LIBRARY [threads|wait]
// wait: a request finds no memory and waits for what another thread gives back, while further ones
// go on.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "fake_xla.h"
#include "gpupeak/gpupeak.h"

namespace {

using Word = uintptr_t;
using Function = Word (*)(Word*);

FILE* g_truth;
unsigned g_step;

void on_block(uint64_t address, uint64_t bytes) {
  fprintf(g_truth, "block %lu %lu\n", address, bytes);
}

void note(const FakeXla* xla) {
  const FakeXlaLedger ledger = xla->ledger();
  char name[32];
  snprintf(name, sizeof name, "s%u", g_step++);
  gpupeak_mark(name);
  fprintf(g_truth, "mark %s %lu %lu\n", name, ledger.in_use, ledger.pool);
}

Word call(const Word* api, FakePjrtSlot slot, Word* arguments) {
  errno = 4711;
  const Word error = reinterpret_cast<Function>(api[slot])(arguments);
  CHECK(errno == 4711);
  return error;
}

Word compile(const Word* api, const char* name) {
  Word arguments[] = {7 * sizeof(Word), 0, 0, reinterpret_cast<Word>(name), 0, 0, 0};
  const Word error = call(api, kPjrtCompile, arguments);
  CHECK((error != 0) == (name == nullptr));
  if (error != 0) {
    Word destroy[] = {3 * sizeof(Word), 0, error};
    call(api, kPjrtDestroyError, destroy);
  }
  return arguments[6];
}
void execute(const Word* api, Word program) {
  Word arguments[] = {10 * sizeof(Word), 0, program, 0, 0, 0, 0, 0, 0, 0};
  CHECK(call(api, kPjrtExecute, arguments) == 0);
}
void destroy(const Word* api, Word program) {
  Word arguments[] = {3 * sizeof(Word), 0, program};
  CHECK(call(api, kPjrtDestroyProgram, arguments) == 0);
}

void use(const FakeXla* xla, unsigned seed, bool steps) {
  std::vector<void*> kept;
  unsigned state = seed;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int i = 0; i < (steps ? 600 : 3000); ++i) {
    const unsigned what = random(100);
    const size_t size = random(8) == 0 ? random(1 << 20) + 1 : random(20'000) + 1;
    if (what < 25) {
      kept.push_back(xla->alloc_with(size, true));
    } else if (what < 50 || kept.empty()) {
      kept.push_back(xla->alloc(size));
    } else if (what == 60) {
      CHECK(xla->alloc_with(size_t{1} << 40, false) == nullptr);
    } else if (what == 61) {
      xla->clear_statistics();
    } else {
      std::swap(kept[random(static_cast<unsigned>(kept.size()))], kept.back());
      xla->free(kept.back());
      kept.pop_back();
    }
    if (steps) note(xla);
  }
  while (kept.size() > 5) {
    xla->free(kept.back());
    kept.pop_back();
  }
  xla->free(nullptr);
}

void wait_for_memory(const FakeXla* xla) {
  void* const most = xla->alloc(30 << 20);
  xla->alloc(16 << 20);
  void* late = nullptr;
  std::thread waiting([&] { late = xla->alloc_with(20 << 20, true); });
  while (!xla->waits()) std::this_thread::yield();
  // Others go on meanwhile, and what they free is what it waits for.
  const auto begin = std::chrono::steady_clock::now();
  void* small[20];
  for (void*& at : small) at = xla->alloc(5000);
  for (int i = 0; i < 20; i += 2) xla->free(small[i]);
  xla->free(most);
  waiting.join();
  CHECK(late != nullptr);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(6));
  note(xla);
  xla->free(xla->alloc(7000));  // alone again
  note(xla);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  g_truth = fopen(argv[1], "w");
  CHECK(g_truth != nullptr);
  const std::string what = argc > 3 ? argv[3] : "";
  void* const library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  const auto get_api = reinterpret_cast<const Word* (*)()>(dlsym(library, "GetPjrtApi"));
  CHECK(get_api == reinterpret_cast<const Word* (*)()>(dlsym(library, "GetPjrtApi")));
  const Word* const api = get_api();
  CHECK(api == get_api() && api[0] == 143 * sizeof(Word));
  const FakeXla* const xla = reinterpret_cast<const FakeXla* (*)()>(dlsym(library, "fake_xla"))();
  xla->free(xla->alloc(1000));
  if (what == "threads") {
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 4; ++i) all.emplace_back(use, xla, i + 1, false);
    for (std::thread& thread : all) thread.join();
    note(xla);
  } else if (what == "wait") {
    wait_for_memory(xla);
  } else {
    CHECK(compile(api, nullptr) == 0);
    const Word first = compile(api, "jit_first");
    const Word second = compile(api, "jit_second_with_a_longer_name");
    for (int i = 0; i < 7; ++i) execute(api, first);
    for (int i = 0; i < 3; ++i) execute(api, second);
    destroy(api, first);
    const Word third = compile(api, "jit_third");  // where the first was
    fprintf(g_truth, "same %d\n", third == first);
    execute(api, third);
    use(xla, 1, true);
  }
  gpupeak_mark("last");
  fprintf(g_truth, "peak %lu\n", xla->ledger().peak);
  xla->each(on_block);
  fclose(g_truth);
  return 0;
}
