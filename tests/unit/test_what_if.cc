// What a change would have made of a log made by hand: PyTorch's segments that grow in place, and
// memory that was taken in advance.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catch.h"
#include "collector/fit/arena_model.h"
#include "collector/fit/what_if.h"
#include "collector/fit/what_if_watch.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

LogBuilder with_arena(const char* name) {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.counters().device_count = 1;
  const uint32_t arena = log.string(name);
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(arena).u(0).u(0).s("").u(1));
  return log;
}
void hand_out(LogBuilder& log, uint64_t time, uint64_t at, uint64_t bytes, uint64_t asked = 0) {
  log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0).u(asked));
}
WhatIfSum with(LogBuilder& log, uint64_t peak, const Changes& changes) {
  log.counters().device[0].total.peak = peak;
  const TemporaryFile file;
  const WhatIf result = what_if(log.save(file.path()), changes, {}, {});
  REQUIRE(result.sums.size() == 1);
  return result.sums[0];
}
uint64_t sum_of(const std::vector<WhatIfSum::Holder>& holders) {
  uint64_t sum = 0;
  for (const WhatIfSum::Holder& holder : holders) sum += holder.bytes;
  return sum;
}

}  // namespace

TEST_CASE("what if: of segments that grow the last piece is taken last", "[collector]") {
  LogBuilder log = with_arena("PyTorch");
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 12 * kMiB);
  hand_out(log, 11, 1000, 12 * kMiB, 12 * kMiB);
  log.device_alloc(0, 12, 2000, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB);
  hand_out(log, 13, 2000, 4 * kMiB, 4 * kMiB);
  log.event(0, 14, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(1000 * kMiB).u(12 * kMiB));
  hand_out(log, 15, 1000, 3 * kMiB, 3 * kMiB);
  hand_out(log, 16, 2004, 10 * kMiB, 10 * kMiB);  // with segments that grow 9 MiB are too few
  Changes changes;
  changes.expandable_segments = true;
  const WhatIfSum sum = with(log, 32 * kMiB, changes);
  CHECK(sum.is_exact());
  CHECK(sum.least_bytes == 40 * kMiB);
}

TEST_CASE("what if: memory that was taken in advance counts for nothing before its pool is known",
          "[collector]") {
  LogBuilder log = with_arena("XLA");
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 6000 * kMiB);
  log.device_alloc(0, 11, 9000, GPUPEAK_KIND_LINEAR, 0, 30 * kMiB);
  hand_out(log, 20, 1000, 5 * kMiB);
  hand_out(log, 21, 1100, 7 * kMiB);
  Changes changes;
  changes.no_preallocation = true;
  const WhatIfSum sum = with(log, 6030 * kMiB, changes);
  CHECK(sum.before_bytes == 6030 * kMiB);
  // Of 12 MiB that the pool handed out half may have been asked for.
  CHECK(sum.least_bytes == 36 * kMiB);
  CHECK(!sum.most_bytes);
  CHECK(sum_of(sum.holders) == 36 * kMiB);
}

TEST_CASE("what if: growing segments are never exact where a request may have been smaller",
          "[collector]") {
  LogBuilder log = with_arena("PyTorch");
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  Changes changes;
  changes.expandable_segments = true;
  SECTION("all are known: 40 MiB, and 39 MiB less than the segment had") {
    hand_out(log, 11, 1000, 12 * kMiB);
    hand_out(log, 12, 1012, 13 * kMiB);
    const WhatIfSum sum = with(log, 40 * kMiB, changes);
    CHECK(sum.is_exact());
    CHECK(sum.least_bytes == 40 * kMiB);
  }
  SECTION("one got the whole segment") {
    hand_out(log, 11, 1000, 40 * kMiB);
    const WhatIfSum sum = with(log, 40 * kMiB, changes);
    CHECK(!sum.is_exact());
    CHECK(sum.least_bytes <= 40 * kMiB);
    CHECK(sum.most_bytes == 60 * kMiB);
    CHECK(sum_of(sum.holders) == 60 * kMiB);
  }
}

TEST_CASE("what if: a pool's segment counts for nothing before the pool is known", "[collector]") {
  LogBuilder log = with_arena("PyTorch");
  const uint32_t train = log.node(0, 0x100);
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB, 0, train);
  log.event(0, 11, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(1000 * kMiB).u(40 * kMiB).u(0).u(train).u(0).u(0));
  Changes changes;
  changes.scales.push_back({"*0x100*", 0});
  const WhatIfSum sum = with(log, 40 * kMiB, changes);
  CHECK(sum.is_exact());
  CHECK(sum.least_bytes == 0);
}

