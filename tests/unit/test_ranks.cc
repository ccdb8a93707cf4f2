// Many processes of one job: whatever the groups in which they are merged the result is the same;
// what is held over time is kept in bounded memory; who stands out; what ended the job.
#include <algorithm>
#include <fstream>
#include <iterator>
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

ProcessRecord rank(int number, const std::string& node = "n0") {
  ProcessRecord record;
  record.id = 1000 + static_cast<uint64_t>(number);
  record.log_path = "r" + std::to_string(number) + ".gplog";
  record.boot = "boot of " + node;
  record.run.command = {"/opt/train"};
  record.run.host = node;
  record.run.pid = 100 + static_cast<uint32_t>(number);
  record.run.rank = number;
  record.run.end = {ExitKind::kExit, 0};
  // Each node's own clock; their calendars agree.
  record.start_monotonic_ns = (node == "n0" ? 5 : 5000) * kOneSecond;
  record.start_realtime_ns = 1'700'000'000 * kOneSecond;
  record.end_ns = record.last_ns = record.start_monotonic_ns + 100 * kOneSecond;
  record.host_measured = true;
  return record;
}

void hold(ProcessRecord& record, const std::vector<HeldPart>& tags,
          const std::vector<HeldPart>& sites, uint64_t other_bytes = 0) {
  OwnPeak peak;
  peak.side = "device";
  for (const HeldPart& tag : tags) peak.bytes += tag.bytes;
  peak.tags = tags;
  peak.sites = sites;
  peak.other_bytes = other_bytes;
  record.peaks.push_back(peak);
}

std::string report_of(const Merged& merged) {
  std::ostringstream out;
  write_merge(merged, out);
  return out.str();
}

std::string all_of(std::vector<ProcessRecord> records) {
  ProcessSet set;
  for (ProcessRecord& record : records) set.add(std::move(record));
  const Merged merged = merge(set.take());
  std::ostringstream out;
  write_merge(merged, out);
  write_merge(merged, out, kAsJson);
  return out.str();
}

/// A log of a rank on one of several nodes, with memory that comes and goes.
LogBuilder random_log(std::mt19937& random, int number) {
  LogBuilder log;
  const std::string node = "n" + std::to_string(number % 3);
  log.header().cookie = random();
  log.header().rank = number;
  log.header().pid = 100 + static_cast<uint32_t>(number);
  log.fact("host", node);
  log.fact("boot", "boot of " + node);
  log.fact("arg", "/opt/tr\u00e4in \"x\"\t\\");
  log.device(0, 1 << 30, "0123456789abcde" + std::to_string(number % 3), "NVIDIA H200");
  const uint32_t stack = log.node(0, 0x1000 + random() % 4);
  for (uint64_t i = 1; i <= 40; ++i) {
    log.device_alloc(0, i * 8, i, GPUPEAK_KIND_LINEAR, 0, 1 + random() % 1000, 0, stack);
    log.alloc(0, i * 8 + 1, 0x1000 * i, random() % 500);
    if (i % 3 == 0) log.device_free(0, i * 8 + 2, i - random() % 3);
  }
  if (number == 4) log.counters().ended = 0;
  return log;
}

std::vector<ProcessRecord> through_file(const std::vector<ProcessRecord>& records,
                                        const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  write_partial(records, "0.1.0", out);
  out.close();
  CHECK(is_partial(path));
  return read_partial(path);
}

}  // namespace

TEST_CASE("ranks: partial results merge to the same bytes, however they are grouped",
          "[collector]") {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::vector<ProcessRecord> logs;
  std::vector<std::string> paths;
  ProcessSet all;
  for (int i = 0; i < 9; ++i) {
    files.push_back(std::make_unique<TemporaryFile>());
    paths.push_back(random_log(random, i).save(files.back()->path()));
    ProcessSet one;
    one.add_log(paths.back(), {});
    all.add_log(paths.back(), {});
    logs.push_back(one.take().front());
  }
  std::ostringstream wanted;
  const Merged merged = merge(all.take());
  CHECK(merged.nodes.size() == 3);
  write_merge(merged, wanted);
  write_merge(merged, wanted, kAsJson);
  const TemporaryFile file;
  for (int round = 0; round < 30; ++round) {
    std::shuffle(logs.begin(), logs.end(), random);
    std::vector<ProcessRecord> left;
    for (size_t i = 0; i < logs.size();) {
      // Some logs are in two groups, and some groups are merged before others join them.
      const size_t end = std::min(logs.size(), i + 1 + random() % 4);
      ProcessSet group;
      for (size_t k = i > 0 && random() % 2 == 0 ? i - 1 : i; k < end; ++k) group.add(logs[k]);
      if (random() % 3 == 0) {
        for (ProcessRecord& record : left) group.add(std::move(record));
        left.clear();
      }
      for (ProcessRecord& record : through_file(group.take(), file.path()))
        left.push_back(std::move(record));
      i = end;
    }
    CHECK(all_of(left) == wanted.str());
  }
}

