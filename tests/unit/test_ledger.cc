// What the driver's figure of memory in use is made of, from logs made by hand.
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/summary/run_text.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kContext = 500 * kMiB;
constexpr uint64_t kTotal = 80'000 * kMiB;
constexpr uint64_t kPool = 0x7000;

int64_t row(const LedgerView& view, std::string_view cause) {
  for (const LedgerRow& row : view.rows) {
    if (row.cause == cause) return row.bytes;
  }
  return 0;
}

int64_t sum(const LedgerView& view) {
  auto sum = static_cast<int64_t>(view.tracked_bytes);
  for (const LedgerRow& row : view.rows) sum += row.bytes;
  return sum;
}

/// A device with a context, before any memory is handed out.
LogBuilder with_context() {
  LogBuilder log;
  log.device(0, kTotal, "", "NVIDIA H100");
  log.driver_reading(0, 1, {.used = 3 * kMiB});
  log.device_event(0, 2, GPUPEAK_REC_CONTEXT, Fields().u(1).u(1).u(GPUPEAK_CONTEXT_CREATED));
  log.driver_reading(0, 3, {.used = 3 * kMiB + kContext, .cause = GPUPEAK_LEDGER_CONTEXT});
  return log;
}

/// `free` bytes are what the driver then still has.
void fail(LogBuilder& log, uint64_t time, uint64_t bytes, uint64_t live, uint64_t free) {
  const uint32_t api = log.string("cuMemAlloc_v2");
  log.device_event(0, time, GPUPEAK_REC_DEVICE_FAILED,
                   Fields()
                       .u(GPUPEAK_KIND_LINEAR)
                       .u(1)
                       .u(bytes)
                       .u(2)
                       .u(live)
                       .u(free + 1)
                       .u(kTotal + 1)
                       .u(api)
                       .u(0));
}

void allocate_from_pool(LogBuilder& log, uint64_t time, uint64_t id, uint64_t bytes) {
  log.device_event(
      0, time, GPUPEAK_REC_DEVICE_ALLOC,
      Fields().u(id).u(GPUPEAK_KIND_POOL).u(1).u(id << 32).u(bytes).u(0).u(0).u(0).u(kPool));
}

void pool_event(LogBuilder& log, uint64_t time, gpupeak_pool_event event, uint64_t reserved) {
  log.device_event(0, time, GPUPEAK_REC_POOL, Fields().u(kPool).u(1).u(reserved).u(0).u(event));
}

}  // namespace

TEST_CASE("ledger: a peak without a reading is carried on from the last one", "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_LINEAR, 0, 46 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, {.used = 551 * kMiB});
  log.device_alloc(0, 3 * kOneSecond, 2, GPUPEAK_KIND_LINEAR, 0, 335 * kMiB);
  log.driver_reading(0, 4 * kOneSecond, {.used = 887 * kMiB, .uncertain = true});
  log.device_free(0, 5 * kOneSecond, 2);
  log.driver_reading(0, 6 * kOneSecond, {.used = 551 * kMiB});
  const Summary summary = analyze_log(log);
  const LedgerView& view = summary.devices.at(0).ledger->at_peak;
  CHECK(view.tracked_bytes == 381 * kMiB);
  CHECK(view.used_bytes == 887 * kMiB);
  CHECK(view.read_ns == view.time_ns - int64_t{kOneSecond});
  CHECK(row(view, "rounding") == static_cast<int64_t>(3 * kMiB));
  CHECK(row(view, "unexplained") == 0);
  CHECK(sum(view) == static_cast<int64_t>(887 * kMiB));
  CHECK(ledger_nearness_text(view, summary.find_peak("device:0"), TextStyle()) ==
        "at the peak, +3.00 s, by what was read 1.0 s before and handed out since");
  std::ostringstream text;
  write_text(summary, text);
  CHECK(text.str().find("by what was read 1.0 s before") != std::string::npos);
}

TEST_CASE("ledger: a reading at the peak is taken as it is", "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_LINEAR, 0, 46 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, {.used = 551 * kMiB});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_peak;
  CHECK(view.used_bytes == 551 * kMiB);
  CHECK_FALSE(view.read_ns);
}

TEST_CASE("ledger: before the first reading nothing is carried on", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_LINEAR, 0, 46 * kMiB);
  log.device_free(0, 2 * kOneSecond, 1);
  log.driver_reading(0, 3 * kOneSecond, {.used = 503 * kMiB});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_peak;
  CHECK(view.tracked_bytes == 0);
  CHECK_FALSE(view.read_ns);
}

