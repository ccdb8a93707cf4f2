#include "collector/log/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace gpupeak::collector {
namespace {

/// More threads gain little, since they share the memory.
constexpr size_t kMostThreads = 16;

class Pieces {
 public:
  Pieces(size_t count, size_t piece, const std::function<void(size_t, size_t)>& work)
      : count_(count), piece_(piece), work_(work) {}

  void run() {
    for (;;) {
      const size_t begin = next_.fetch_add(piece_);
      if (begin >= count_) return;
      try {
        work_(begin, std::min(count_, begin + piece_));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (begin < failed_at_) {
          failed_at_ = begin;
          error_ = std::current_exception();
        }
        next_ = count_;
      }
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const size_t count_, piece_;
  const std::function<void(size_t, size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  size_t failed_at_ = SIZE_MAX;
  std::exception_ptr error_;
};

}  // namespace

/// std::thread::hardware_concurrency() counts all processors, and not only those that this process
/// may run on. If the set does not fit into cpu_set_t, there are at least kMostThreads.
size_t usable_processors() {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return kMostThreads;
  return static_cast<size_t>(CPU_COUNT(&usable));
}

void in_parallel(size_t count, size_t piece, const std::function<void(size_t, size_t)>& work,
                 size_t most_threads) {
  Pieces pieces(count, piece, work);
  const size_t parts = (count + piece - 1) / piece;
  const size_t threads = std::min({parts, usable_processors(), kMostThreads, most_threads});
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back([&pieces] { pieces.run(); });
    } catch (const std::system_error&) {
      // No more threads are to be had: those that there are do it all.
    }
    pieces.run();
  }
  pieces.rethrow();
}

}  // namespace gpupeak::collector
