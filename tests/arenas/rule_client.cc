// A program over pools that rules name. The last lines are what their own ledgers say.
//   rule_client TRUTH LIBRARY PLUGIN [threads|again]
// DEMO_LINKED: linked with the library; else it is loaded. again: both libraries were loaded
// before, used, and closed.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "demo_pool.h"
#include "gpupeak/gpupeak.h"

namespace {

FILE* g_truth;
const char* g_of;

void on_block(uint64_t address, uint64_t bytes) {
  fprintf(g_truth, "block %s %lu %lu\n", g_of, address, bytes);
}
void note(const char* name, const demo::Ledger& ledger) {
  fprintf(g_truth, "pool %s %lu %lu %lu\n", name, ledger.in_use, ledger.peak, ledger.requests);
}

template <typename Function>
Function* look_up(void* library, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  CHECK(found != nullptr);
  return found;
}

struct Functions {
  decltype(&demo_alloc) alloc, plugin_alloc, alloc_twice_as_much;
  decltype(&demo_free) free, plugin_free;
};

void use_functions(const Functions& f, unsigned seed) {
  std::vector<void*> kept;
  unsigned state = seed;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 900; ++i) {
    errno = 4711;
    void* at = nullptr;
    switch (random(8)) {
      case 0:
        at = f.alloc(random(9000) + 1);
        break;
      case 1:
        at = f.plugin_alloc(random(9000) + 1);
        break;
      case 2:
        at = f.alloc_twice_as_much(random(4000) + 1);
        break;
#ifdef DEMO_LINKED
      case 3:
        at = demo_alloc(random(9000) + 1);
        break;
#endif
      case 4:
        CHECK(f.alloc(64 << 20) == nullptr);
        at = f.alloc(0);  // a block all the same, which is given back
        break;
      default:
        if (kept.empty()) continue;
        (random(2) == 0 ? f.free : f.plugin_free)(kept.back());
        kept.pop_back();
        continue;
    }
    CHECK(at != nullptr);
    kept.push_back(at);
  }
}

void use_pool(demo::Pool* pool, unsigned seed, std::vector<std::pair<void*, size_t>>& kept) {
  unsigned state = seed;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 700; ++i) {
    if (random(3) != 0 || kept.empty()) {
      size_t given = 0;
      void* const at = pool->alloc(random(20'000) + 1, &given);
      CHECK(at != nullptr && given % 512 == 0);
      kept.emplace_back(at, given);
    } else {
      const size_t which = random(static_cast<unsigned>(kept.size()));
      pool->free(kept[which].first, kept[which].second);
      kept.erase(kept.begin() + which);
    }
  }
  size_t given = 0;
  CHECK(pool->alloc(1 << 30, &given) == nullptr);
}

}  // namespace

#ifndef DEMO_LINKED
void use_and_close(const char* library_path, const char* plugin_path) {
  void* const library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  void* const plugin = dlopen(plugin_path, RTLD_LAZY | RTLD_LOCAL);
  CHECK(library != nullptr && plugin != nullptr);
  void* const at = look_up<decltype(plugin_alloc)>(plugin, "plugin_alloc")(5000);
  CHECK(at != nullptr);
  look_up<decltype(demo_free)>(library, "demo_free")(at);
  demo::Pool* const pool = look_up<decltype(demo_make_pool)>(library, "demo_make_pool")();
  size_t given = 0;
  pool->free(pool->alloc(700, &given), given);
  delete pool;
  CHECK(dlclose(plugin) == 0 && dlclose(library) == 0);
  CHECK(dlopen(library_path, RTLD_NOW | RTLD_NOLOAD) == nullptr);
}
#endif

int main(int argc, char** argv) {
  CHECK(argc >= 4);
  g_truth = fopen(argv[1], "w");
  const bool threads = argc > 4 && strcmp(argv[4], "threads") == 0;
#ifdef DEMO_LINKED
  void* const library = RTLD_DEFAULT;
  Functions f{&demo_alloc, nullptr, &demo_alloc_twice_as_much, &demo_free, nullptr};
  CHECK(look_up<decltype(demo_alloc)>(library, "demo_alloc") == &demo_alloc);
#else
  if (argc > 4 && strcmp(argv[4], "again") == 0) use_and_close(argv[2], argv[3]);
  void* const library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  if (argc > 4 && strcmp(argv[4], "again") == 0) {
    // What the plugin calls is found again where it lies next.
    void* const before = dlopen(argv[3], RTLD_LAZY | RTLD_LOCAL);
    CHECK(before != nullptr);
    look_up<decltype(plugin_free)>(
        before, "plugin_free")(look_up<decltype(plugin_alloc)>(before, "plugin_alloc")(100));
    CHECK(dlclose(before) == 0);
  }
  Functions f{look_up<decltype(demo_alloc)>(library, "demo_alloc"), nullptr,
              look_up<decltype(demo_alloc_twice_as_much)>(library, "demo_alloc_twice_as_much"),
              look_up<decltype(demo_free)>(library, "demo_free"), nullptr};
#endif
  void* const plugin = dlopen(argv[3], RTLD_LAZY | RTLD_LOCAL);
  if (plugin == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(plugin != nullptr);
  f.plugin_alloc = look_up<decltype(plugin_alloc)>(plugin, "plugin_alloc");
  f.plugin_free = look_up<decltype(plugin_free)>(plugin, "plugin_free");
  const auto make_pool = look_up<decltype(demo_make_pool)>(library, "demo_make_pool");

  demo::Pool* const first = make_pool();
  demo::Pool* const second = make_pool();
  std::vector<std::pair<void*, size_t>> of_first, of_second;
  const auto all = [&](unsigned seed) {
    use_functions(f, seed);
    use_pool(first, seed + 1, of_first);
  };
  if (threads) {
    std::vector<std::thread> running;
    for (unsigned i = 0; i < 4; ++i) running.emplace_back([&, i] { use_functions(f, 100 * i); });
    for (std::thread& thread : running) thread.join();
  }
  all(1);
  use_pool(second, 7, of_second);
  // Another one in the place of one that is gone.
  for (const auto& [at, bytes] : of_second) second->free(at, bytes);
  of_second.clear();
  delete second;
  demo::Pool* const third = make_pool();
  use_pool(third, 8, of_second);

  gpupeak_mark("last");
  note("functions", look_up<decltype(demo_ledger)>(library, "demo_ledger")());
  g_of = "functions";
  look_up<decltype(demo_for_each)>(library, "demo_for_each")(&on_block);
  note("first", first->ledger());
  note("third", third->ledger());
  g_of = "first";
  first->for_each(&on_block);
  g_of = "third";
  third->for_each(&on_block);
  fclose(g_truth);
  return 0;
}