TEST_CASE("ranks: the same logs make the same partial result, in whatever order", "[collector]") {
  std::ostringstream a, b;
  write_partial({rank(1), rank(2)}, "0.1.0", a);
  write_partial({rank(2), rank(1)}, "0.1.0", b);
  CHECK(a.str() == b.str());
}

TEST_CASE("ranks: a log that went on since a partial result counts once, as it was last",
          "[collector]") {
  ProcessRecord early = rank(1), late = rank(1);
  early.end_ns = 0;
  early.run.end = {};
  early.last_ns = late.start_monotonic_ns + kOneSecond;
  for (const bool late_first : {false, true}) {
    ProcessSet set;
    set.add(late_first ? late : early);
    set.add(late_first ? early : late);
    CHECK(set.repeated() == 1);
    const std::vector<ProcessRecord> records = set.take();
    REQUIRE(records.size() == 1);
    CHECK(records.front().end_ns == late.end_ns);
  }
}

TEST_CASE("ranks: what is no whole partial result is refused", "[collector]") {
  std::mt19937 random(5);
  const TemporaryFile log, file;
  ProcessSet set;
  set.add_log(random_log(random, 1).save(log.path()), {});
  std::ostringstream out;
  write_partial(set.take(), "0.1.0", out);
  const std::string whole = out.str();
  const auto read = [&](const std::string& bytes) {
    file.write({bytes.begin(), bytes.end()});
    return read_partial(file.path());
  };
  REQUIRE(read(whole).size() == 1);
  for (size_t bytes = 1; bytes < whole.size(); ++bytes)
    CHECK_THROWS_AS(read(whole.substr(0, bytes)), LogError);
  CHECK_THROWS_AS(read(whole + whole), LogError);
  CHECK_THROWS_AS(read("no partial result"), LogError);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    size_t logs = 1;  // of a bit that says nothing
    try {
      logs = read(damaged).size();
    } catch (const LogError&) {
    }
    CHECK(logs == 1);
  }
}

TEST_CASE("ranks: a record with a field of another kind is refused", "[collector]") {
  ProcessRecord record = rank(1);
  record.curves["device:0"].add(5, 100);
  record.curves["device:0"].finish(HeldCurve::kRoomBytes);
  hold(record, {{"weights", 100}}, {{"a", 60}}, 40);
  record.refusal = Refusal{"cuMemAlloc", 0, 1, 2, "phase", "site", "why", 3};
  record.devices.emplace_back().uuid = "GPU-1";
  const std::string text = record_text(record);
  CHECK(record_text(record_of(text)) == text);
  const auto with = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return std::string(text).replace(at, from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"pid\":101", "\"pid\":-1"},
           {"\"pid\":101", "\"pid\":4294967296"},
           {"\"pid\":101", "\"pid\":1.5"},
           {"\"pid\":101", "\"pid\":\"x\""},
           {"\"rank\":1", "\"rank\":9223372036854775808"},
           {"\"host\":\"n0\"", "\"host\":7"},
           {"\"exact\":true", "\"exact\":1"},
           {"\"steps\":[5,100]", "\"steps\":[5]"},
           {"\"steps\":[5,100]", "\"steps\":[5,-100]"},
           {"\"steps\":[5,100]", "\"steps\":[5,1,18446744073709551615,2]"},
           {"\"steps\":[5,100]", "\"steps\":{}"},
           {"\"tags\":[", "\"tags\":[7,"},
           {"\"devices\":[", "\"devices\":[[],"},
           {"\"kind\":\"exit\"", "\"kind\":\"gone\""},
           {"\"id\":\"0", "\"id\":\"x"},
           {"\"curves\":{", "\"curves\":7,\"x\":{"},
           {"\"last_ns\"", "\"other\""}}) {
    INFO(from << " → " << to);
    CHECK_THROWS_AS(record_of(with(from, to)), std::runtime_error);
  }
  // What a newer one adds is passed over; what attacks a terminal is not passed on.
  CHECK(record_text(record_of(with("\"pid\"", "\"new\":{},\"pid\""))) == text);
  CHECK(record_of(with("\"host\":\"n0\"", "\"host\":\"\\u001b[2J\"")).run.host.find('\x1b') ==
        std::string::npos);
}

