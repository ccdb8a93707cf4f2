// Phases as deep as a program that never ends one makes them.
#include <algorithm>
#include <vector>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/replay/phase_tree.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

TEST_CASE("phases: tens of thousands within each other are closed in time", "[collector]") {
  LogBuilder log;
  const uint32_t name = log.string("deep");
  constexpr uint64_t kDepth = 60'000;
  for (uint64_t i = 1; i <= kDepth; ++i) log.phase_push(0, i, false, name);
  log.device_alloc(0, kDepth + 1, 1, GPUPEAK_KIND_LINEAR, 0, 10);
  for (uint64_t i = 1; i <= kDepth; ++i) log.phase_pop(0, kDepth + 1 + i, false);
  const TemporaryFile file;
  const Summary summary = analyze(log.save(file.path()), {});
  CHECK(summary.phases.size() == kDepth);
  // 60 000 squared is more than is added up: what was kept is not known then, what is live is.
  CHECK_FALSE(metric(summary.phases[0].metrics, "device.kept_bytes").has_value());
  CHECK(metric(summary.phases[0].metrics, "device.live_at_exit_bytes") == 10);
}

TEST_CASE(
    "phases: beyond a hundred thousand different ones, later ones count for those around them",
    "[collector]") {
  LogBuilder log;
  const uint32_t name = log.string("deep"), last = log.string("last");
  constexpr uint64_t kDepth = PhaseTree::kMostPhases + 5000;
  uint64_t time = 0;
  log.phase_push(0, ++time, false, last);
  log.phase_pop(0, ++time, false);
  for (uint64_t i = 1; i <= kDepth; ++i) log.phase_push(0, ++time, false, name);
  log.device_alloc(0, ++time, 1, GPUPEAK_KIND_LINEAR, 0, 10);
  for (uint64_t i = 1; i <= kDepth; ++i) log.phase_pop(0, ++time, false);
  log.phase_push(0, ++time, false, last);  // one that is known
  log.device_alloc(0, ++time, 2, GPUPEAK_KIND_LINEAR, 0, 5);
  log.phase_pop(0, ++time, false);
  const TemporaryFile file;
  const Summary summary = analyze(log.save(file.path()), {});
  CHECK(summary.phases.size() < PhaseTree::kMostPhases);
  CHECK(metric(summary.metrics, "device.peak_bytes") == 15);
  const std::vector<Warning>& warnings = summary.quality.warnings;
  const auto warns_of = [&](WarningCode code) {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const Warning& warning) { return warning.code == code; });
  };
  CHECK(warns_of(WarningCode::kTooManyPhases));
  CHECK_FALSE(warns_of(WarningCode::kUnbalancedPhases));
  CHECK(metric(summary.phases[0].metrics, "device.peak_bytes") == 15);
}
