// Several processes of one run: the peak of their sum, computed here a second time by brute force.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "catch.h"
#include "collector/merge/merge.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

struct Files {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::vector<std::string> paths;
  void add(LogBuilder& log) {
    log.header().cookie += files.size();
    log.header().pid += static_cast<uint32_t>(files.size());
    files.push_back(std::make_unique<TemporaryFile>());
    paths.push_back(log.save(files.back()->path()));
  }
};

LogBuilder process(const std::string& boot, const std::string& uuid = "0123456789abcdef") {
  LogBuilder log;
  log.fact("host", "h1");
  if (!boot.empty()) log.fact("boot", boot);
  log.device(0, 1 << 30, uuid, "NVIDIA H200");
  return log;
}

Merged merge_logs(const std::vector<std::string>& paths) {
  ProcessSet set;
  for (const std::string& path : paths) set.add_log(path, {});
  return merge(set.take());
}

const MergedSum* find(const Merged& merged, const std::string& scope) {
  return merged.nodes.front().find_sum(scope);
}

}  // namespace

TEST_CASE("merge: peaks at different times do not add up", "[collector]") {
  Files files;
  LogBuilder first = process("b"), second = process("b");
  first.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  first.device_free(0, 20, 1);
  second.device_alloc(0, 30, 1, GPUPEAK_KIND_LINEAR, 0, 70);
  second.device_free(0, 40, 1);
  files.add(first);
  files.add(second);
  const Merged merged = merge_logs(files.paths);
  CHECK(merged.nodes.size() == 1);
  const MergedSum* sum = find(merged, "device:0");
  REQUIRE(sum != nullptr);
  CHECK(sum->sum_of_peaks_bytes == 170);
  CHECK(sum->peak_bytes == 100);
  CHECK(sum->peak_time_ns == 10);
  CHECK(sum->parts[0].at_peak_bytes == 100);
  CHECK(sum->parts[1].at_peak_bytes == 0);
  CHECK(find(merged, "device") == nullptr);  // the one GPU again
}

TEST_CASE("merge: the exact peak is that of brute force", "[collector]") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    Files files;
    std::map<uint64_t, std::vector<int64_t>> changes;
    for (size_t p = 0; p < 4; ++p) {
      LogBuilder log = process("b");
      std::map<uint64_t, uint64_t> live;
      uint64_t time = 0;
      for (uint64_t i = 1; i <= 60; ++i) {
        time = i * 8 + p;  // no two processes at one instant
        if (live.empty() || random() % 5 < 3) {
          const uint64_t bytes = 1 + random() % 1000;
          log.device_alloc(0, time, i, GPUPEAK_KIND_LINEAR, 0, bytes);
          live[i] = bytes;
          changes[time].push_back(static_cast<int64_t>(bytes));
        } else {
          const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
          log.device_free(0, time, victim->first);
          changes[time].push_back(-static_cast<int64_t>(victim->second));
          live.erase(victim);
        }
      }
      for (const auto& [id, bytes] : live) changes[time].push_back(-static_cast<int64_t>(bytes));
      files.add(log);
    }
    int64_t all = 0;
    int64_t peak = 0;
    for (const auto& [time, steps] : changes) {
      for (const int64_t step : steps) {
        all += step;
        peak = std::max(peak, all);
      }
    }
    const Merged merged = merge_logs(files.paths);
    const MergedSum* sum = find(merged, "device:0");
    REQUIRE(sum != nullptr);
    CHECK(sum->peak_bytes == static_cast<uint64_t>(peak));
    uint64_t held = 0;
    for (const MergedPart& part : sum->parts) held += part.at_peak_bytes.value();
    CHECK(held == sum->peak_bytes);
    CHECK(sum->peak_bytes.value() <= sum->sum_of_peaks_bytes.value());
  }
}

TEST_CASE("merge: GPUs are told apart by UUID, not by number", "[collector]") {
  Files files;
  LogBuilder first = process("b", "0123456789abcdef"), second = process("b", "fedcba9876543210");
  first.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  second.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 70);
  first.alloc(0, 50, 0x1000, 1);  // they end later
  second.alloc(0, 50, 0x1000, 1);
  files.add(first);
  files.add(second);
  const Merged merged = merge_logs(files.paths);
  const std::vector<MergedSum>& sums = merged.nodes.front().sums;
  const auto devices = std::count_if(sums.begin(), sums.end(),
                                     [](const MergedSum& sum) { return sum.scope == "device:0"; });
  CHECK(devices == 2);
  CHECK(find(merged, "device")->peak_bytes == 170);
}

TEST_CASE("merge: nodes share no clock, each has a peak of its own", "[collector]") {
  Files files;
  for (const char* boot : {"b", "c", "b"}) {
    LogBuilder log = process(boot);
    log.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100);
    log.alloc(0, 50, 0x1000, 1);  // it ends later
    log.event(0, 51, GPUPEAK_REC_RESIDENT,
              Fields().u(9 << 20).u(2 << 20).u(0).u(0).u(0).u(7 << 20).u(0).u(0).u(1).u(0));
    files.add(log);
  }
  const Merged merged = merge_logs(files.paths);
  REQUIRE(merged.nodes.size() == 2);
  CHECK(merged.nodes[0].find_sum("device:0")->peak_bytes == 200);
  CHECK(merged.nodes[1].find_sum("device:0")->peak_bytes == 100);
  CHECK(merged.node_of == std::vector<size_t>{0, 1, 0});
  std::ostringstream text;
  write_merge(merged, text);
  CHECK(text.str().find("300 B") != std::string::npos);
  CHECK(text.str().find("all together at most") != std::string::npos);
  for (const char* resident :
       {"14.0 MiB          2  h1", "21.0 MiB          3  all together", "7.00 MiB  pid"})
    CHECK(text.str().find(resident) != std::string::npos);
}

TEST_CASE("merge: logs that do not name their boot are of one if it began at one time",
          "[collector]") {
  Files files;
  for (const uint64_t later_s : {0, 1, 60}) {
    LogBuilder log = process("");
    log.header().start_realtime_ns += later_s * 1'000'000'000;
    files.add(log);
  }
  CHECK(merge_logs(files.paths).nodes.size() == 2);
}

TEST_CASE("merge: a process that did not measure the host leaves its sum unknown", "[collector]") {
  Files files;
  LogBuilder first = process("b"), second(GPUPEAK_HOST_OFF);
  second.fact("boot", "b");
  first.alloc(0, 1, 0x1000, 100);
  second.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 70);
  files.add(first);
  files.add(second);
  const Merged merged = merge_logs(files.paths);
  const MergedSum* host = find(merged, "host");
  REQUIRE(host != nullptr);
  CHECK_FALSE(host->sum_of_peaks_bytes);
  CHECK_FALSE(host->peak_bytes);
}

TEST_CASE("merge: a log without an end is said, a log given twice refused", "[collector]") {
  Files files;
  LogBuilder first = process("b"), second = process("b");
  first.device_alloc(0, 10, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  first.counters().ended = 0;
  second.device_alloc(0, 30, 1, GPUPEAK_KIND_LINEAR, 0, 70);
  files.add(first);
  files.add(second);
  const Merged merged = merge_logs(files.paths);
  CHECK(merged.notes.size() == 1);
  CHECK(find(merged, "device:0")->peak_bytes == 170);
  CHECK_THROWS_AS(merge_logs({files.paths[0], files.paths[0]}), UsageError);
}
