// When blocks of a log made by hand were used, as the view of a peak has it, and what the peak
// would have been had they gone then.
#include <algorithm>
#include <optional>

#include "catch.h"
#include "collector/fit/what_if.h"
#include "collector/text/error.h"
#include "collector/timeline/last_use.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kArena = 7;

LogBuilder with_uses() {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.fact("last_use", "on");
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.counters().device_count = 1;
  return log;
}
LastUses uses_of(LogBuilder& log, uint64_t peak) {
  log.counters().device[0].total.peak = peak;
  const TemporaryFile file;
  Profile profile(log.save(file.path()));
  return last_uses(profile);
}
uint64_t total_of(const LastUse& of, std::optional<UseAtPeak> use = {}) {
  uint64_t bytes = 0;
  for (const LastUse::Row& row : of.rows) bytes += !use || row.use == *use ? row.bytes : 0;
  return bytes;
}
WhatIfSum freed_at_last_use(LogBuilder& log, uint64_t peak) {
  log.counters().device[0].total.peak = peak;
  Changes changes;
  changes.free_at_last_use = true;
  const TemporaryFile file;
  const WhatIf result = what_if(log.save(file.path()), changes, {}, {});
  REQUIRE(result.sums.size() == 1);
  return result.sums[0];
}

}  // namespace

TEST_CASE("last use: each block stands to the peak as its uses do", "[collector]") {
  LogBuilder log = with_uses();
  log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 1 * kMiB);     // used before and after
  log.device_alloc(0, 11, 2, GPUPEAK_KIND_LINEAR, 0, 2 * kMiB);     // over
  log.device_alloc(0, 12, 4, GPUPEAK_KIND_LINEAR, 0, 4 * kMiB);     // early
  log.device_alloc(0, 13, 8, GPUPEAK_KIND_LINEAR, 0, 8 * kMiB);     // never
  log.device_alloc(0, 14, 16, GPUPEAK_KIND_LINEAR, 0, 16 * kMiB);   // idle
  log.device_alloc(0, 15, 32, GPUPEAK_KIND_LINEAR, 0, 32 * kMiB);   // not known
  log.device_alloc(0, 100, 64, GPUPEAK_KIND_LINEAR, 0, 64 * kMiB);  // the peak
  log.used(0, 200, 0, 1, 5, 20, 150, 20, 60);
  log.used(0, 201, 0, 2, 3, 20, 70);
  log.device_free(0, 202, 2);
  log.used(0, 203, 0, 4, 2, 130, 140);
  log.used(0, 204, 0, 8, 0, 0, 0);
  log.used(0, 205, 0, 16, 2, 30, 190, 30, 190);
  log.used(0, 206, 0, 64, 1, 101, 101);
  log.event(0, 207, GPUPEAK_REC_USES_END, Fields().u(1).u(2));
  const LastUses uses = uses_of(log, 127 * kMiB);
  REQUIRE(uses.devices.size() == 1);
  const LastUse& of = uses.devices[0];
  CHECK(of.bytes == 127 * kMiB);
  CHECK(total_of(of) + of.idle_bytes == of.bytes);
  CHECK(total_of(of, UseAtPeak::kInUse) == 1 * kMiB);
  CHECK(total_of(of, UseAtPeak::kOver) == 2 * kMiB);
  CHECK(total_of(of, UseAtPeak::kEarly) == (4 + 64) * kMiB);
  CHECK(total_of(of, UseAtPeak::kNever) == 8 * kMiB);
  CHECK(total_of(of, UseAtPeak::kIdle) == 16 * kMiB);
  CHECK(total_of(of, UseAtPeak::kNotKnown) == 32 * kMiB);
  for (const LastUse::Row& row : of.rows) {
    if (row.use == UseAtPeak::kOver) CHECK(row.shortest_ns == 30);
    if (row.use == UseAtPeak::kIdle) CHECK(row.longest_ns == 160);
  }
  REQUIRE(uses.end);
  CHECK(uses.end->left_out == 1);
  CHECK(uses.end->unread == 2);
}

