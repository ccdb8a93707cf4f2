// Logs that are cut off, damaged or foreign: a clear error, or a consistent result and a warning.
#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/event.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// Every kind of record, in three slots and several chunks.
std::vector<uint8_t> make_log(size_t chunk_bytes) {
  LogBuilder log;
  log.set_chunk_bytes(chunk_bytes);
  log.fact("arg", "program");
  log.fact("host", "here");
  log.module("/nowhere/lib.so", "build", 0x10000, 0x10000, 0x10000);
  log.device(0, 1 << 30, std::string(16, 'u'), "GPU");
  const uint32_t name = log.string("phase");
  const uint32_t api = log.string("cuMemAlloc_v2");
  uint32_t stack = 0;
  for (uint64_t i = 0; i < 20; ++i) stack = log.node(i % 5 == 0 ? 0 : stack, 0x10010 + 16 * i);
  log.phase_push(0, 1, true, name, GPUPEAK_PHASE_AUTO);
  for (uint64_t i = 0; i < 60; ++i) {
    const uint64_t time = 10 + 10 * i;
    const auto slot = static_cast<uint32_t>(i % 3);
    log.alloc(slot, time, 0x1000 + 64 * i, 40 + i, stack, 8);
    if (i % 3 == 1) {
      log.realloc_begin(slot, time + 1, 0x1000 + 64 * i);
      log.realloc_end(slot, time + 2, 0x9000 + 64 * i, 80, stack);
    }
    if (i % 4 == 2) log.free(slot, time + 3, 0x1000 + 64 * (i - 1));
    if (i % 10 == 0) log.map(slot, time + 4, 0x7f0000000000 + (i << 12), 8192, 3);
    if (i % 10 == 5) log.unmap(slot, time + 4, 0x7f0000000000 + (i << 12), 4096);
    if (i % 6 == 0)
      log.device_alloc(slot, time + 5, i, GPUPEAK_KIND_LINEAR, 0, 1000 + i, api, stack);
    if (i % 6 == 3) log.device_free(slot, time + 5, i - 3);
    if (i == 30) log.phase_push(slot, time + 6, false, name);
    if (i == 33) log.phase_pop(slot, time + 6, false);
  }
  const Fields protect = Fields().u(0x7f0000000000).u(4096).u(0);
  log.event(0, 1000, GPUPEAK_REC_PROTECT, protect);
  log.event(0, 1001, GPUPEAK_REC_REMAP,
            Fields().u(0x7f000000a000).u(8192).u(0x7f1000000000).u(4096).u(stack));
  log.event(0, 1002, GPUPEAK_REC_SAMPLE, Fields().u(1 << 20).u(4096).u(0));
  log.event(0, 1003, GPUPEAK_REC_THREAD, Fields().u(777).s("worker"));
  log.event(0, 1004, 0xbf, Fields().u(1));  // of a newer writer
  log.device_event(0, 1005, GPUPEAK_REC_DEVICE_FAILED,
                   Fields().u(16).u(1).u(4096).u(2).u(100).u(11).u(0).u(api).u(stack));
  log.device_event(0, 1006, GPUPEAK_REC_DEVICE_UNKNOWN, Fields().u(0x123).u(api).u(stack));
  log.device_event(0, 1007, GPUPEAK_REC_POOL, Fields().u(0xa).u(1).u(100).u(50).u(2));
  log.device_event(0, 1008, GPUPEAK_REC_CONTEXT, Fields().u(0xc).u(1).u(0));
  log.realloc_begin(0, 1009, 0x1000);
  return log.bytes();
}

/// Reads and prints everything; the holders of each peak must add up whatever the log is like.
void read_all(const TemporaryFile& file) {
  const Summary summary = analyze(file.path());
  for (const Peak& peak : summary.peaks) {
    uint64_t sum = peak.other_bytes;
    for (const Holder& holder : peak.holders) sum += holder.bytes;
    REQUIRE(sum == peak.bytes);
  }
  std::ostringstream out;
  write_text(summary, out);
  write_short(summary, out);
  write_json(summary, out);
  write_dump(LogReader(file.path()), out);
}

