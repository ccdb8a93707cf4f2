// What would lower a peak, by replay: for the report, and as `gpupeak whatif` has it. Under the
// sanitizers this is also what looks whether a watch outlives what it watches.
#include <string>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/fit/what_if.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kMiB = 1 << 20;  // a device block `id` of log_builder.h lies at id MiB

/// PyTorch's pool has 20 MiB idle when it takes 30 MiB more: with expandable segments it grows by
/// the rest, in pages of 20 MiB. What was asked for is known, so that this is exact.
LogBuilder torch_log() {
  LogBuilder log(GPUPEAK_HOST_OFF);
  const uint32_t name = log.string("PyTorch"), use = log.node(0, 0x200);
  log.device(0, 80 << 20, std::string(16, '\1'), "Test GPU");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name).u(0).u(0).s("").u(1));
  const auto give = [&](uint64_t time, uint64_t at, uint64_t bytes) {
    log.device_alloc(0, time, at, GPUPEAK_KIND_LINEAR, 0, bytes * kMiB, 0, log.node(0, 0x100));
    log.event(0, time + 1, GPUPEAK_REC_ARENA_ALLOC,
              Fields()
                  .u(1)
                  .u(at * kMiB)
                  .u(bytes * kMiB)
                  .u(0)
                  .u(use)
                  .u(bytes * kMiB + 1)
                  .u(0)
                  .u(bytes * kMiB));
  };
  give(2, 100, 20);
  log.event(0, 4, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(100 * kMiB).u(20 * kMiB).u(1).u(0));
  give(5, 200, 30);
  return log;
}

Summary with_lowering(LogBuilder& log) {
  const TemporaryFile file;
  Summary summary = analyze(log.save(file.path()));
  CHECK_FALSE(summary.lowering.has_value());
  CHECK(add_lowering(summary, file.path(), {}, {}));
  return summary;
}

}  // namespace

TEST_CASE("lowering: a setting is replayed, and is what `whatif` says", "[collector]") {
  LogBuilder log = torch_log();
  const Summary summary = with_lowering(log);
  REQUIRE(summary.lowering.has_value());
  CHECK(summary.lowering->scope == "device:0");
  CHECK(summary.lowering->before_bytes == 50 * kMiB);
  REQUIRE(summary.lowering->rows.size() == 1);
  const Lowering::Row& row = summary.lowering->rows[0];
  CHECK(row.setting == PoolSetting::kExpandableSegments);
  CHECK(row.most_bytes == 40 * kMiB);

  const TemporaryFile file;
  Options options;
  const auto all = what_would_lower(log.save(file.path()), options);
  REQUIRE(!all.empty());
  CHECK(all[0].changes.expandable_segments);
  CHECK(all[0].sums[0].least_bytes == row.least_bytes);
  CHECK(all[0].sums[0].most_bytes == row.most_bytes);
  CHECK(all[0].sums[0].time_ns == row.time_ns);
  Changes changes;
  changes.expandable_segments = true;
  CHECK(what_if(file.path(), changes, options).sums[0].most_bytes == row.most_bytes);
}

TEST_CASE("lowering: without such a pool, and of too many requests, no log is opened",
          "[collector]") {
  Summary summary;
  CHECK_FALSE(add_lowering(summary, "/no/such/log", {}, {}));
  REQUIRE(summary.lowering.has_value());
  CHECK(summary.lowering->rows.empty());

  LogBuilder log = torch_log();
  const TemporaryFile file;
  summary = analyze(log.save(file.path()));
  REQUIRE(summary.arenas.size() == 1);
  summary.arenas[0].alloc_count = 100'001;
  CHECK_FALSE(add_lowering(summary, "/no/such/log", {}, {}));
  REQUIRE(summary.lowering.has_value());
  CHECK(summary.lowering->untried_requests == 100'001);
  CHECK(summary.lowering->rows.empty());
}

TEST_CASE("lowering: where the pools' names are hashes it is not known", "[collector]") {
  LogBuilder log = torch_log();
  const TemporaryFile file;
  Options options;
  options.reading.sanitizer = Sanitizer("key");
  Summary summary = analyze(log.save(file.path()), options);
  CHECK_FALSE(add_lowering(summary, file.path(), options, {}));
  CHECK_FALSE(summary.lowering.has_value());
}

TEST_CASE("lowering: a peak that the replay does not come to is not compared with", "[collector]") {
  LogBuilder log = torch_log();
  const TemporaryFile file;
  Summary summary = analyze(log.save(file.path()));
  for (Peak& peak : summary.peaks) peak.bytes += kMiB;  // of a log that has grown since
  CHECK(add_lowering(summary, file.path(), {}, {}));
  CHECK_FALSE(summary.lowering.has_value());
  for (Peak& peak : summary.peaks) peak.counted = true;  // by the counters alone
  CHECK_FALSE(add_lowering(summary, "/no/such/log", {}, {}));
  CHECK_FALSE(summary.lowering.has_value());
}