TEST_CASE("ranks: a curve stays within its room and never lies below what was held",
          "[collector]") {
  std::mt19937 random(11);
  struct Step {
    uint64_t ns, bytes;
  };
  std::vector<Step> steps;
  HeldCurve curve;
  uint64_t bytes = 1 << 30;
  uint64_t ns = 0;
  size_t most_coded = 0;
  for (int i = 0; i < 300'000; ++i) {
    bytes += random() % 2'000'001;
    bytes -= std::min<uint64_t>(bytes, random() % 2'000'001);
    steps.push_back({ns += 1 + random() % 3000, bytes});
    curve.add(ns, bytes);
    most_coded = std::max(most_coded, curve.steps().coded_bytes());
  }
  CHECK(most_coded <= HeldCurve::kRoomBytes);
  curve.finish(HeldCurve::kRoomBytes / 2);
  CHECK(curve.steps().coded_bytes() <= HeldCurve::kRoomBytes / 2);
  const uint64_t peak =
      std::max_element(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
        return a.bytes < b.bytes;
      })->bytes;
  CHECK(curve.peak_bytes() == peak);
  CHECK(curve.error_bytes() > 0);
  CHECK(curve.error_bytes() < peak / 50);
  StepList::Reader reader(curve.steps());
  uint64_t shown = 0, most = 0;
  bool more = reader.next();
  size_t below = 0, far_above = 0;
  for (const Step& step : steps) {
    for (; more && reader.ns() <= step.ns; more = reader.next()) shown = reader.bytes();
    below += shown < step.bytes;
    far_above += shown > step.bytes + curve.error_bytes();
    most = std::max(most, shown);
  }
  CHECK(below == 0);
  CHECK(far_above == 0);
  CHECK(most == peak);
}

TEST_CASE("ranks: a curve that fits is exact", "[collector]") {
  HeldCurve curve;
  for (uint64_t i = 1; i <= 1000; ++i) curve.add(i * 10, i % 7);
  curve.finish(HeldCurve::kRoomBytes);
  CHECK(curve.error_bytes() == 0);
  uint64_t i = 1;
  for (StepList::Reader step(curve.steps()); step.next(); ++i) {
    CHECK(step.ns() == i * 10);
    CHECK(step.bytes() == i % 7);
  }
  CHECK(i == 1001);
}

TEST_CASE("ranks: who has more than the others, and in what", "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 40; ++i) {
    ProcessRecord record = rank(i, i < 20 ? "n0" : "n1");
    const auto wobble = static_cast<uint64_t>(i % 4);
    const uint64_t activations = (i == 17 ? 1310 : 1000) + wobble;
    hold(record, {{"activations", activations}, {"weights", 4000}},
         {{"matmul", 4000}, {"0x7f00" + std::to_string(i), 900}}, activations - 900);
    if (i == 23) {  // in a site that others do not list
      record.peaks[0].sites[1] = {"cache", 1003};
      record.peaks[0].other_bytes = 0;
    }
    ranks.push_back(record);
  }
  const Merged merged = merge(ranks);
  REQUIRE(merged.outliers.size() == 3);
  const Outlier& site = merged.outliers[0];
  CHECK(merged.processes[site.process].run.rank == 23);
  CHECK(site.name == "cache");
  CHECK_FALSE(site.median_bytes);  // the others may have a little of it: a hundred at most
  CHECK(site.excess_bytes >= 1003 - 104);
  for (const size_t i : {1, 2}) {
    CHECK(merged.processes[merged.outliers[i].process].run.rank == 17);
    CHECK(merged.outliers[i].compared == 40);
    CHECK(merged.outliers[i].excess_bytes == 1311 - 1002);
  }
  CHECK(merged.outliers[1].by == "peak");
  CHECK(merged.outliers[2].by == "tag");
  CHECK(merged.outliers[2].median_bytes == 1002);
  CHECK(report_of(merged).find("rank 17, pid 117 train on n0: +31 % (+309 B) in activations") !=
        std::string::npos);
}

