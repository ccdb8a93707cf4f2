// Why memory lies idle: where in a pool's segments it is, and for whom the driver's pools took what
// they have. Of real programs' logs both add up at each instant.
#include <filesystem>
#include <map>
#include <string>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/analyze/profile.h"
#include "collector/summary/run_text.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

using IdleIn = ArenaTable::IdleIn;

/// What is idle of each of a table's arenas, by where it lies.
std::map<std::pair<size_t, IdleIn>, uint64_t> idle_now(const ArenaTable& table) {
  std::map<std::pair<size_t, IdleIn>, uint64_t> idle;
  for (GroupId id{0}; id < table.holders().size(); ++id) {
    const ArenaTable::Holder& holder = table.holders()[id];
    if (holder.what == ArenaTable::What::kIdle)
      idle[{holder.arena, holder.idle_in}] += table.live_bytes(as_holder(id));
  }
  return idle;
}

/// Compares after each event, and now and then with what all blocks say one by one.
class EachInstant : public ReplayObserver {
 public:
  void after(const Event&) override {
    const ArenaTable& table = replay().arenas();
    const auto idle = idle_now(table);
    for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
      uint64_t sum = 0;
      for (const IdleIn in : {IdleIn::kSegment, IdleIn::kHole, IdleIn::kGraph}) {
        const auto found = idle.find({arena, in});
        sum += found == idle.end() ? 0 : found->second;
      }
      wrong += sum != table.level(arena).idle();
      wrong += table.causes().reserved(arena) != table.level(arena).reserved;
      instants += table.level(arena).reserved > 0;
      if (number_ % 101 == 0) look(table, arena, idle);
    }
    for (const auto& [device, gauge] : replay().device().pool_reserved()) {
      if (device < 0) continue;
      pool_instants += gauge.current > 0;
      wrong +=
          replay().device().pools().causes().reserved(static_cast<size_t>(device)) != gauge.current;
    }
    ++number_;
  }
  uint64_t wrong = 0, instants = 0, pool_instants = 0, looks = 0;

 private:
  /// Segments that grow in place are pieces, each of which lies idle by itself: not told apart
  /// here.
  void look(const ArenaTable& table, size_t arena,
            const std::map<std::pair<size_t, IdleIn>, uint64_t>& idle) {
    if (table.arenas()[arena].largest_capacity_bytes > 0) return;
    if (table.snapshot(arena).idle.grows_in_place) return;
    std::map<IdleIn, uint64_t> expected;
    const auto& placed = table.arenas()[arena].placed;
    table.for_each_hole(arena, [&](uint64_t begin, uint64_t end, bool captured) {
      IdleIn in = captured ? IdleIn::kGraph : IdleIn::kSegment;
      for (const ArenaTable::Segment& segment : table.segments(arena)) {
        if (captured || begin < segment.begin || begin >= segment.end) continue;
        const auto block = placed.lower_bound(segment.begin);
        if (block != placed.end() && block->first < segment.end) in = IdleIn::kHole;
      }
      expected[in] += end - begin;
    });
    ++looks;
    for (const IdleIn in : {IdleIn::kSegment, IdleIn::kHole, IdleIn::kGraph}) {
      const auto found = idle.find({arena, in});
      wrong += expected[in] != (found == idle.end() ? 0 : found->second);
    }
  }
  uint64_t number_ = 0;
};

