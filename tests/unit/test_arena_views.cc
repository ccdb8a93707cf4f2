// Arenas as a summary has them.
#include <algorithm>
#include <numeric>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/text/text_format.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

uint64_t bytes_of(const Peak& peak, const std::string& kind) {
  return std::accumulate(peak.holders.begin(), peak.holders.end(), uint64_t{0},
                         [&](uint64_t sum, const Holder& holder) {
                           return sum + (holder.kind == kind ? holder.bytes : 0);
                         });
}

}  // namespace

TEST_CASE("pools: a device's peak is what is in use, idle and outside of them", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  const uint32_t name = log.string("PyTorch");
  const uint32_t grow = log.node(0, 0x100), use = log.node(0, 0x200), other = log.node(0, 0x300);
  log.device(0, 80 << 20, std::string(16, '\1'), "Test GPU");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name).u(0).u(0).s("").u(1));
  log.device_alloc(0, 2, 100, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB, 0, grow);
  const auto give = [&](uint64_t time, uint64_t at, uint64_t bytes, uint64_t in_use) {
    log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
              Fields()
                  .u(1)
                  .u(at * kMiB)
                  .u(bytes * kMiB)
                  .u(0)
                  .u(use)
                  .u(in_use * kMiB + 1)
                  .u(20 * kMiB + 1));
  };
  log.device_alloc(0, 3, 200, GPUPEAK_KIND_LINEAR, 0, 3 * kMiB, 0, other);
  give(4, 100, 8, 8);
  log.event(0, 5, GPUPEAK_REC_ARENA_FAILED, Fields().u(1).u(kMiB << 10).u(0).u(0).u(use));
  give(6, 110, 4, 12);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.find_peak("device:0") != nullptr);
  const Peak& peak = *summary.find_peak("device:0");
  // The peak came with the other one. That the arena then shares out its first block moves no sum.
  CHECK(peak.bytes == 23 * kMiB);
  CHECK(bytes_of(peak, "device.linear") == 3 * kMiB);
  CHECK(bytes_of(peak, "device.pooled") == 8 * kMiB);
  CHECK(bytes_of(peak, "device.idle") == 12 * kMiB);
  CHECK(std::any_of(peak.holders.begin(), peak.holders.end(),
                    [](const Holder& holder) { return holder.title == "idle in PyTorch's pool"; }));
  CHECK(summary.metrics.at("device.pool.in_use.peak_bytes") == 12 * kMiB);
  CHECK(summary.metrics.at("device.pool.idle_at_peak_bytes") == 12 * kMiB);
  REQUIRE(summary.arenas.size() == 1);
  const ArenaSummary& arena = summary.arenas[0];
  CHECK(arena.device == 0);
  CHECK(arena.at_peak.in_use_bytes == 12 * kMiB);
  CHECK(arena.at_peak.idle_bytes() == 8 * kMiB);
  CHECK(arena.largest_idle_bytes == 6 * kMiB);
  REQUIRE(arena.at_device_peak);
  CHECK(arena.at_device_peak->in_use_bytes == 8 * kMiB);
  CHECK(arena.at_device_peak->reserved_bytes == 20 * kMiB);
  CHECK(arena.failed_count == 1);
  CHECK(arena.checks == 2);
  CHECK(arena.contradictions == 0);
}

TEST_CASE("pools: without any the metrics are null and the rows are the driver's", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device_alloc(0, 2, 100, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB);
  const Summary summary = analyze_log(log);
  CHECK(!summary.metrics.at("device.pool.in_use.peak_bytes").has_value());
  CHECK(!summary.metrics.at("device.pool.idle_at_peak_bytes").has_value());
  CHECK(bytes_of(*summary.find_peak("device:0"), "device.linear") == 20 * kMiB);
}

TEST_CASE("pools: an instant is asked for as reports print it", "[collector]") {
  CHECK(parse_instant("+9.81 s") == 9'810'000'000);
  CHECK(parse_instant("+1.25s") == 1'250'000'000);
  CHECK(parse_instant("+40ms") == 40'000'000);
  CHECK(parse_instant("+17.5us") == 17'500);
  CHECK(parse_instant("+17.5 µs") == 17'500);
  CHECK(parse_instant("+16711234567ns") == 16'711'234'567);
  CHECK(parse_instant("+0.4ns") == 0);
  CHECK(parse_instant("-1s") == -1'000'000'000);
  CHECK(parse_instant("+1" + std::string(400, '0') + "s") == INT64_MAX);
  for (const char* text : {"", "+", "-", "1s", "+1", "+s", "+1 m", "+-1s", "++1s", "+infs", "+nans",
                           "+1e3s", "+1s ", " +1s", "+0x10s", "peak", "step 3"}) {
    INFO(text);
    CHECK(!parse_instant(text));
  }
}

TEST_CASE("pools: holes are what no block covers, also of one that spans two segments",
          "[collector]") {
  ArenaTable table;
  ArenaEvent created{};
  created.arena = 1;
  created.event = GPUPEAK_ARENA_CREATED;
  table.on_arena(created, 7, 0);
  for (uint64_t id : {1, 2}) {
    table.device_allocated({.id = id,
                            .kind = GPUPEAK_KIND_LINEAR,
                            .device = 0,
                            .address = id * kMiB,
                            .bytes = kMiB,
                            .group = GroupId{0}},
                           id);
  }
  const uint64_t before = table.segments_version();
  const auto give = [&](uint64_t at, uint64_t bytes) {
    ArenaAllocEvent alloc{};
    alloc.arena = 1;
    alloc.address = at;
    alloc.bytes = bytes;
    table.allocate(alloc, 5, 10);
  };
  give(kMiB + 100, 50);
  CHECK(table.segments_version() > before);
  give(2 * kMiB - 10, 30);
  const auto holes = [&] {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    table.for_each_hole(0, [&](uint64_t begin, uint64_t end, bool) {
      found.emplace_back(begin - kMiB, end - kMiB);
    });
    return found;
  };
  using Holes = std::vector<std::pair<uint64_t, uint64_t>>;
  CHECK(holes() == Holes{{0, 100}, {150, kMiB - 10}, {kMiB + 20, 2 * kMiB}});
  CHECK(table.level(0).reserved == 2 * kMiB);
  CHECK(table.level(0).idle() == 2 * kMiB - 80);
  CHECK(table.largest_idle(0) == kMiB - 20);
  CHECK(table.arenas()[0].largest_block == 50);
  table.device_freed(2, 11);
  CHECK(table.segments(0).size() == 1);
}