TEST_CASE("ledger: a failed allocation has the exact ledger of its instant", "[collector]") {
  LogBuilder log = with_context();
  for (uint64_t i = 0; i < 78; ++i)
    log.device_alloc(0, kOneSecond + i, 1 + i, GPUPEAK_KIND_VMM, 0, 1000 * kMiB);
  const uint64_t used = 3 * kMiB + kContext + 78'000 * kMiB;
  fail(log, 2 * kOneSecond, 2000 * kMiB, 78'000 * kMiB, kTotal - used);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.oom.size() == 1);
  REQUIRE(summary.oom[0].ledger);
  for (const LedgerView& view : {*summary.oom[0].ledger, summary.devices.at(0).ledger->at_peak}) {
    CHECK(view.used_bytes == used);
    CHECK(view.tracked_bytes == 78'000 * kMiB);
    CHECK(row(view, "context") == static_cast<int64_t>(kContext));
    CHECK(row(view, "unexplained") == 0);
    CHECK(sum(view) == static_cast<int64_t>(used));
    CHECK(ledger_nearness_text(view, summary.find_peak("device:0"), TextStyle()) ==
          "when an allocation failed, +2.00 s");
  }
}

TEST_CASE("ledger: a bracket that is open while an allocation fails keeps its bytes",
          "[collector]") {
  LogBuilder log = with_context();
  const uint64_t before = 3 * kMiB + kContext;
  fail(log, kOneSecond, kTotal, 0, kTotal - before - 6 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, {.used = before + 6 * kMiB, .cause = GPUPEAK_LEDGER_CODE});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(row(view, "code") == static_cast<int64_t>(6 * kMiB));
  CHECK(row(view, "unexplained") == 0);
}

TEST_CASE("ledger: managed memory explains no more than there is of it", "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_MANAGED, 0, 3 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, {.used = 3 * kMiB + kContext + 234 * kMiB});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(row(view, "managed") <= static_cast<int64_t>(6 * kMiB));
  CHECK(row(view, "managed") + row(view, "unexplained") == static_cast<int64_t>(234 * kMiB));
}

TEST_CASE("ledger: a pool destroyed with live blocks keeps its memory until they are freed",
          "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_MANAGED, 0, 300 * kMiB);
  pool_event(log, kOneSecond + 1, GPUPEAK_POOL_CREATED, 0);
  allocate_from_pool(log, kOneSecond + 2, 2, 200 * kMiB);
  pool_event(log, kOneSecond + 3, GPUPEAK_POOL_READ, 234 * kMiB);
  const uint64_t used = 3 * kMiB + kContext + 234 * kMiB;
  log.driver_reading(0, 2 * kOneSecond, {.used = used});
  pool_event(log, 3 * kOneSecond, GPUPEAK_POOL_DESTROYED, 0);
  log.driver_reading(0, 4 * kOneSecond, {.used = used});
  {
    LogBuilder until_here = log;
    const LedgerView view = analyze_log(until_here).devices.at(0).ledger->at_exit;
    CHECK(row(view, "managed") == 0);
    CHECK(row(view, "unexplained") == 0);
    CHECK(row(view, "pool_slack") == static_cast<int64_t>(34 * kMiB));
  }
  // A new pool may have the old one's handle.
  pool_event(log, 5 * kOneSecond, GPUPEAK_POOL_CREATED, 0);
  log.device_free(0, 6 * kOneSecond, 2);
  log.driver_reading(0, 7 * kOneSecond, {.used = 3 * kMiB + kContext});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(row(view, "managed") == 0);
  CHECK(row(view, "unexplained") == 0);
  CHECK(row(view, "pool_slack") == 0);
}

TEST_CASE("ledger: a block of nearly 2 MiB shares its page with small ones", "[collector]") {
  constexpr uint64_t kPage = 0x7fd673e00000;  // as on an H200
  PageCount pages;
  pages.count(kPage, 4000, true);
  pages.count(kPage + 0x1000, 2'000'000, true);
  CHECK(pages.bytes() == 2 * kMiB);
  pages.count(kPage + 4 * kMiB, 40 * kMiB, true);
  CHECK(pages.bytes() == 42 * kMiB);
  pages.count(kPage, 4000, false);
  CHECK(pages.bytes() == 42 * kMiB);
  pages.count(kPage + 0x1000, 2'000'000, false);
  CHECK(pages.bytes() == 40 * kMiB);
}

TEST_CASE("ledger: no row is more than all of it", "[collector]") {
  LedgerView view;
  view.used_bytes = 3 * kMiB;
  CHECK(ledger_percent(view, 3 * kMiB) == "100.0");
  CHECK(ledger_percent(view, 500 * kMiB) == "–");
}

namespace {

/// What NVML lists: this process has `own`, another one the rest.
DriverReading listed(uint64_t own, uint64_t others,
                     gpupeak_ledger_cause cause = GPUPEAK_LEDGER_NONE) {
  return {.used = 3 * kMiB + own + others,
          .cause = cause,
          .own = own,
          .others = others,
          .processes = {{.pid = 17883, .name = 0, .bytes = others}}};
}

/// Another process has 2 GiB before the first context, and 7 GiB after.
LogBuilder beside_another() {
  LogBuilder log;
  log.device(0, kTotal, "", "NVIDIA H100");
  log.driver_reading(0, 1, {.used = 3 * kMiB + 2048 * kMiB, .others = 2048 * kMiB});
  log.device_event(0, 2, GPUPEAK_REC_CONTEXT, Fields().u(1).u(1).u(GPUPEAK_CONTEXT_CREATED));
  log.driver_reading(0, 3, listed(kContext, 7168 * kMiB, GPUPEAK_LEDGER_CONTEXT));
  return log;
}

}  // namespace

TEST_CASE("ledger: what others do on the card changes no row", "[collector]") {
  LogBuilder log = beside_another();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, listed(kContext + 300 * kMiB, 0));
  log.driver_reading(0, 3 * kOneSecond,
                     listed(kContext + 320 * kMiB, 5600 * kMiB, GPUPEAK_LEDGER_CODE));
  const Summary summary = analyze_log(log);
  const LedgerView& view = summary.devices.at(0).ledger->at_exit;
  CHECK(view.of_process);
  CHECK(view.used_bytes == kContext + 320 * kMiB);
  CHECK(view.card_used_bytes == 5603 * kMiB + view.used_bytes);
  CHECK(row(view, "context") == static_cast<int64_t>(kContext));
  CHECK(row(view, "code") == static_cast<int64_t>(20 * kMiB));
  CHECK(row(view, "start") + row(view, "unexplained") == 0);
  CHECK(sum(view) == static_cast<int64_t>(view.used_bytes));
  CHECK(ledger_sum_text(view, 0, TextStyle())
            .ends_with("; others 5.47 GiB: pid 17883 5.47 GiB; in all 6.27 GiB of the card"));
}

TEST_CASE("ledger: a reading without the list is right if the next list says so", "[collector]") {
  const uint64_t others = GENERATE(7168 * kMiB, 8000 * kMiB);
  LogBuilder log = beside_another();
  log.driver_reading(0, kOneSecond,
                     {.used = 7171 * kMiB + kContext + 20 * kMiB, .cause = GPUPEAK_LEDGER_CODE});
  log.driver_reading(
      0, 2 * kOneSecond,
      {.used = others + 3 * kMiB + kContext + 50 * kMiB, .cause = GPUPEAK_LEDGER_STREAMS});
  log.driver_reading(0, 3 * kOneSecond, listed(kContext + 50 * kMiB, others));
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  const bool right = others == 7168 * kMiB;
  CHECK(row(view, "code") == static_cast<int64_t>(right ? 20 * kMiB : 0));
  CHECK(row(view, "streams") == static_cast<int64_t>(right ? 30 * kMiB : 0));
  CHECK(row(view, "several") == static_cast<int64_t>(right ? 0 : 50 * kMiB));
  CHECK(row(view, "unexplained") == 0);
}

TEST_CASE("ledger: once others have moved no reading without the list is used", "[collector]") {
  LogBuilder log = beside_another();
  log.driver_reading(0, kOneSecond, listed(kContext, 1024 * kMiB));
  // It comes and goes between two lists.
  log.driver_reading(0, 2 * kOneSecond,
                     {.used = 2051 * kMiB + kContext, .cause = GPUPEAK_LEDGER_CODE});
  log.driver_reading(0, 3 * kOneSecond,
                     {.used = 1047 * kMiB + kContext, .cause = GPUPEAK_LEDGER_STREAMS});
  log.driver_reading(0, 4 * kOneSecond, listed(kContext + 20 * kMiB, 1024 * kMiB));
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(row(view, "several") == static_cast<int64_t>(20 * kMiB));
  CHECK(row(view, "code") + row(view, "streams") == 0);
  CHECK(row(view, "unexplained") == 0);
}

TEST_CASE("ledger: what others took before a last reading without the list is in no row",
          "[collector]") {
  const uint64_t others = GENERATE(8448 * kMiB, 5888 * kMiB);  // 1280 MiB more, or less
  LogBuilder log = beside_another();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, listed(kContext + 300 * kMiB, 7168 * kMiB));
  log.device_free(0, 3 * kOneSecond, 1);
  log.driver_reading(0, 4 * kOneSecond, {.used = 3 * kMiB + kContext + others});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(view.of_process);
  CHECK(view.used_bytes == kContext);
  CHECK(view.tracked_bytes == 0);
  CHECK(row(view, "context") == static_cast<int64_t>(kContext));
  CHECK(row(view, "unexplained") == 0);
  CHECK(view.read_ns.has_value());
}