std::string error_of(const TemporaryFile& file) {
  try {
    analyze(file.path());
  } catch (const LogError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("damage: a whole log has no complaint but what it says itself", "[collector]") {
  const TemporaryFile file;
  file.write(make_log(64 << 10));
  const Summary summary = analyze(file.path());
  CHECK(summary.quality.log_complete);
  CHECK(summary.quality.repairs == 0);
  CHECK(summary.quality.exact);
}

TEST_CASE("damage: a log cut at any byte is an error, or shorter and said to be", "[collector]") {
  const std::vector<uint8_t> whole = make_log(4096);
  const TemporaryFile file;
  uint64_t last_events = 0;
  // At each byte of the first few, then at every 37th and between all chunks.
  const auto step = [](size_t at) {
    return at < 64 ? 1 : std::min<size_t>(37, GPUPEAK_LOG_PAGE - at % GPUPEAK_LOG_PAGE);
  };
  for (size_t bytes = 0; bytes <= whole.size(); bytes += step(bytes)) {
    file.write({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)});
    INFO("cut at " << bytes);
    try {
      const Summary summary = analyze(file.path());
      REQUIRE(bytes >= 2 * GPUPEAK_LOG_PAGE);
      REQUIRE(summary.quality.events >= last_events);
      REQUIRE(summary.quality.log_complete == (bytes == whole.size()));
      last_events = summary.quality.events;
    } catch (const LogError& error) {
      REQUIRE(bytes < 2 * GPUPEAK_LOG_PAGE);
      REQUIRE(error.offset() <= bytes);
    }
  }
  CHECK(last_events > 0);
}

TEST_CASE("damage: a log of a killed process holds up to its last record", "[collector]") {
  LogBuilder log;
  log.counters().ended = 0;
  log.counters().exit_kind = GPUPEAK_EXIT_UNKNOWN;
  log.alloc(0, 1, 0x1000, 100);
  log.alloc(0, 2, 0x2000, 50);
  std::vector<uint8_t> bytes = log.bytes();
  bytes.resize(bytes.size() + (1 << 20));  // preallocated, never begun
  const TemporaryFile file;
  file.write(bytes);
  const Summary summary = analyze(file.path());
  CHECK_FALSE(summary.quality.log_complete);
  CHECK(summary.quality.exact);
  CHECK(summary.metrics.at("host.kind.heap.peak_bytes") == 150);
  CHECK(summary.log_bytes < 1 << 20);
  CHECK(summary.run.end.kind == ExitKind::kUnknown);
}

TEST_CASE("damage: a damaged chunk costs that chunk only", "[collector]") {
  LogBuilder log;
  for (uint64_t i = 0; i < 10; ++i) log.alloc(0, i, 0x1000 + 16 * i, 1);
  for (uint64_t i = 0; i < 10; ++i) log.alloc(1, i, 0x9000 + 16 * i, 1);
  std::vector<uint8_t> bytes = log.bytes();
  bytes[2 * GPUPEAK_LOG_PAGE + sizeof(gpupeak_chunk_header)] = 0x7f;  // no such tag
  const TemporaryFile file;
  file.write(bytes);
  const Summary summary = analyze(file.path());
  CHECK(summary.quality.events == 10);
  CHECK_FALSE(summary.quality.exact);
  CHECK_FALSE(summary.quality.log_complete);
}

TEST_CASE("damage: without the definitions' first chunk stacks are unknown, figures stand",
          "[collector]") {
  std::vector<uint8_t> bytes = make_log(64 << 10);
  memset(bytes.data() + 2 * GPUPEAK_LOG_PAGE, 0, GPUPEAK_LOG_PAGE);
  const TemporaryFile file;
  file.write(bytes);
  const TemporaryFile intact;
  intact.write(make_log(64 << 10));
  const Summary damaged = analyze(file.path());
  const Summary whole = analyze(intact.path());
  CHECK(damaged.metrics.at("host.peak_bytes") == whole.metrics.at("host.peak_bytes"));
  CHECK(damaged.metrics.at("device.peak_bytes") == whole.metrics.at("device.peak_bytes"));
}

TEST_CASE("damage: a sample size that nothing has makes no block larger than an address space",
          "[collector]") {
  LogBuilder log;
  log.header().host_mode = GPUPEAK_HOST_SAMPLED;
  log.header().sample_bytes = UINT64_MAX;
  log.alloc(0, 10, 0x1000, 40, 0);
  log.realloc_begin(0, 20, 0x1000);
  log.realloc_end(0, 30, 0x2000, 80, 0);
  const TemporaryFile file;
  file.write(log.bytes());
  const Summary summary = analyze(file.path());
  REQUIRE_FALSE(summary.peaks.empty());
  for (const Peak& peak : summary.peaks) CHECK(peak.bytes == kMaxBlockBytes);
  read_all(file);
}

TEST_CASE("damage: what is no log says so", "[collector]") {
  const TemporaryFile file;
  CHECK(mentions(error_of(file), "empty"));
  file.write({'E', 'L', 'F', 0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(mentions(error_of(file), "not a gpupeak log"));
  CHECK_THROWS_AS(analyze("/nowhere/at/all.gplog"), LogError);
  CHECK_THROWS_AS(analyze("/tmp"), LogError);
}

TEST_CASE("damage: a newer log names its maker", "[collector]") {
  LogBuilder log;
  log.header().version = GPUPEAK_LOG_VERSION + 1;
  strcpy(log.header().tool_version, "9.9.9");
  const TemporaryFile file;
  log.save(file.path());
  const std::string error = error_of(file);
  CHECK(mentions(error, "newer"));
  CHECK(mentions(error, "9.9.9"));
  CHECK(mentions(error, "up to version " + std::to_string(GPUPEAK_LOG_VERSION)));
}

TEST_CASE("damage: random bytes never crash the reader", "[collector]") {
  const std::vector<uint8_t> whole = make_log(4096);
  const TemporaryFile file;
  std::mt19937 random(20260105);
  for (int round = 0; round < 500; ++round) {
    std::vector<uint8_t> bytes = whole;
    const size_t hits = 1 + random() % 16;
    for (size_t i = 0; i < hits; ++i) {
      // Half of them in the records, where most of the decoding is.
      const bool anywhere = random() % 2 == 0;
      const size_t from = anywhere ? 0 : 2 * GPUPEAK_LOG_PAGE;
      const size_t at = from + random() % (bytes.size() - from);
      bytes[at] = random() % 4 == 0 ? 0xff : static_cast<uint8_t>(random());
    }
    file.write(bytes);
    INFO("round " << round);
    try {
      read_all(file);
    } catch (const LogError&) {
      continue;  // its header was hit
    }
  }
}