TEST_CASE("what if: where events were lost only what the log has is compared", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.counters().device_count = 1;
  const uint32_t use = log.node(0, 0x100), other = log.node(0, 0x200);
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB, 0, use);
  log.device_alloc(0, 20, 2000, GPUPEAK_KIND_LINEAR, 0, 10 * kMiB, 0, other);
  Changes changes;
  changes.scales.push_back({"*0x100*", 0.5});
  SECTION("the log has less than was counted") {
    log.counters().dropped_events = 3;
    const WhatIfSum sum = with(log, 1050 * kMiB, changes);
    CHECK(sum.before_bytes == 50 * kMiB);
    CHECK(sum.least_bytes == 30 * kMiB);
    CHECK(sum.counted_bytes == 1050 * kMiB);
    CHECK_FALSE(sum.is_whole);
    CHECK_FALSE(sum.is_exact());
    REQUIRE(sum.notes.size() == 1);
    CHECK(sum.notes[0].starts_with("GP001: "));
    CHECK(sum_of(sum.holders) == 30 * kMiB);
  }
  SECTION("the log has too much, since frees were lost") {
    log.counters().dropped_events = 3;
    const WhatIfSum sum = with(log, 45 * kMiB, changes);
    CHECK(sum.before_bytes == 50 * kMiB);
    CHECK(sum.least_bytes == 30 * kMiB);
    CHECK(sum.counted_bytes == 45 * kMiB);
    CHECK_FALSE(sum.is_exact());
  }
  SECTION("what was lost may have been no part of the peak: nobody knows") {
    log.counters().dropped_events = 3;
    const WhatIfSum sum = with(log, 50 * kMiB, changes);
    CHECK_FALSE(sum.counted_bytes);
    CHECK_FALSE(sum.is_exact());
  }
  SECTION("nothing was lost") {
    const WhatIfSum sum = with(log, 50 * kMiB, changes);
    CHECK(sum.is_whole);
    CHECK(sum.is_exact());
    CHECK_FALSE(sum.counted_bytes);
    CHECK(sum.notes.empty());
  }
}

TEST_CASE("what if: without what was not recorded no site is tried", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.counters().ended = 1;
  log.counters().device_count = 1;
  log.counters().dropped_events = 3;
  log.counters().device[0].total.peak = 1050 * kMiB;
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB, 0, log.node(0, 0x100));
  log.device_alloc(0, 20, 2000, GPUPEAK_KIND_LINEAR, 0, 10 * kMiB, 0, log.node(0, 0x200));
  const TemporaryFile file;
  const std::vector<WhatIf> all = what_would_lower(log.save(file.path()), {});
  REQUIRE(all.size() == 2);
  CHECK(all[0].sums[0].before_bytes == 50 * kMiB);
  CHECK(all[0].sums[0].least_bytes == 10 * kMiB);
  CHECK(all[1].sums[0].least_bytes == 40 * kMiB);
}

TEST_CASE("what if: a curve has each step, or in long runs the highest of each stretch",
          "[collector]") {
  SECTION("few") {
    ChangeCurve curve;
    curve.set(5, {0, 10, 5, 7});
    curve.set(6, {0, 10, 5, 7});  // nothing new
    curve.set(9, {0, 20, 5, 7});
    const std::vector<WhatIfPoint> points = std::move(curve).points();
    REQUIRE(points.size() == 2);
    CHECK(points[1].time == 9);
    CHECK(points[1].before == 20);
  }
  SECTION("many") {
    ChangeCurve curve;
    constexpr uint64_t kSteps = 1'000'000, kHighest = 654'321;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t bytes = i == kHighest ? 1'000'000 : i % 1000;
      curve.set(1000 + i, {0, bytes, i == kHighest + 1 ? 7 : bytes / 2, bytes});
    }
    const std::vector<WhatIfPoint> points = std::move(curve).points();
    CHECK(points.size() <= ChangeCurve::kMostPoints);
    CHECK(points.size() >= ChangeCurve::kStretches / 2);
    const auto highest = std::max_element(points.begin(), points.end(),
                                          [](auto& a, auto& b) { return a.before < b.before; });
    CHECK(highest->before == 1'000'000);
    CHECK(highest->least == 500'000);
    CHECK(std::abs(highest->time - static_cast<int64_t>(1000 + kHighest)) < 2 * 1000);
    CHECK(points.back().before == (kSteps - 1) % 1000);
    CHECK(std::is_sorted(points.begin(), points.end(),
                         [](auto& a, auto& b) { return a.time < b.time; }));
  }
}
