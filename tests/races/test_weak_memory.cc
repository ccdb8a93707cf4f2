// What the C++ memory model allows, tried: first on programs whose answers are known, then on the
// preload's rooms.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "litmus.h"
#include "rooms.h"
#include "weak_memory.h"

namespace {

using Finds = std::vector<std::string>;
using Steps = std::vector<std::function<void()>>;

/// All steps at once, a thread each. All threads stay until the last one is done: what one that has
/// ended did is ordered by the kernel, which tells the others that it is gone.
Finds explored(unsigned seed, const Steps& steps, uintptr_t weakened) {
  weak_memory::begin(seed, weakened);
  std::vector<std::thread> threads;
  std::atomic<size_t> done = 0;
  for (const auto& step : steps) {
    threads.emplace_back([&] {
      weak_memory::enter_thread();
      step();
      ++done;
      while (done != steps.size()) std::this_thread::yield();
      weak_memory::leave_thread();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return weak_memory::end();
}

/// One after the other, so that what is seen is the model's choice alone: all that a later thread
/// can miss is what earlier ones did not hand over.
Finds explored_in_turn(unsigned seed, const Steps& steps) {
  weak_memory::begin(seed);
  std::vector<std::thread> threads;
  std::atomic<size_t> turn = 0, entered = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    threads.emplace_back([&, i] {
      weak_memory::enter_thread();
      ++entered;
      while (entered != steps.size() || turn != i) std::this_thread::yield();
      steps[i]();
      ++turn;
      while (turn != steps.size()) std::this_thread::yield();
      weak_memory::leave_thread();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return weak_memory::end();
}

constexpr unsigned kTries = 300;

/// In how many tries `is_so`.
unsigned times(const Steps& steps, const std::function<bool(const Finds&)>& is_so) {
  unsigned count = 0;
  for (unsigned seed = 0; seed < kTries; ++seed) {
    litmus::reset();
    const Finds finds = explored_in_turn(seed, steps);
    count += is_so(finds) ? 1 : 0;
  }
  return count;
}

bool has_race(const Finds& finds) {
  return !finds.empty();
}
using enum std::memory_order;

}  // namespace

TEST_CASE("a message passes by release and acquire, and not without either", "[weak]") {
  const auto passes = [](std::memory_order store, std::memory_order load) {
    return times({[=] { litmus::write_and_tell(store); }, [=] { litmus::hear_and_read(load); }},
                 has_race);
  };
  CHECK(passes(release, acquire) == 0);
  CHECK(passes(seq_cst, seq_cst) == 0);
  CHECK(passes(relaxed, acquire) > 0);
  CHECK(passes(release, relaxed) > 0);
  CHECK(times({litmus::write_and_tell_by_fence, litmus::hear_and_read_by_fence}, has_race) == 0);
}

TEST_CASE("a release sequence goes on through another thread's change", "[weak]") {
  const Steps steps{[] { litmus::write_and_tell(release); }, litmus::increment_x,
                    [] { litmus::hear_and_read(acquire); }};
  CHECK(times(steps, has_race) == 0);
}

TEST_CASE("what one thread stored, the other may not see yet", "[weak]") {
  const auto missed = [](const Finds&) { return litmus::seen[0] == 0 && litmus::seen[1] == 0; };
  const auto both = [&](std::memory_order order) {
    return times({[=] { litmus::store_x_load_y(order); }, [=] { litmus::store_y_load_x(order); }},
                 missed);
  };
  CHECK(both(release) > 0);
  CHECK(both(seq_cst) == 0);
}

TEST_CASE("two stores are seen in their order by release and acquire alone", "[weak]") {
  const auto turned = [](const Finds&) { return litmus::seen[1] == 1 && litmus::seen[0] == 0; };
  const auto both = [&](std::memory_order store, std::memory_order load) {
    return times({[=] { litmus::store_both(store); }, [=] { litmus::load_both(load); }}, turned);
  };
  CHECK(both(release, acquire) == 0);
  CHECK(both(relaxed, acquire) > 0);
  CHECK(both(release, relaxed) > 0);
}

TEST_CASE("one object's values never go back", "[weak]") {
  const auto back = [](const Finds&) { return litmus::seen[2] == 1 && litmus::seen[3] == 0; };
  CHECK(times({[] { litmus::store_both(relaxed); }, litmus::load_x_twice}, back) == 0);
}

namespace {

constexpr size_t kBlocks = 16;
void* g_handed[3][kBlocks];

void* allocate(size_t bytes) {
  void* block = malloc(bytes);
  *static_cast<size_t*>(block) = bytes;
  rooms_allocated(block, bytes);
  return block;
}

void release_block(void*& block) {
  if (block == nullptr) return;
  rooms_freed(block);
  free(block);
  block = nullptr;
}

void churn(size_t thread, unsigned seed, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    seed = seed * 1664525u + 1013904223u;
    void*& place = g_handed[thread][(seed >> 20) % kBlocks];
    release_block(place);
    place = allocate(16 + (seed >> 8) % 8192);
    if (i % 16 == 0) {
      void* const at = reinterpret_cast<void*>((uintptr_t{1} << 40) + (thread << 30));
      rooms_mapped(at, 65536);
      rooms_unmapping(at, 65536);
    }
  }
  for (void*& block : g_handed[thread]) release_block(block);
}

/// What one exploration of the rooms, in a process of its own that has just begun, came to.
struct Explored {
  std::string find;  ///< the first one; empty: none
  std::vector<uintptr_t> sites;
  bool was_stale = false;
};

Explored explore_rooms(unsigned seed, uintptr_t weakened = 0) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    rooms_begin();
    const Finds finds = explored(seed,
                                 {[=] { churn(0, seed, 60); }, [=] { churn(1, seed + 7, 60); },
                                  [=] { churn(2, seed + 9, 60); }},
                                 weakened);
    FILE* const out = fdopen(ends[1], "w");
    fprintf(out, "%d %s\n", weak_memory::stale_loads() > 0 ? 1 : 0,
            finds.empty() ? "" : finds[0].c_str());
    for (const uintptr_t site : weak_memory::sites())
      fprintf(out, "%zx\n", static_cast<size_t>(site));
    fclose(out);
    _exit(rooms_record() == 1 ? 0 : 1);
  }
  close(ends[1]);
  Explored found;
  FILE* const in = fdopen(ends[0], "r");
  char line[256];
  if (fgets(line, sizeof line, in) != nullptr) {
    found.was_stale = line[0] == '1';
    found.find = std::string(line + 2, strcspn(line + 2, "\n"));
  }
  while (fgets(line, sizeof line, in) != nullptr)
    found.sites.push_back(strtoull(line, nullptr, 16));
  fclose(in);
  int status = 1;
  waitpid(child, &status, 0);
  if (status != 0) found.find += " status " + std::to_string(status);
  return found;
}

/// Logs go into a folder that goes with it.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "weak.XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
    setenv("GPUPEAK_OUT", (path_ + "/%p.gplog").c_str(), 1);
    setenv("GPUPEAK_SUMMARY", "off", 1);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("threads in the rooms see stale values and no half-made ones", "[weak]") {
  const Folder folder;
  bool was_stale = false;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Explored found = explore_rooms(seed);
    CHECK(found.find == "");
    was_stale |= found.was_stale;
  }
  CHECK(was_stale);
}

TEST_CASE("an order that is spent in the rooms and made relaxed is found", "[weak]") {
  const Folder folder;
  const Explored whole = explore_rooms(0);
  CHECK(whole.find == "");
  REQUIRE(whole.sites.size() > 50);
  const auto is_found = [](uintptr_t site) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      if (!explore_rooms(seed, site).find.empty()) return true;
    }
    return false;
  };
  // Many orders are not needed by these steps alone, or are the stronger one of two that hold.
  // Those of the locks, of the list of threads, of the stacks' nodes and of the blocks' marks are.
  constexpr int kEnough = 3;
  int found = 0;
  for (size_t i = 0; i < whole.sites.size() && found < kEnough; ++i)
    found += is_found(whole.sites[i]) ? 1 : 0;
  CHECK(found == kEnough);
}
