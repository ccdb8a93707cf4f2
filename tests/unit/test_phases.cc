// The phases of whole logs, seen through analyze(): what they keep, and how they repeat.
#include <array>
#include <map>
#include <random>
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/analyze/summary_parts.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

const PhaseSummary& phase(const Summary& summary, std::string_view name) {
  for (const PhaseSummary& phase : summary.phases) {
    if (phase.name == name) return phase;
  }
  FAIL("no phase " << name);
  return summary.phases.front();
}

uint64_t value(const Metrics& metrics, const std::string& name) {
  INFO(name);
  REQUIRE(metric(metrics, name).has_value());
  return *metric(metrics, name);
}

/// What the outermost phases' own allocations still hold at exit, and what no phase allocated.
uint64_t sum_of_live_at_exit(const Summary& summary, const std::string& side) {
  uint64_t sum = 0;
  for (const PhaseSummary& phase : summary.phases) {
    if (phase.depth == 0) sum += value(phase.metrics, side + ".live_at_exit_bytes");
  }
  return sum;
}

}  // namespace

TEST_CASE("phases: bytes at entry, peak within, at exit, kept", "[collector]") {
  LogBuilder log;
  const uint32_t load = log.string("load");
  const uint32_t inner = log.string("inner");
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.phase_push(0, 2, false, load);
  log.device_alloc(0, 3, 2, GPUPEAK_KIND_LINEAR, 0, 50);
  log.phase_push(0, 4, false, inner);
  log.device_alloc(0, 5, 3, GPUPEAK_KIND_LINEAR, 0, 30);
  log.device_alloc(0, 6, 4, GPUPEAK_KIND_LINEAR, 0, 7);
  log.device_free(0, 7, 3);
  log.phase_pop(0, 8, false);
  log.device_free(0, 9, 1);  // not of this phase
  log.phase_pop(0, 10, false);
  log.device_free(0, 11, 4);
  const Summary summary = analyze_log(log);
  const Metrics& outer = phase(summary, "load").metrics;
  CHECK(value(outer, "device.start_bytes") == 100);
  CHECK(value(outer, "device.peak_bytes") == 187);
  CHECK(value(outer, "device.end_bytes") == 57);
  CHECK(value(outer, "device.kept_bytes") == 57);
  CHECK(value(outer, "device.live_at_exit_bytes") == 50);
  CHECK(value(outer, "device.alloc_count") == 1);
  const PhaseSummary& within = phase(summary, "inner");
  CHECK(value(within.metrics, "device.kept_bytes") == 7);
  CHECK(value(within.metrics, "device.live_at_exit_bytes") == 0);
  CHECK(within.open_ns == 4);
  REQUIRE(within.instances.size() == 1);
  CHECK(within.instances[0].device.peak_bytes == 187);
}

TEST_CASE("phases: a hundred thousand runs are folded, the first and an odd one are alone",
          "[collector]") {
  LogBuilder log;
  const uint32_t run = log.string("run");
  constexpr uint64_t kRuns = 100'000;
  uint64_t id = 0;
  log.phase_push(0, 1, false, run);
  log.device_alloc(0, 1, ++id, GPUPEAK_KIND_LINEAR, 0, 4 * kMiB);
  log.phase_pop(0, 2, false);
  for (uint64_t i = 2; i <= kRuns; ++i) {
    log.phase_push(0, i * 2, false, run);
    if (i % 1000 == 0) {  // the caller's own block, in some runs: no difference
      log.alloc(0, i * 2, 0x1000, 100);
      log.free(0, i * 2, 0x1000);
    }
    if (i == 1234) log.device_alloc(0, i * 2, ++id, GPUPEAK_KIND_LINEAR, 0, kMiB);
    log.phase_pop(0, i * 2 + 1, false);
  }
  const Summary summary = analyze_log(log);
  const PhaseSummary& runs = phase(summary, "run");
  CHECK(runs.count == kRuns);
  REQUIRE(runs.instances.size() == 4);
  CHECK(runs.instances[1].first == 2);
  CHECK(runs.instances[1].last == 1233);
  CHECK(runs.instances[2].first == 1234);
  CHECK(runs.instances[2].count == 1);
  CHECK(runs.instances[2].device.kept_bytes == kMiB);
  CHECK(runs.instances[3].last == kRuns);
  CHECK(runs.instances[3].device.start_bytes == 5 * kMiB);
  std::ostringstream table;
  write_phases(summary, table, {});
  CHECK(table.str().find("run[2..1233]") != std::string::npos);
  CHECK(table.str().find("run[1234] ") != std::string::npos);
}

