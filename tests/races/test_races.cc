// Threads in the preload's rooms at once, and children that are forked meanwhile. With
// -fsanitize=thread (preset tsan) each access of one thread that nothing orders behind another's
// is found, whatever this processor made of it.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "rooms.h"

namespace {

constexpr size_t kBlocks = 64;

/// The process is recorded, into a folder that goes with it.
class Recorded {
 public:
  Recorded() : folder_((std::filesystem::temp_directory_path() / "races.XXXXXX").string()) {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    setenv("GPUPEAK_OUT", (folder_ + "/%p.gplog").c_str(), 1);
    setenv("GPUPEAK_CHILDREN", "all", 1);
    rooms_begin();
    REQUIRE(rooms_record() == 1);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { std::filesystem::remove_all(folder_); }

 private:
  std::string folder_;
};

/// A block that another thread may free: taken and put by exchange, as a queue hands it over.
std::atomic<void*> g_handed[kBlocks];

void* allocate(size_t bytes) {
  void* block = malloc(bytes);
  *static_cast<size_t*>(block) = bytes;
  rooms_allocated(block, bytes);
  return block;
}

void release(void* block) {
  if (block == nullptr) return;
  rooms_freed(block);
  free(block);
}

void churn(unsigned seed, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const size_t bytes = 16 + (seed >> 8) % 4096;
    release(g_handed[(seed >> 20) % kBlocks].exchange(allocate(bytes)));
  }
}

void release_all() {
  for (std::atomic<void*>& handed : g_handed) release(handed.exchange(nullptr));
}

}  // namespace

TEST_CASE("threads hand blocks over while the heap becomes a sample", "[races]") {
  const Recorded recorded;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(churn, 7 * i, 20000);
  for (std::thread& thread : threads) thread.join();
  release_all();
}

TEST_CASE("threads map and unmap while others allocate", "[races]") {
  const Recorded recorded;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([i] {
      for (uintptr_t round = 0; round < 2000; ++round) {
        void* at = reinterpret_cast<void*>((uintptr_t{1} << 40) + (i * 4096 + round % 8) * 65536);
        rooms_mapped(at, 65536);
        rooms_unmapping(at, 65536);
      }
    });
  }
  churn(3, 5000);
  for (std::thread& thread : threads) thread.join();
  release_all();
}

TEST_CASE("children forked while threads allocate begin anew", "[races]") {
  const Recorded recorded;
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 2; ++i)
    threads.emplace_back([&ends, i] {
      while (!ends) churn(i, 10);
    });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      rooms_begin();
      churn(99, 50);
      _exit(rooms_record() == 1 ? 0 : 1);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  release_all();
}
