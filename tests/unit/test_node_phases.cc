// The nodes of ONNX Runtime's profiles as phases, seen through analyze().
#include <unistd.h>

#include <sstream>
#include <string>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kMicrosecond = 1000;

/// A log with one run of session 1, from 10 to 90 us in thread 100, and a profile whose clock began
/// at 5 us.
struct MarkedRun {
  TemporaryFile profile{".json"}, file;
  LogBuilder log;
  std::string lines;

  MarkedRun() { log.header().pid = 77; }
  void node(const std::string& name, uint64_t begin_us, uint64_t long_us, uint32_t tid = 100) {
    lines += R"({"cat" : "Node","pid" :77,"tid" :)" + std::to_string(tid) + R"(,"dur" :)" +
             std::to_string(long_us) + R"(,"ts" :)" + std::to_string(begin_us) +
             R"(,"ph" : "X","name" :")" + name +
             R"(_kernel_time","args" : {"provider" : "P","op_name" : "Op"}},)" + "\n";
  }
  Summary analyze_with(const std::string& fact_session = "1") {
    const std::string text = "[\n" + lines + "]\n";
    profile.write({text.begin(), text.end()});
    const uint64_t zero = log.header().start_monotonic_ns + 5 * kMicrosecond;
    log.fact("ort.profile", fact_session + " " + std::to_string(zero) + " 50 " + profile.path());
    return analyze(log.save(file.path()), {});
  }
  void push(uint32_t slot, uint64_t us, const char* name, uint64_t session) {
    const Fields fields = Fields().u(0).u(GPUPEAK_PHASE_ORT).u(log.string(name)).u(session).u(0);
    log.event(slot, us * kMicrosecond, GPUPEAK_REC_PHASE_PUSH, fields);
  }
  void pop(uint32_t slot, uint64_t us, uint64_t session) {
    const Fields fields = Fields().u(0).u(GPUPEAK_PHASE_ORT).u(session);
    log.event(slot, us * kMicrosecond, GPUPEAK_REC_PHASE_POP, fields);
  }
  void alloc(uint32_t slot, uint64_t us, uint64_t bytes) {
    static uint64_t address = 0;
    log.alloc(slot, us * kMicrosecond, address += 1 << 20, bytes);
  }
};

const PhaseSummary* find(const Summary& summary, std::string_view name) {
  for (const PhaseSummary& phase : summary.phases) {
    if (phase.name == name) return &phase;
  }
  return nullptr;
}

uint64_t allocs(const PhaseSummary& phase) {
  return metric(phase.metrics, "host.alloc_count").value_or(0);
}

