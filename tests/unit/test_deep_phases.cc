// Phases as deep as a program that never ends one makes them.
#include "catch.h"
#include "collector/analyze/analyze.h"
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
