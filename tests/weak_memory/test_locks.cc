// The preload's own locks: what is under them, and who is woken.
#include "base/lock.cc"
#include "catch.h"
#include "explorer.h"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
FutexLock g_lock;
TimedLock g_timed;
int g_guarded;

/// Threads are fibers of one thread, whose flags must not have the id of one of them.
void begin() {
  new (&g_lock) FutexLock;
  new (&g_timed) TimedLock;
  g_guarded = 0;
  g_page.pid = sys::getpid() + 1;
  g_process = &g_page;
}

template <typename Lock>
weak::Scenario adds_under(Lock& lock, int threads) {
  const auto add = [&lock] {
    weak::ignore(&t_flags, sizeof t_flags);
    weak::ignore(&g_process, sizeof g_process);
    lock.lock();
    ++g_guarded;
    lock.unlock();
  };
  const auto check = [threads] {
    weak::require(g_guarded == threads, "not all have had the lock");
  };
  return {std::vector<std::function<void()>>(static_cast<size_t>(threads), add), begin, check};
}

}  // namespace
}  // namespace gpupeak::preload

TEST_CASE("what is under a lock is seen whole", "[weak]") {
  using namespace gpupeak::preload;
  CHECK(weak::needs_each_order({adds_under(g_timed, 3)}, 3000) == "");
}

TEST_CASE("what is under the other lock is seen whole", "[weak]") {
  using namespace gpupeak::preload;
  CHECK(weak::needs_each_order({adds_under(g_lock, 3)}, 6000) == "");
}