TEST_CASE("phases: a kept that is more than the peak beside it is explained", "[collector]") {
  for (const bool frees_within : {false, true}) {
    LogBuilder log;
    const uint32_t step = log.string("step");
    for (uint64_t i = 1; i <= 5; ++i) {  // what a step leaves is freed before the next
      log.phase_push(0, i * 10, false, step);
      log.device_alloc(0, i * 10 + 1, i, GPUPEAK_KIND_LINEAR, 0, 73 * kMiB);
      if (frees_within) log.device_free(0, i * 10 + 2, i);
      log.phase_pop(0, i * 10 + 3, false);
      if (!frees_within) log.device_free(0, i * 10 + 4, i);
    }
    const Summary summary = analyze_log(log);
    std::ostringstream table, report;
    write_phases(summary, table, {});
    write_text(summary, report, {}, ReportLength::kFull);
    const std::string note = "kept adds up";
    for (const std::string& text : {table.str(), report.str()}) {
      INFO(text);
      CHECK((text.find(" 365 MiB") != std::string::npos) != frees_within);
      CHECK((text.find(note) != std::string::npos) != frees_within);
    }
  }
}

TEST_CASE("phases: what outermost phases keep and what none allocated is what is live at exit",
          "[collector]") {
  uint64_t outside = 0;
  for (const uint32_t seed : {1u, 2u, 3u, 4u, 5u}) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](uint64_t limit) { return random() % limit; };
    LogBuilder log;
    std::vector<uint32_t> names;
    for (const char* name : {"a", "b", "c", "d"}) names.push_back(log.string(name));
    std::array<int, 3> depth{};
    std::vector<uint64_t> device_blocks;
    std::vector<uint64_t> heap_blocks;
    std::map<uint64_t, uint64_t> sizes;
    uint64_t device_live = 0, host_live = 0, next_id = 1;
    for (uint64_t time = 1; time < 5000; ++time) {
      const auto slot = static_cast<uint32_t>(below(3));
      switch (below(6)) {
        case 0:
          log.phase_push(slot, time, false, names[below(names.size())]);
          ++depth[slot];
          break;
        case 1:
          if (depth[slot]-- > 0) {
            log.phase_pop(slot, time, false);
          } else {
            depth[slot] = 0;
          }
          break;
        case 2: {
          const uint64_t bytes = 1 + below(1000);
          log.device_alloc(slot, time, next_id, GPUPEAK_KIND_LINEAR, 0, bytes);
          device_blocks.push_back(next_id);
          sizes[next_id++] = bytes;
          device_live += bytes;
          break;
        }
        case 3:
          if (!device_blocks.empty()) {
            const size_t at = below(device_blocks.size());
            device_live -= sizes[device_blocks[at]];
            log.device_free(slot, time, device_blocks[at]);
            device_blocks.erase(device_blocks.begin() + static_cast<std::ptrdiff_t>(at));
          }
          break;
        case 4: {
          const uint64_t address = 0x100000 + 0x1000 * time;
          const uint64_t bytes = 1 + below(1000);
          log.alloc(slot, time, address, bytes);
          heap_blocks.push_back(address);
          sizes[address] = bytes;
          host_live += bytes;
          break;
        }
        default:
          if (!heap_blocks.empty()) {
            const size_t at = below(heap_blocks.size());
            host_live -= sizes[heap_blocks[at]];
            log.free(slot, time, heap_blocks[at]);
            heap_blocks.erase(heap_blocks.begin() + static_cast<std::ptrdiff_t>(at));
          }
          break;
      }
    }
    const Summary summary = analyze_log(log);
    REQUIRE(value(summary.metrics, "device.live_bytes") == device_live);
    REQUIRE(value(summary.metrics, "host.live_bytes") == host_live);
    const uint64_t device = sum_of_live_at_exit(summary, "device");
    const uint64_t host = sum_of_live_at_exit(summary, "host");
    CHECK(device + value(summary.metrics, "device.outside_phases.live_bytes") == device_live);
    CHECK(host + value(summary.metrics, "host.outside_phases.live_bytes") == host_live);
    CHECK(device > 0);
    outside += value(summary.metrics, "device.outside_phases.live_bytes");
  }
  CHECK(outside > 0);
}

