// The explorer itself: what C++ allows is seen, what it forbids is not.
#include <atomic>

#include "catch.h"
#include "explorer.h"

namespace {

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

constexpr uint64_t kExecutions = 20000;
std::atomic<int> x, y, z;
int plain, r1, r2, r3, r4;

void clear() {
  x = y = z = 0;
  plain = r1 = r2 = r3 = r4 = 0;
}

/// Whether an execution ends as `is_seen` says.
bool sees(std::vector<std::function<void()>> threads, bool (*is_seen)()) {
  const auto check = [is_seen] { weak::require(!is_seen(), "seen"); };
  const weak::Found found = weak::explore({std::move(threads), clear, check}, kExecutions);
  REQUIRE((found.failure.empty() || found.failure.starts_with("seen")));
  return !found.failure.empty();
}

bool message_is_old(memory_order store, memory_order load) {
  return sees({[=] { x.store(1, memory_order_relaxed), y.store(1, store); },
               [=] { r1 = y.load(load), r2 = x.load(memory_order_relaxed); }},
              [] { return r1 == 1 && r2 == 0; });
}

bool both_miss(memory_order order) {
  return sees({[=] { x.store(1, order), r1 = y.load(order); },
               [=] { y.store(1, order), r2 = x.load(order); }},
              [] { return r1 == 0 && r2 == 0; });
}

bool readers_differ(memory_order store, memory_order load) {
  return sees({[=] { x.store(1, store); }, [=] { y.store(1, store); },
               [=] { r1 = x.load(load), r2 = y.load(load); },
               [=] { r3 = y.load(load), r4 = x.load(load); }},
              [] { return r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0; });
}

}  // namespace

TEST_CASE("a message is passed by release and acquire only", "[weak]") {
  CHECK(message_is_old(memory_order_relaxed, memory_order_relaxed));
  CHECK(message_is_old(memory_order_release, memory_order_relaxed));
  CHECK(message_is_old(memory_order_relaxed, memory_order_acquire));
  CHECK_FALSE(message_is_old(memory_order_release, memory_order_acquire));
}

TEST_CASE("a message is passed by fences", "[weak]") {
  const auto is_old = [](bool releases, bool acquires) {
    return sees({[=] {
                   x.store(1, memory_order_relaxed);
                   if (releases) std::atomic_thread_fence(memory_order_release);
                   y.store(1, memory_order_relaxed);
                 },
                 [=] {
                   r1 = y.load(memory_order_relaxed);
                   if (acquires) std::atomic_thread_fence(memory_order_acquire);
                   r2 = x.load(memory_order_relaxed);
                 }},
                [] { return r1 == 1 && r2 == 0; });
  };
  CHECK(is_old(false, true));
  CHECK(is_old(true, false));
  CHECK_FALSE(is_old(true, true));
}

TEST_CASE("stores are buffered but for sequential consistency", "[weak]") {
  CHECK(both_miss(memory_order_relaxed));
  CHECK_FALSE(both_miss(memory_order_seq_cst));
  CHECK(sees({[] { x.store(1, memory_order_release), r1 = y.load(memory_order_acquire); },
              [] { y.store(1, memory_order_release), r2 = x.load(memory_order_acquire); }},
             [] { return r1 == 0 && r2 == 0; }));
  const auto miss_with = [](memory_order order) {
    return sees({[=] {
                   x.store(1, memory_order_relaxed);
                   std::atomic_thread_fence(order);
                   r1 = y.load(memory_order_relaxed);
                 },
                 [=] {
                   y.store(1, memory_order_relaxed);
                   std::atomic_thread_fence(order);
                   r2 = x.load(memory_order_relaxed);
                 }},
                [] { return r1 == 0 && r2 == 0; });
  };
  CHECK(miss_with(memory_order_acq_rel));
  CHECK_FALSE(miss_with(memory_order_seq_cst));
}

TEST_CASE("loads are buffered where nothing orders them before the thread's later stores",
          "[weak]") {
  struct Half {
    memory_order load, store;
    bool fence;
  };
  const auto both_see = [](Half a, Half b) {
    const auto half = [](Half it, std::atomic<int>& from, std::atomic<int>& to, int& seen) {
      return [=, &from, &to, &seen] {
        seen = from.load(it.load);
        if (it.fence) std::atomic_thread_fence(memory_order_acq_rel);
        to.store(1, it.store);
      };
    };
    return sees({half(a, x, y, r1), half(b, y, x, r2)}, [] { return r1 == 1 && r2 == 1; });
  };
  constexpr Half kRelaxed{memory_order_relaxed, memory_order_relaxed, false};
  constexpr Half kOrdered{memory_order_acquire, memory_order_release, false};
  constexpr Half kFenced{memory_order_relaxed, memory_order_relaxed, true};
  CHECK(both_see(kRelaxed, kRelaxed));
  CHECK(both_see(kRelaxed, kOrdered));
  CHECK_FALSE(both_see(kOrdered, kOrdered));
  CHECK_FALSE(both_see(kFenced, kFenced));
  CHECK_FALSE(both_see(kFenced, kOrdered));
  CHECK_FALSE(both_see({memory_order_seq_cst, memory_order_seq_cst, false},
                       {memory_order_acquire, memory_order_relaxed, false}));
}

