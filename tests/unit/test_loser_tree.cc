// The queue of slots against a sorted set, with few slots and with many.
#include <random>
#include <set>
#include <utility>

#include "catch.h"
#include "collector/log/event_stream.h"

using namespace gpupeak::collector;

TEST_CASE("slot_queue: slots come by time, of equal times the lower number first", "[collector]") {
  for (const uint32_t slots : {1, 2, 7, 8, 9, 10, 100}) {
    for (const uint64_t step : {3, 1000}) {  // many at the same time, and few
      std::mt19937_64 random(slots * step);
      LoserTree queue(slots);
      std::set<std::pair<uint64_t, uint32_t>> oracle;
      const auto push = [&](uint32_t number, uint64_t ticks) {
        queue.push({ticks, number});
        oracle.emplace(ticks, number);
      };
      for (uint32_t number = 0; number < slots; ++number) push(number, random() % step);
      for (int i = 0; i < 20'000; ++i) {
        const auto [ticks, number] = *oracle.begin();
        REQUIRE(queue.first().number == number);
        REQUIRE(queue.first().ticks == ticks);
        const uint64_t second = oracle.size() > 1 ? std::next(oracle.begin())->first : UINT64_MAX;
        REQUIRE(queue.second_ticks() == second);
        const uint64_t later = ticks + random() % (step * (random() % 10 == 0 ? 10 : 1));
        oracle.erase(oracle.begin());
        if (random() % 8 == 0) {
          queue.pop_first();
          push(number, later);
        } else {
          queue.move_first(later);
          oracle.emplace(later, number);
        }
      }
      for (; !oracle.empty(); oracle.erase(oracle.begin())) {
        REQUIRE(queue.first().number == oracle.begin()->second);
        queue.pop_first();
      }
      CHECK(queue.empty());
    }
  }
}

TEST_CASE("slot_queue: of those that come at the same time any can be the first", "[collector]") {
  for (const uint32_t slots : {3, 8, 20}) {
    for (uint32_t chosen = 0; chosen < slots; ++chosen) {
      LoserTree queue(slots + 1);
      for (uint32_t number = 0; number < slots; ++number) queue.push({5, number});
      queue.push({6, slots});
      CHECK_FALSE(queue.put_first(slots));
      REQUIRE(queue.put_first(chosen));
      CHECK(queue.first().number == chosen);
      queue.move_first(6);  // from there on as ever
      for (uint32_t number = 0; number < slots; ++number) {
        if (number == chosen) continue;
        REQUIRE(queue.first().number == number);
        queue.pop_first();
      }
      CHECK(queue.first().number == chosen);
    }
  }
  CHECK_FALSE(LoserTree(0).put_first(0));
}