std::string said(const Summary& summary) {
  std::string all;
  for (const Warning& warning : summary.quality.warnings) {
    if (warning.code == WarningCode::kNodesWithoutPhase) all += warning.message + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("node phases: a node has what its thread allocates between its times", "[collector]") {
  MarkedRun run;
  run.node("outer", 10, 40);  // from 15 to 55 us of the log, and two more
  run.node("inner", 20, 10);  // from 25 to 35, likewise
  run.node("short", 60, 1);
  run.push(0, 10, "run", 1);
  run.alloc(0, 14, 1);
  run.alloc(0, 15, 1);
  run.alloc(0, 25, 1);
  run.alloc(0, 34, 1);
  run.alloc(0, 35, 1);
  run.alloc(0, 55, 1);
  run.pop(0, 90, 1);
  const Summary summary = run.analyze_with();
  const PhaseSummary *outer = find(summary, "outer (Op)"), *inner = find(summary, "inner (Op)");
  REQUIRE(outer != nullptr);
  REQUIRE(inner != nullptr);
  CHECK(outer->source == "node");
  CHECK(outer->parent == "run");
  CHECK(outer->session == 1);
  CHECK(inner->parent == "outer (Op)");
  CHECK(allocs(*outer) == 2);
  CHECK(allocs(*inner) == 3);
  CHECK(outer->open_ns == 42 * static_cast<int64_t>(kMicrosecond));
  CHECK(allocs(*find(summary, "run")) == 1);
  CHECK(find(summary, "short (Op)") == nullptr);
  CHECK(said(summary).find("1 of 3 node runs that are shorter") != std::string::npos);
}

TEST_CASE("node phases: only while the session runs, and in a helper's thread, too",
          "[collector]") {
  MarkedRun run;
  run.node("helped", 20, 10, 101);  // thread 101, in no call
  run.node("early", 1, 2);
  run.node("late", 86, 3);
  run.alloc(0, 1, 1);
  run.alloc(1, 1, 1);
  run.push(0, 10, "run", 1);
  run.alloc(1, 26, 1);
  run.pop(0, 90, 1);
  run.push(0, 91, "run", 2);  // another session's
  run.alloc(0, 92, 1);
  run.pop(0, 99, 2);
  const Summary summary = run.analyze_with();
  const PhaseSummary* helped = find(summary, "helped (Op)");
  REQUIRE(helped != nullptr);
  CHECK(allocs(*helped) == 1);
  CHECK(helped->parent == std::nullopt);
  CHECK(find(summary, "early (Op)") == nullptr);
  CHECK(find(summary, "late (Op)") == nullptr);
  CHECK(said(summary).find("2 of 3 node runs") != std::string::npos);
}

TEST_CASE("node phases: what overlaps on one thread is left out", "[collector]") {
  MarkedRun run;
  run.node("first", 10, 20);
  run.node("across", 20, 30);
  run.node("by a microsecond", 25, 6);
  run.push(0, 10, "run", 1);
  run.alloc(0, 32, 1);
  run.pop(0, 90, 1);
  const Summary summary = run.analyze_with();
  CHECK(find(summary, "across (Op)") == nullptr);
  const PhaseSummary* cut = find(summary, "by a microsecond (Op)");
  REQUIRE(cut != nullptr);
  CHECK(allocs(*cut) == 1);
  CHECK(cut->open_ns == 7 * static_cast<int64_t>(kMicrosecond));
  CHECK(said(summary).find("1 node runs that overlap") != std::string::npos);
}

TEST_CASE("node phases: facts that make no sense, and a profile that is not there", "[collector]") {
  for (const char* fact : {"", "1", "1 2", "x 2 3 /tmp/a", "1 99999999999999999999 3 /tmp/a"}) {
    MarkedRun run;
    run.log.fact("ort.profile", fact);
    const Summary summary = analyze(run.log.save(run.file.path()), {});
    INFO(fact);
    CHECK(said(summary).find("make no sense") != std::string::npos);
  }
  MarkedRun run;
  run.log.fact("ort.profile", "1 2000000 50 /nowhere/at/all.json");
  run.log.fact("ort.profile.off", "session 2: its clock is not known");
  const Summary summary = analyze(run.log.save(run.file.path()), {});
  CHECK(said(summary).find("/nowhere/at/all.json is empty or cannot be read") != std::string::npos);
  CHECK(said(summary).find("session 2: its clock is not known") != std::string::npos);
}

TEST_CASE("node phases: a table has the nodes that hold most, and is as wide as these need",
          "[collector]") {
  MarkedRun run;
  const std::string light =
      "a node with a name so long that no table of the others would be as wide";
  run.node("heavy", 10, 10);
  run.node(light, 40, 10);
  run.push(0, 10, "run", 1);
  run.alloc(0, 20, 1 << 20);
  run.alloc(0, 50, 16);
  run.pop(0, 90, 1);
  const Summary summary = run.analyze_with();
  REQUIRE(find(summary, light + " (Op)") != nullptr);
  std::ostringstream out;
  write_phases(summary, out, {});
  const std::string text = out.str();
  CHECK(text.find("heavy (Op)") != std::string::npos);
  CHECK(text.find("so long") == std::string::npos);
  CHECK(text.find("1 more nodes, which hold less") != std::string::npos);
  const size_t head = text.find("\nphase ");
  REQUIRE(head != std::string::npos);
  CHECK(text.find("time", head) - head < light.size());
}