TEST_CASE("phases: of one thread, the changes within phases and between them add up",
          "[collector]") {
  LogBuilder log;
  const uint32_t run = log.string("run");
  uint64_t time = 1;
  uint64_t live = 0;
  for (uint64_t i = 1; i <= 50; ++i) {
    log.device_alloc(0, time++, 1000 + i, GPUPEAK_KIND_LINEAR, 0, 3);  // between the runs
    live += 3;
    log.phase_push(0, time++, false, run);
    log.device_alloc(0, time++, i, GPUPEAK_KIND_LINEAR, 0, 10 * i);
    live += 10 * i;
    if (i > 1) {
      log.device_free(0, time++, i - 1);
      live -= 10 * (i - 1);
    }
    log.phase_pop(0, time++, false);
  }
  const Summary summary = analyze_log(log);
  const PhaseSummary& runs = phase(summary, "run");
  int64_t kept = 0;
  for (const PhaseInstances& row : runs.instances) kept += row.device.kept_bytes.value();
  CHECK(kept == 500);
  CHECK(value(runs.metrics, "device.kept_bytes") == 500);
  CHECK(value(runs.metrics, "device.live_at_exit_bytes") + 150 == live);
  CHECK(value(summary.metrics, "device.live_bytes") == live);
}

TEST_CASE("phases: of instances that overlap, the one that never ended has no end", "[collector]") {
  LogBuilder log;
  log.counters().ended = 0;
  const uint32_t run = log.string("run");
  log.phase_push(0, 1, false, run);
  log.device_alloc(0, 2, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.phase_push(1, 3, false, run);
  log.device_alloc(1, 4, 2, GPUPEAK_KIND_LINEAR, 0, 7);
  log.phase_pop(1, 5, false);
  log.device_alloc(0, 6, 3, GPUPEAK_KIND_LINEAR, 0, 100);
  const Summary summary = analyze_log(log);
  const std::vector<PhaseInstances>& instances = phase(summary, "run").instances;
  REQUIRE(instances.size() == 2);
  CHECK_FALSE(instances[0].end_ns.has_value());
  CHECK(instances[1].end_ns.has_value());
  CHECK_FALSE(phase(summary, "run").end_ns.has_value());
}

TEST_CASE("phases: a range owns nothing, so what it keeps is not known", "[collector]") {
  LogBuilder log;
  const uint32_t name = log.string("range");
  log.event(0, 1, GPUPEAK_REC_RANGE_BEGIN, Fields().u(1).u(GPUPEAK_PHASE_NVTX).u(name));
  log.device_alloc(0, 2, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.event(0, 3, GPUPEAK_REC_RANGE_END, Fields().u(1));
  const Summary summary = analyze_log(log);
  const Metrics& range = phase(summary, "range").metrics;
  CHECK(value(range, "device.end_bytes") == 100);
  CHECK_FALSE(metric(range, "device.kept_bytes").has_value());
  CHECK_FALSE(metric(range, "device.alloc_count").has_value());
  CHECK_FALSE(phase(summary, "range").instances.at(0).device.kept_bytes.has_value());
}

TEST_CASE("phases: names that differ in numbers alone are one phase, a model's layers are not",
          "[collector]") {
  const auto phases_of = [](uint64_t count, uint32_t source = GPUPEAK_PHASE_NVTX) {
    LogBuilder log;
    uint64_t time = 0;
    for (uint64_t i = 0; i < count; ++i) {
      log.phase_push(0, ++time, false, log.string("step " + std::to_string(i)), source);
      log.device_alloc(0, ++time, i + 1, GPUPEAK_KIND_LINEAR, 0, 10 + i);
      log.phase_pop(0, ++time, false);
    }
    return analyze_log(log).phases;
  };
  CHECK(phases_of(16).size() == 16);
  CHECK(phases_of(100, GPUPEAK_PHASE_API).size() == 100);  // the program's own words
  const std::vector<PhaseSummary> folded = phases_of(3000);
  REQUIRE(folded.size() == 1);
  CHECK(folded[0].name == "step …");
  CHECK(folded[0].name_count == 3000);
  CHECK(folded[0].count == 3000);
  CHECK(value(folded[0].metrics, "device.alloc_count") == 3000);
  REQUIRE(folded[0].instances.size() == 1);
  CHECK(folded[0].instances[0].last == 3000);
  CHECK_FALSE(folded[0].instances[0].alike);
}

TEST_CASE("phases: a library's domain is one row under each phase once it has many rows in all",
          "[collector]") {
  const auto rows_of = [](uint32_t modules, uint64_t domain) {
    std::vector<ListedPhase> listed;
    for (uint32_t module = 0; module < modules; ++module) {
      const auto parent = static_cast<uint32_t>(listed.size());
      const std::string letters{static_cast<char>('a' + module / 26),
                                static_cast<char>('a' + module % 26)};
      for (const char* name : {"", "fold", "fuse", "lower"}) {
        ListedPhase& phase = listed.emplace_back();
        phase.phase.name = "XLA:" + letters + name;
        phase.phase.source = "nvtx";
        phase.phase.depth = *name != 0 ? 1 : 0;
        phase.phase.count = 1;
        if (*name != 0) phase.parent = parent;
        phase.domain = domain;
      }
    }
    return fold_phase_names(std::move(listed));
  };
  CHECK(rows_of(20, 7).size() == 20 + 60);  // 60 passes: each has its row
  const std::vector<PhaseSummary> folded = rows_of(30, 7);
  REQUIRE(folded.size() == 30 + 30);
  CHECK(folded[1].name == "XLA:…");
  CHECK(folded[1].name_count == 3);
  CHECK(rows_of(30, 0).size() == 30 * 4);  // the program's own
}

TEST_CASE("phases: a library's own mark is never the phase of a peak, a domain of the program is",
          "[collector]") {
  const auto phase_of_peak = [](const char* domain_name) {
    LogBuilder log;
    const uint32_t step = log.string("step"), pass = log.string("pass");
    const uint32_t domain = log.string(domain_name);
    log.phase_push(0, 1, false, step);
    log.event(0, 2, GPUPEAK_REC_PHASE_PUSH, Fields().u(0).u(GPUPEAK_PHASE_NVTX).u(pass).u(domain));
    log.device_alloc(0, 3, 1, GPUPEAK_KIND_LINEAR, 0, 100);
    const Summary summary = analyze_log(log);
    return summary.find_peak("device:0")->phase.value_or("");
  };
  CHECK(phase_of_peak("TSL") == "step");
  CHECK(phase_of_peak("nccl") == "step");
  CHECK(phase_of_peak("Trainer") == "Trainer:pass");
}

TEST_CASE("phases: those of a library can be left out, what lies within them stays",
          "[collector]") {
  LogBuilder log;
  const uint32_t step = log.string("step"), pass = log.string("pass"), user = log.string("user");
  const uint32_t library = log.string("TSL"), program = log.string("Trainer");
  const auto push = [&](uint64_t ticks, uint32_t name, uint32_t domain) {
    log.event(0, ticks, GPUPEAK_REC_PHASE_PUSH,
              Fields().u(0).u(GPUPEAK_PHASE_NVTX).u(name).u(domain));
  };
  log.phase_push(0, 1, false, step);
  push(2, pass, library);
  push(3, user, program);
  log.device_alloc(0, 4, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  const Summary all = analyze_log(log);
  const Summary few = analyze_log(log, {.all_tables = false});
  const auto names = [](const Summary& summary) {
    std::vector<std::string> found;
    for (const PhaseSummary& phase : summary.phases)
      found.push_back(phase.parent.value_or("") + "/" + phase.name);
    return found;
  };
  CHECK(names(all) == std::vector<std::string>{"/step", "step/TSL:pass", "TSL:pass/Trainer:user"});
  CHECK(names(few) == std::vector<std::string>{"/step", "step/Trainer:user"});
  REQUIRE(all.phases.size() == 3);
  REQUIRE(few.phases.size() == 2);
  CHECK(few.phases[1].metrics == all.phases[2].metrics);
  CHECK(few.find_peak("device:0")->phase == all.find_peak("device:0")->phase);
}