TEST_CASE("ranks: half of them may differ, and none is an outlier", "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 16; ++i) {
    ProcessRecord record = rank(i);
    hold(record, {{"activations", static_cast<uint64_t>(1000 + 100 * (i % 8))}}, {});
    ranks.push_back(record);
  }
  CHECK(merge(ranks).outliers.empty());
}

TEST_CASE("ranks: launchers and children are not compared with ranks", "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 8; ++i) {
    for (const uint64_t bytes : {0, 1000}) {  // a child has its parent's rank
      ProcessRecord record = rank(i);
      record.id += bytes;
      hold(record, {{"activations", bytes}}, {});
      ranks.push_back(record);
    }
  }
  ProcessRecord launcher = rank(99);
  launcher.run.rank.reset();
  hold(launcher, {{"activations", 1}}, {});
  ranks.push_back(launcher);
  CHECK(merge(ranks).outliers.empty());
}

TEST_CASE("ranks: the job ended with who was refused first, not with who was ended last",
          "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 6; ++i) ranks.push_back(rank(i, i < 3 ? "n0" : "n1"));
  const auto end = [&](size_t i, ExitKind kind, int32_t code, uint64_t second) {
    ranks[i].run.end = {kind, code};
    ranks[i].end_ns = ranks[i].start_monotonic_ns + second * kOneSecond;
  };
  // Refused at 10 s, which takes until 14 s to become an end; others notice before.
  end(4, ExitKind::kExit, 1, 14);
  ranks[4].refusal =
      Refusal{"cuMemAlloc", 0, 2u << 30, 10 * kOneSecond, "step", "A ← B", "full", 1};
  end(2, ExitKind::kSignal, 6, 11);
  // Refused long ago, and lived with it.
  end(1, ExitKind::kSignal, 15, 15);
  ranks[1].refusal = Refusal{"cuMemAlloc", 0, 1u << 30, 1 * kOneSecond, "step", "A ← B", "", 1};
  end(0, ExitKind::kExit, 143, 16);
  ranks[5].refusal = Refusal{"cuMemAlloc", 0, 1u << 30, 2 * kOneSecond, "step", "A ← B", "", 1};
  ranks[3].run.end = {};  // ended, nobody saw how
  const Merged merged = merge(ranks);
  const JobEnd& job = merged.end;
  REQUIRE(job.casualties.size() == 4);
  CHECK(merged.processes[job.casualties[0].process].run.rank == 4);
  CHECK(job.casualties[0].how == Casualty::How::kRefused);
  CHECK(job.casualties[0].time_ns == 10 * static_cast<int64_t>(kOneSecond));
  CHECK(merged.processes[job.casualties[1].process].run.rank == 2);
  CHECK(job.casualties[2].how == Casualty::How::kSignalled);
  CHECK(job.in_order == 1);
  CHECK(job.not_said == 1);
  const std::string text = report_of(merged);
  CHECK(text.find("rank 4, pid 104 train on n1: cuMemAlloc asked for 2.00 GiB of GPU 0 at +10.00 s "
                  "and was\n  refused, then exit 1") != std::string::npos);
  CHECK(text.find("2 ended later by signals from outside") != std::string::npos);
}

TEST_CASE("ranks: a job that somebody ended is not blamed on a rank", "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 3; ++i) {
    ranks.push_back(rank(i));
    ranks.back().run.end = {ExitKind::kSignal, 15};
  }
  CHECK(report_of(merge(ranks)).find("nobody failed by itself") != std::string::npos);
}

TEST_CASE("ranks: a thousand of them are a screen of text", "[collector]") {
  std::vector<ProcessRecord> ranks;
  for (int i = 0; i < 1000; ++i) {
    ProcessRecord record = rank(i, "n" + std::to_string(i / 8));
    hold(record, {{"activations", static_cast<uint64_t>(i % 100 == 0 ? 9000 : 1000)}}, {});
    record.end_ns = i % 2 == 0 ? 0 : record.end_ns;
    record.quality.log_complete = i % 2 != 0;
    record.run.end = {ExitKind::kSignal, i == 5 ? 6 : 15};
    ranks.push_back(record);
  }
  const std::string text = report_of(merge(ranks));
  CHECK(std::count(text.begin(), text.end(), '\n') <= 50);
}