TEST_CASE("a value that depends on a load does not come out of thin air", "[weak]") {
  const auto relaxed = memory_order_relaxed;
  CHECK_FALSE(sees({[=] { r1 = x.load(relaxed), y.store(r1, relaxed); },
                    [=] { r2 = y.load(relaxed), x.store(r2, relaxed); }},
                   [] { return r1 != 0 || r2 != 0; }));
  CHECK_FALSE(sees({[=] {
                      if ((r1 = x.load(relaxed)) == 1) y.store(1, relaxed);
                    },
                    [=] { r2 = y.load(relaxed), x.store(1, relaxed); }},
                   [] { return r1 == 1 && r2 == 1 && x == 0; }));
  CHECK_FALSE(sees({[=] {
                      if ((r1 = x.load(relaxed)) == 1) y.store(1, relaxed);
                    },
                    [=] {
                      if ((r2 = y.load(relaxed)) == 1) x.store(1, relaxed);
                    }},
                   [] { return r1 != 0 || r2 != 0; }));
  CHECK(sees({[=] { r1 = x.load(relaxed), y.store(r1 == 0 ? 1 : r1, relaxed); },
              [=] { r2 = y.load(relaxed), x.store(r2, relaxed); }},
             [] { return r1 == 1 && r2 == 1; }));
  CHECK(sees({[=] { weak::require((r1 = x.load(relaxed)) == 0, "seen"), y.store(1, relaxed); },
              [=] { r2 = y.load(relaxed), x.store(1, relaxed); }},
             [] { return false; }));
}

TEST_CASE("a load does not see what its own thread stores there later", "[weak]") {
  CHECK_FALSE(sees({[] { r1 = x.load(memory_order_relaxed), x.store(1, memory_order_relaxed); },
                    [] { r2 = x.load(memory_order_relaxed); }},
                   [] { return r1 == 1; }));
}

TEST_CASE("readers agree on the order of two writers by sequential consistency only", "[weak]") {
  CHECK(readers_differ(memory_order_release, memory_order_acquire));
  CHECK_FALSE(readers_differ(memory_order_seq_cst, memory_order_seq_cst));
}

TEST_CASE("a release sequence goes on by read-modify-writes only", "[weak]") {
  const auto is_old = [](bool by_add) {
    return sees({[] { x.store(1, memory_order_relaxed), y.store(1, memory_order_release); },
                 [=] {
                   if (by_add)
                     y.fetch_add(1, memory_order_relaxed);
                   else if (y.load(memory_order_relaxed) == 1)
                     y.store(2, memory_order_relaxed);
                 },
                 [] { r1 = y.load(memory_order_acquire), r2 = x.load(memory_order_relaxed); }},
                [] { return r1 == 2 && r2 == 0; });
  };
  CHECK(is_old(false));
  CHECK_FALSE(is_old(true));
}

TEST_CASE("a thread never sees older than it has seen", "[weak]") {
  CHECK_FALSE(sees({[] { x.store(1, memory_order_relaxed), x.store(2, memory_order_relaxed); },
                    [] { r1 = x.load(memory_order_relaxed), r2 = x.load(memory_order_relaxed); }},
                   [] { return r1 > r2; }));
  CHECK_FALSE(sees(
      {[] { x.fetch_add(1, memory_order_relaxed); }, [] { x.fetch_add(1, memory_order_relaxed); }},
      [] { return x != 2; }));
}

TEST_CASE("two relaxed stores are seen in either order by who changes them", "[weak]") {
  CHECK(sees({[] { x.store(5, memory_order_relaxed), y.store(1, memory_order_relaxed); },
              [] {
                if (y.load(memory_order_acquire) == 1) x.fetch_add(1, memory_order_relaxed);
              }},
             [] { return y == 1 && x == 5 && r1 == 0 && z == 0; }));
}

TEST_CASE("accesses that nothing orders race", "[weak]") {
  const auto race = [](memory_order store, memory_order load) {
    const weak::Scenario scenario{{[=] { plain = 1, x.store(1, store); },
                                   [=] {
                                     if (x.load(load) == 1) r1 = plain;
                                   }},
                                  clear};
    return weak::explore(scenario, kExecutions).failure;
  };
  CHECK(race(memory_order_release, memory_order_acquire) == "");
  CHECK_FALSE(race(memory_order_relaxed, memory_order_acquire).empty());
  CHECK_FALSE(race(memory_order_release, memory_order_relaxed).empty());
}

TEST_CASE("an order that is not needed is found", "[weak]") {
  const weak::Scenario needed{{[] { plain = 1, x.store(1, memory_order_release); },
                               [] {
                                 if (x.load(memory_order_acquire) == 1) r1 = plain;
                               }},
                              clear};
  CHECK(weak::needs_each_order({needed}, kExecutions) == "");
  const weak::Scenario more{
      {[] { x.store(1, memory_order_release); }, [] { r1 = x.load(memory_order_relaxed); }}, clear};
  CHECK(weak::needs_each_order({more}, 2000) != "");
}
