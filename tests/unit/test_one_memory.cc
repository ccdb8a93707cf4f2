// Where device and host have one memory: what counts into which sum, from logs made by hand.
#include <optional>
#include <string>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// 10 MiB of the heap, 20 of the device and 40 managed, of which no two are live at once but the
/// last.
Summary with_memory(std::optional<uint64_t> memory) {
  LogBuilder log;
  log.device(0, 1000 * kMiB, "", "Simulated", memory);
  log.alloc(0, 10, 0x1000, 10 * kMiB);
  log.device_alloc(0, 20, 1, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB);
  log.device_free(0, 30, 1);
  log.device_alloc(0, 40, 2, GPUPEAK_KIND_MANAGED, 0, 40 * kMiB);
  const TemporaryFile file;
  return analyze(log.save(file.path()), Options());
}

uint64_t peak(const Summary& summary, const std::string& scope) {
  const Peak* found = summary.find_peak(scope);
  return found != nullptr ? found->bytes : 0;
}

}  // namespace

TEST_CASE("one memory: managed memory is in the total where it can lie nowhere else",
          "[collector]") {
  const Summary one = with_memory(GPUPEAK_MEMORY_KNOWN | GPUPEAK_MEMORY_INTEGRATED);
  CHECK(peak(one, "total") == 50 * kMiB);
  CHECK(peak(one, "device:0") == 20 * kMiB);
  CHECK(peak(one, "host") == 10 * kMiB);
  REQUIRE(one.devices.front().memory);
  CHECK(one.devices.front().memory->integrated);
  CHECK_FALSE(one.devices.front().memory->pageable_access);
}

TEST_CASE("one memory: a card of its own leaves managed memory out of all sums", "[collector]") {
  const Summary apart =
      with_memory(GPUPEAK_MEMORY_KNOWN | GPUPEAK_MEMORY_PAGEABLE | GPUPEAK_MEMORY_HOST_PAGE_TABLES);
  CHECK(peak(apart, "total") == 30 * kMiB);
  REQUIRE(apart.devices.front().memory);
  CHECK(apart.devices.front().memory->host_page_tables);
  CHECK_FALSE(apart.devices.front().is_integrated());
}

TEST_CASE("one memory: an older log does not say whose memory it is", "[collector]") {
  const Summary old = with_memory({});
  CHECK_FALSE(old.devices.front().memory);
  CHECK(peak(old, "total") == 30 * kMiB);
}

TEST_CASE("one memory: what the host frees of it is a row of the ledger", "[collector]") {
  LogBuilder log;
  log.device(0, 1000 * kMiB, "", "Simulated", GPUPEAK_MEMORY_KNOWN | GPUPEAK_MEMORY_INTEGRATED);
  log.alloc(0, 1, 0x1000, 30 * kMiB);
  log.driver_reading(0, 2, {.used = 100 * kMiB, .source = GPUPEAK_READING_CUDA});
  log.free(0, 3, 0x1000);
  log.driver_reading(0, 4, {.used = 60 * kMiB, .source = GPUPEAK_READING_CUDA});
  log.alloc(0, 5, 0x1000, 8 * kMiB);
  const TemporaryFile file;
  const Summary summary = analyze(log.save(file.path()), Options());
  REQUIRE(summary.devices.front().ledger);
  const LedgerView& view = summary.devices.front().ledger->at_exit;
  int64_t host = 0, unexplained = 0;
  for (const LedgerRow& row : view.rows) {
    if (row.cause == "host") host = row.bytes;
    if (row.cause == "unexplained") unexplained = row.bytes;
  }
  // It had 30 of it: more than that nobody saw it give back.
  CHECK(host == -30 * static_cast<int64_t>(kMiB));
  CHECK(unexplained == -10 * static_cast<int64_t>(kMiB));
}
