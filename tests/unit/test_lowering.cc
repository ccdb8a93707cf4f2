// What would lower a peak, by replay: for the report, and as `gpupeak whatif` has it. Under the
// sanitizers this is also what looks whether a watch outlives what it watches.
#include <string>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/fit/what_if.h"
#include "collector/summary/what_if.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

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

/// Returns whether the log was replayed for it.
bool lower(Summary& summary, const TemporaryFile& file, const Options& options = {}) {
  LogReader log(file.path(), options.reading.sanitizer);
  return add_lowering(summary, log, options, {});
}

Summary with_lowering(LogBuilder& log) {
  const TemporaryFile file;
  Summary summary = analyze(log.save(file.path()));
  CHECK_FALSE(summary.lowering.has_value());
  CHECK(lower(summary, file));
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

/// Blocks that a program takes from the driver, with when they were used.
struct OwnBlocks {
  explicit OwnBlocks(const char* recorded = "last_use") : log(GPUPEAK_HOST_OFF) {
    log.fact(recorded, "on");
    log.device(0, 80 << 20, std::string(16, '\1'), "Test GPU");
  }
  void take(uint64_t time, uint64_t id, uint64_t bytes) {
    log.device_alloc(0, time, id, GPUPEAK_KIND_LINEAR, 0, bytes * kMiB, 0, log.node(0, 0x100 * id));
  }
  void free(uint64_t time, uint64_t id, uint64_t first, uint64_t last) {
    log.used(0, time, 0, id, last > 0 ? 2 : 0, first, last);
    log.device_free(0, time, id);
  }
  /// "setting MiB about", a line each.
  std::string lowering() {
    const Summary summary = with_lowering(log);
    REQUIRE(summary.lowering.has_value());
    std::string rows;
    for (const Lowering::Row& row : summary.lowering->rows) {
      CHECK(row.most_bytes == row.least_bytes);
      rows += std::string(setting_name(row.setting)) + ' ' +
              std::to_string(row.least_bytes / kMiB) + ' ' + row.about + '\n';
    }
    return rows;
  }
  LogBuilder log;
};

TEST_CASE("lowering: of a program's own blocks, what was never used, and two as one, exact",
          "[collector]") {
  OwnBlocks program;
  program.take(1, 1, 100);
  program.take(2, 2, 80);
  program.take(3, 3, 50);
  program.free(100, 1, 10, 20);
  program.free(101, 2, 30, 90);
  program.free(102, 3, 0, 0);
  CHECK(program.lowering() == "one_for_two 150 0x100, then 0x200\nwithout_unused 180 \n");
}

TEST_CASE("lowering: no option is needed where every launch was looked at", "[collector]") {
  const auto record = [](bool has_all_launches) {
    OwnBlocks program("roles");
    if (!has_all_launches) program.log.fact("launches", "not all");
    program.take(1, 1, 100);
    program.take(2, 2, 50);
    program.free(100, 1, 10, 90);
    program.free(101, 2, 0, 0);
    return program;
  };
  CHECK(record(true).lowering() == "without_unused 100 \n");
  OwnBlocks sampled = record(false);
  const TemporaryFile file;
  Summary summary = analyze(sampled.log.save(file.path()));
  CHECK_FALSE(lower(summary, file));
  REQUIRE(summary.lowering.has_value());
  CHECK(summary.lowering->rows.empty());
}

TEST_CASE("lowering: of a program's own blocks, what is taken too early", "[collector]") {
  OwnBlocks program;
  program.take(1, 1, 100);
  program.take(2, 2, 80);
  program.free(20, 1, 3, 5);
  program.free(100, 2, 30, 90);
  CHECK(program.lowering() == "take_at_first_use 100 \none_for_two 100 0x100, then 0x200\n");
}

TEST_CASE("lowering: a change after which nothing is left is no advice", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80 << 20, std::string(16, '\1'), "Test GPU");
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, kMiB, 0, log.node(0, 0x100));
  const TemporaryFile file;
  CHECK(what_would_lower(log.save(file.path()), {}).empty());
}

TEST_CASE("lowering: without such a pool, and of too many requests, no log is replayed",
          "[collector]") {
  LogBuilder log = torch_log();
  const TemporaryFile file;
  log.save(file.path());
  Summary summary;
  CHECK_FALSE(lower(summary, file));
  REQUIRE(summary.lowering.has_value());
  CHECK(summary.lowering->rows.empty());

  summary = analyze(file.path());
  REQUIRE(summary.arenas.size() == 1);
  summary.arenas[0].alloc_count = 100'001;
  CHECK_FALSE(lower(summary, file));
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
  CHECK_FALSE(lower(summary, file, options));
  CHECK_FALSE(summary.lowering.has_value());
}

TEST_CASE("lowering: a peak that the replay does not come to is not compared with", "[collector]") {
  LogBuilder log = torch_log();
  const TemporaryFile file;
  Summary summary = analyze(log.save(file.path()));
  for (Peak& peak : summary.peaks) peak.bytes += kMiB;  // of a log that has grown since
  CHECK(lower(summary, file));
  CHECK_FALSE(summary.lowering.has_value());
  for (Peak& peak : summary.peaks) peak.counted = true;  // by the counters alone
  CHECK_FALSE(lower(summary, file));
  CHECK_FALSE(summary.lowering.has_value());
}