TEST_CASE("ledger: the curve has none of what others took between two lists", "[collector]") {
  LogBuilder log = beside_another();
  log.driver_reading(0, kOneSecond, {.used = 9000 * kMiB + kContext});
  log.driver_reading(0, 2 * kOneSecond, listed(kContext + 10 * kMiB, 7168 * kMiB));
  uint64_t highest = 0;
  const Summary summary = analyze_log(log);
  for (const auto& [time_ns, used] : summary.devices.at(0).ledger->readings)
    highest = std::max(highest, used);
  CHECK(highest == kContext + 10 * kMiB);
}

TEST_CASE("ledger: who comes and goes between two lists is in no row", "[collector]") {
  // Whether it has gone by the next list, or before, between calls or during one.
  const auto cause = GENERATE(GPUPEAK_LEDGER_LIMIT, GPUPEAK_LEDGER_NONE, GPUPEAK_LEDGER_STREAMS,
                              GPUPEAK_LEDGER_CODE);
  LogBuilder log;
  log.device(0, kTotal, "", "NVIDIA H100");
  log.driver_reading(0, 1, {.used = 3 * kMiB, .others = 0});
  log.device_event(0, 2, GPUPEAK_REC_CONTEXT, Fields().u(1).u(1).u(GPUPEAK_CONTEXT_CREATED));
  log.driver_reading(0, 3, listed(kContext, 0, GPUPEAK_LEDGER_CONTEXT));
  log.device_alloc(0, 4, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  const uint64_t own = kContext + 300 * kMiB;
  log.driver_reading(0, kOneSecond,
                     {.used = 3 * kMiB + own + 1868 * kMiB, .cause = GPUPEAK_LEDGER_STREAMS});
  if (cause != GPUPEAK_LEDGER_LIMIT)
    log.driver_reading(0, 2 * kOneSecond, {.used = 3 * kMiB + own + 20 * kMiB, .cause = cause});
  log.driver_reading(0, 3 * kOneSecond, listed(own + 20 * kMiB, 0));
  const DeviceLedgerSummary ledger = *analyze_log(log).devices.at(0).ledger;
  for (const LedgerView& view : {ledger.at_peak, ledger.at_exit}) {
    CHECK(view.of_process);
    CHECK(row(view, "streams") + row(view, "code") + row(view, "several") ==
          static_cast<int64_t>(20 * kMiB));
    if (cause != GPUPEAK_LEDGER_CODE) CHECK(row(view, "several") == 0);
    CHECK(row(view, "unexplained") == 0);
    CHECK(sum(view) == static_cast<int64_t>(view.used_bytes));
  }
}

TEST_CASE("ledger: who goes between two lists takes nothing along", "[collector]") {
  LogBuilder log = beside_another();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  log.driver_reading(0, 2 * kOneSecond,
                     {.used = 3 * kMiB + kContext + 300 * kMiB, .cause = GPUPEAK_LEDGER_STREAMS});
  log.driver_reading(0, 3 * kOneSecond, listed(kContext + 302 * kMiB, 0, GPUPEAK_LEDGER_STREAMS));
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(view.of_process);
  CHECK(row(view, "context") == static_cast<int64_t>(kContext));
  CHECK(row(view, "streams") == static_cast<int64_t>(2 * kMiB));
  CHECK(row(view, "unexplained") == 0);
}

TEST_CASE("ledger: where others move and no list tells, differences are not rows", "[collector]") {
  LogBuilder log = with_context();
  log.driver_reading(0, kOneSecond, {.used = 3 * kMiB + kContext + 2048 * kMiB});
  const bool in_a_call = GENERATE(true, false);
  log.driver_reading(0, 2 * kOneSecond,
                     {.used = 3 * kMiB + kContext - (in_a_call ? 0 : 100 * kMiB),
                      .cause = in_a_call ? GPUPEAK_LEDGER_CODE : GPUPEAK_LEDGER_NONE});
  log.device_alloc(0, 3 * kOneSecond, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  log.driver_reading(0, 4 * kOneSecond, {.used = 3 * kMiB + kContext + 300 * kMiB});
  const Summary summary = analyze_log(log);
  const LedgerView& view = summary.devices.at(0).ledger->at_exit;
  REQUIRE(view.rows.size() == 1);
  CHECK(row(view, "others_and_context") == static_cast<int64_t>(3 * kMiB + kContext));
  CHECK(summary.devices.at(0).ledger->items.empty());
  CHECK(summary.devices.at(0).metrics.at("device.ledger.context_bytes") == std::nullopt);
}

TEST_CASE("ledger: what others take between two calls makes all differences one row",
          "[collector]") {
  LogBuilder log = with_context();
  log.driver_reading(0, kOneSecond, {.used = 3 * kMiB + kContext + 2048 * kMiB});
  log.driver_reading(0, 2 * kOneSecond,
                     {.used = 3 * kMiB + kContext + 4096 * kMiB, .cause = GPUPEAK_LEDGER_CODE});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  REQUIRE(view.rows.size() == 1);
  CHECK(row(view, "others_and_context") == static_cast<int64_t>(kContext + 4099 * kMiB));
}

TEST_CASE("ledger: an entry of the list that does not grow with our blocks is another's",
          "[collector]") {
  LogBuilder log = beside_another();
  log.device_alloc(0, kOneSecond, 1, GPUPEAK_KIND_VMM, 0, 300 * kMiB);
  log.driver_reading(0, 2 * kOneSecond, listed(kContext, 7468 * kMiB));
  log.driver_reading(0, 3 * kOneSecond, listed(kContext, 7488 * kMiB, GPUPEAK_LEDGER_CODE));
  const Summary summary = analyze_log(log);
  const LedgerView& view = summary.devices.at(0).ledger->at_exit;
  CHECK_FALSE(view.of_process);
  CHECK_FALSE(view.others_bytes);
  CHECK(row(view, "others_and_context") == static_cast<int64_t>(7191 * kMiB + kContext));
  CHECK(summary.devices.at(0).metrics.at("device.nvml_process.peak_bytes") == std::nullopt);
}

TEST_CASE("ledger: an entry that is found late has one row for what there was", "[collector]") {
  LogBuilder log = with_context();
  log.driver_reading(0, kOneSecond,
                     {.used = 1024 * kMiB + kContext + 20 * kMiB, .cause = GPUPEAK_LEDGER_CODE});
  log.driver_reading(0, 2 * kOneSecond, listed(kContext + 20 * kMiB, 2048 * kMiB));
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(view.of_process);
  CHECK(row(view, "context") == static_cast<int64_t>(kContext + 20 * kMiB));
  CHECK(row(view, "unexplained") == 0);
}

TEST_CASE("ledger: a context that ends gives back its code, too", "[collector]") {
  LogBuilder log = with_context();
  log.driver_reading(0, kOneSecond, {.used = 103 * kMiB + kContext, .cause = GPUPEAK_LEDGER_CODE});
  log.driver_reading(0, 2 * kOneSecond, {.used = 3 * kMiB, .cause = GPUPEAK_LEDGER_CONTEXT});
  const LedgerView view = analyze_log(log).devices.at(0).ledger->at_exit;
  CHECK(row(view, "context") == 0);
  CHECK(row(view, "code") == 0);
  CHECK(row(view, "unexplained") == 0);
  CHECK(row(view, "start") == static_cast<int64_t>(3 * kMiB));
}

TEST_CASE("ledger: at an allocation that fails it is said what others hold", "[collector]") {
  LogBuilder log = beside_another();
  fail(log, kOneSecond, 20'000 * kMiB, 0, 1000 * kMiB);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.oom.size() == 1);
  const LedgerView& view = summary.oom[0].ledger.value();
  CHECK(view.used_bytes == kContext);
  CHECK(view.others_bytes == kTotal - 1000 * kMiB - kContext - 3 * kMiB);
  CHECK(why_text(summary.oom[0], TextStyle())
            .starts_with("others hold 76.7 GiB of the card's 78.1 GiB: pid 17883 7.00 GiB; this "
                         "process holds 0;"));
  CHECK(row(view, "unexplained") == 0);
}