LogBuilder with_torch() {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.event(0, 1, GPUPEAK_REC_ARENA,
            Fields().u(1).u(0).u(log.string("PyTorch")).u(0).u(0).s("").u(1));
  return log;
}
void give(LogBuilder& log, uint64_t time, uint64_t at, uint64_t bytes) {
  log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(at * kMiB).u(bytes * kMiB).u(0).u(0).u(0).u(0));
}
void take_back(LogBuilder& log, uint64_t time, uint64_t at, uint64_t bytes) {
  log.event(0, time, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at * kMiB).u(bytes * kMiB).u(0).u(0));
}
void segment(LogBuilder& log, uint64_t time, uint64_t id, uint64_t bytes, bool captured = false) {
  log.device_event(0, time, GPUPEAK_REC_DEVICE_ALLOC,
                   Fields()
                       .u(id)
                       .u(GPUPEAK_KIND_LINEAR)
                       .u(1)
                       .u(id * kMiB)
                       .u(bytes * kMiB)
                       .u(0)
                       .u(0)
                       .u(0)
                       .u(0)
                       .u(captured ? 1 : 0));
}
void pool_block(LogBuilder& log, uint64_t time, uint64_t id, uint64_t bytes, uint32_t stack) {
  log.device_event(
      0, time, GPUPEAK_REC_DEVICE_ALLOC,
      Fields().u(id).u(GPUPEAK_KIND_POOL).u(1).u(id * kMiB).u(bytes).u(0).u(stack).u(0).u(0xa));
}
void pool_reading(LogBuilder& log, uint64_t time, uint64_t reserved,
                  gpupeak_pool_event event = GPUPEAK_POOL_READ) {
  log.device_event(0, time, GPUPEAK_REC_POOL, Fields().u(0xa).u(1).u(reserved).u(0).u(event));
}
Summary summary_of(LogBuilder& log) {
  const TemporaryFile file;
  return analyze(log.save(file.path()));
}
std::map<std::string, uint64_t> causes_of(const DriverPoolsSummary& pools) {
  std::map<std::string, uint64_t> bytes;
  for (const ArenaSummary::Cause& cause : pools.causes) bytes[cause.title] += cause.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("idle: in holes, in whole segments, kept for graphs", "[collector]") {
  LogBuilder log = with_torch();
  segment(log, 10, 100, 20);
  give(log, 11, 100, 12);
  give(log, 12, 112, 4);  // 4 MiB behind it
  segment(log, 20, 200, 30);
  give(log, 21, 200, 30);
  take_back(log, 22, 200, 30);  // all of that segment
  segment(log, 30, 300, 8, true);
  give(log, 31, 300, 3);
  take_back(log, 40, 100, 12);
  segment(log, 50, 400, 1);  // the device's peak
  give(log, 51, 400, 1);
  const Summary summary = summary_of(log);
  REQUIRE(summary.arenas.size() == 1);
  const ArenaSummary& arena = summary.arenas[0];
  REQUIRE(arena.at_device_peak);
  CHECK(arena.at_device_peak->idle_bytes() == (16 + 30 + 5) * kMiB);
  CHECK(arena.idle_in_holes_bytes == 16 * kMiB);
  CHECK(arena.idle_for_graphs_bytes == 5 * kMiB);
  CHECK(arena.never_used_bytes == (4 + 5) * kMiB);
  const std::string text = arena_growth_text(arena, {});
  CHECK(text.find("16.0 MiB of it in holes beside blocks in use") != std::string::npos);
  CHECK(text.find("graphs") == std::string::npos);  // too little to be said
}

TEST_CASE("idle: a block over several pieces, and pieces that go", "[collector]") {
  const TemporaryFile file;
  LogBuilder log = with_torch();
  for (uint64_t piece = 0; piece < 3; ++piece) {
    log.device_alloc(0, 10 + piece, 1 + piece, GPUPEAK_KIND_VMM, 0, 20 * kMiB);
    log.event(0, 20 + piece, GPUPEAK_REC_DEVICE_MAPPED,
              Fields().u((1000 + 20 * piece) * kMiB).u(20 * kMiB).u(1 + piece));
  }
  give(log, 30, 1000, 30);  // over two pieces; 10 MiB of the second lie beside it
  give(log, 31, 1040, 20);
  take_back(log, 32, 1040, 20);
  log.event(0, 40, GPUPEAK_REC_DEVICE_UNMAPPED, Fields().u(1040 * kMiB).u(20 * kMiB));
  log.device_free(0, 41, 3);
  take_back(log, 50, 1000, 30);
  Profile profile(log.save(file.path()));
  EachInstant each;
  profile.replay_again(each, {});
  CHECK(each.wrong == 0);
  CHECK(each.instants > 5);
  const Summary summary = summarize(profile, {});
  REQUIRE(summary.arenas.size() == 1);
  CHECK(summary.arenas[0].at_device_peak->idle_bytes() == 10 * kMiB);
  CHECK(summary.arenas[0].idle_in_holes_bytes == 10 * kMiB);
}

TEST_CASE("idle: who was in a pool when it grew is its cause, if they have gone since",
          "[collector]") {
  const bool have_gone = GENERATE(true, false);
  LogBuilder log = with_torch();
  segment(log, 10, 1000, 100);
  give(log, 11, 1000, 70);
  give(log, 12, 1070, 30);
  if (have_gone) take_back(log, 20, 1000, 70);
  log.device_alloc(0, 30, 1, GPUPEAK_KIND_LINEAR, 0, 4 * kMiB);  // the device's peak
  take_back(log, 40, 1070, 30);
  const Summary summary = summary_of(log);
  const ArenaSummary* behind = arena_behind_peak(summary, 0);
  CHECK((behind != nullptr) == have_gone);
  if (behind == nullptr) return;
  CHECK(behind->largest.parts[0].bytes == 70 * kMiB);
  CHECK(grown_arena_text(*behind, {}) ==
        "PyTorch's pool as it grew to 100 MiB at +0.00 s, 70.0 MiB of it in use");
}

TEST_CASE("driver's pools: a request that made one grow is the cause", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  const uint32_t a = log.node(0, 0x100), b = log.node(0, 0x200), c = log.node(0, 0x300);
  pool_block(log, 10, 1, 40 * kMiB, a);
  pool_reading(log, 11, 64 * kMiB);
  pool_block(log, 12, 2, 8 * kMiB, b);  // there was room
  pool_reading(log, 13, 64 * kMiB);
  pool_block(log, 14, 3, 100 * kMiB, c);
  pool_reading(log, 15, 192 * kMiB);
  SECTION("as it was largest") {
    const Summary summary = summary_of(log);
    REQUIRE(summary.driver_pools.size() == 1);
    const DriverPoolsSummary& pools = summary.driver_pools[0];
    CHECK(pools.reserved_peak_bytes == 192 * kMiB);
    CHECK(pools.in_use_bytes == 148 * kMiB);
    CHECK(causes_of(pools) ==
          std::map<std::string, uint64_t>{{"0x100", 64 * kMiB}, {"0x300", 128 * kMiB}});
    REQUIRE(pools.growths.size() == 2);
    CHECK(pools.growths[1].in_use_bytes == 48 * kMiB);
    CHECK(pools.growths[1].asked_bytes == 100 * kMiB);
  }
  SECTION("what is given back: of a block that lives its segment stays") {
    log.device_free(0, 20, 1);
    pool_reading(log, 21, 160 * kMiB);
    pool_block(log, 22, 4, 100 * kMiB, b);
    pool_reading(log, 23, 288 * kMiB);
    const Summary summary = summary_of(log);
    CHECK(
        causes_of(summary.driver_pools[0]) ==
        std::map<std::string, uint64_t>{{"0x200", 128 * kMiB},
                                        {"0x300", 128 * kMiB},
                                        {"not known: left when memory was given back", 32 * kMiB}});
  }
  SECTION("several requests between two readings") {
    pool_block(log, 20, 4, 100 * kMiB, a);
    pool_block(log, 21, 5, 100 * kMiB, b);
    pool_reading(log, 22, 448 * kMiB);
    const Summary summary = summary_of(log);
    CHECK(
        causes_of(summary.driver_pools[0]).at("not known: several requests between two readings") ==
        256 * kMiB);
  }
  SECTION("a pool that is destroyed while a block lives") {
    pool_reading(log, 20, 0, GPUPEAK_POOL_DESTROYED);
    for (const uint64_t id : {1, 2, 3}) log.device_free(0, 20 + id, id);
    const TemporaryFile file;
    Profile profile(log.save(file.path()));
    EachInstant each;
    profile.replay_again(each, {});
    CHECK(each.wrong == 0);
    CHECK(profile.replay().device().pools().causes().reserved(0) == 0);
  }
}

TEST_CASE("idle, driver's pools: causes add up at each instant of real programs' logs",
          "[collector]") {
  uint64_t instants = 0, pool_instants = 0, looks = 0, logs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GPUPEAK_GOLDEN_FOLDER) + "/../screens")) {
    if (entry.path().extension() != ".gpz") continue;
    INFO(entry.path().string());
    Profile profile(entry.path().string());
    EachInstant each;
    profile.replay_again(each, {});
    CHECK(each.wrong == 0);
    instants += each.instants;
    pool_instants += each.pool_instants;
    looks += each.looks;
    ++logs;
  }
  CHECK(logs >= 10);
  CHECK(instants > 1000);
  CHECK(pool_instants > 100);
  CHECK(looks > 20);
}