TEST_CASE("last use: a pool's blocks count, and what is idle in it is apart", "[collector]") {
  LogBuilder log = with_uses();
  const uint32_t name = log.string("PyTorch");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(kArena).u(0).u(name).u(0).u(0).s("").u(1));
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  const auto give = [&](uint64_t time, uint64_t at, uint64_t bytes) {
    log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(kArena).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0));
  };
  give(11, 1000, 10 * kMiB);
  give(12, 1010, 5 * kMiB);
  log.device_alloc(0, 50, 1, GPUPEAK_KIND_LINEAR, 0, kMiB);
  log.used(0, 60, kArena, 1000 * kMiB, 2, 20, 30);
  log.event(0, 60, GPUPEAK_REC_ARENA_FREE, Fields().u(kArena).u(1000 * kMiB).u(10 * kMiB));
  give(61, 1000, 8 * kMiB);  // another block where that was: its uses are its own
  log.used(0, 90, kArena, 1000 * kMiB, 1, 80, 80);
  log.used(0, 91, kArena, 1010 * kMiB, 2, 20, 85);
  log.used(0, 92, 0, 1000, 0, 0, 0);
  log.used(0, 93, 0, 1, 1, 55, 55);
  log.event(0, 94, GPUPEAK_REC_USES_END, Fields().u(0).u(0));
  const LastUses uses = uses_of(log, 41 * kMiB);
  REQUIRE(uses.devices.size() == 1);
  const LastUse& of = uses.devices[0];
  CHECK(of.idle_bytes == 25 * kMiB);
  CHECK(total_of(of) == 16 * kMiB);
  CHECK(total_of(of, UseAtPeak::kOver) == 10 * kMiB);
  CHECK(total_of(of, UseAtPeak::kInUse) + total_of(of, UseAtPeak::kIdle) == 5 * kMiB);
}

TEST_CASE("last use: had blocks gone then, later ones had found their memory", "[collector]") {
  LogBuilder log = with_uses();
  log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 10 * kMiB);
  log.device_alloc(0, 30, 20, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB);
  log.device_alloc(0, 50, 50, GPUPEAK_KIND_LINEAR, 0, 30 * kMiB);
  SECTION("one went before the second came") {
    log.used(0, 60, 0, 1, 1, 20, 20);
    log.used(0, 61, 0, 20, 2, 35, 55);
    log.used(0, 62, 0, 50, 1, 58, 58);
    const WhatIfSum sum = freed_at_last_use(log, 60 * kMiB);
    CHECK(sum.is_exact());
    CHECK(sum.before_bytes == 60 * kMiB);
    CHECK(sum.least_bytes == 50 * kMiB);
  }
  SECTION("one that was not seen used stays, and so does one of which nothing is known") {
    log.used(0, 60, 0, 1, 0, 0, 0);
    log.used(0, 62, 0, 50, 1, 58, 58);
    CHECK(freed_at_last_use(log, 60 * kMiB).least_bytes == 60 * kMiB);
  }
}

TEST_CASE("last use: in a pool that gives memory again the peak is the pool's", "[collector]") {
  LogBuilder log = with_uses();
  const uint32_t name = log.string("PyTorch");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(kArena).u(0).u(name).u(0).u(0).s("").u(1));
  const auto give = [&](uint64_t time, uint64_t at, uint64_t bytes) {
    log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(kArena).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0));
  };
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  give(11, 1000, 40 * kMiB);
  log.device_alloc(0, 20, 2000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  give(21, 2000, 40 * kMiB);
  log.used(0, 60, kArena, 1000 * kMiB, 1, 15, 15);
  log.event(0, 60, GPUPEAK_REC_ARENA_FREE, Fields().u(kArena).u(1000 * kMiB).u(40 * kMiB));
  log.used(0, 70, kArena, 2000 * kMiB, 1, 50, 50);
  const WhatIfSum sum = freed_at_last_use(log, 80 * kMiB);
  CHECK(sum.before_bytes == 80 * kMiB);
  CHECK(sum.least_bytes == 40 * kMiB);
  CHECK(sum.most_bytes == 40 * kMiB);
}

TEST_CASE("last use: a log without uses says how to get them", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, kMiB);
  CHECK_THROWS_AS(uses_of(log, kMiB), UsageError);
  CHECK_THROWS_AS(freed_at_last_use(log, kMiB), UsageError);
}
