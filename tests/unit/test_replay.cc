// What the replay makes of logs, seen through analyze_log().
#include <random>
#include <unordered_map>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/replay/replay.h"
#include "collector/summary/run_text.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

uint64_t metric_in(const Summary& summary, const std::string& name) {
  INFO(name);
  REQUIRE(summary.metrics.count(name) == 1);
  REQUIRE(summary.metrics.at(name).has_value());
  return *summary.metrics.at(name);
}

bool is_null(const Summary& summary, const std::string& name) {
  REQUIRE(summary.metrics.count(name) == 1);
  return !summary.metrics.at(name).has_value();
}

bool has_warning(const Summary& summary, const std::string& code) {
  for (const Warning& warning : summary.quality.warnings) {
    if (code_text(warning.code) == code) return true;
  }
  return false;
}

void check_sums(const Summary& summary) {
  for (const Peak& peak : summary.peaks) {
    uint64_t sum = peak.other_bytes;
    for (const Holder& holder : peak.holders) sum += holder.bytes;
    INFO(peak.scope);
    CHECK(sum == peak.bytes);
  }
}

}  // namespace

TEST_CASE("replay: the heap's peak, requested and usable", "[collector]") {
  LogBuilder log;
  log.alloc(0, 10, 0x1000, 100, 0, 4);
  log.alloc(0, 20, 0x2000, 200, 0, 8);
  log.free(0, 30, 0x1000);
  log.alloc(0, 40, 0x3000, 50);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 300);
  CHECK(metric_in(summary, "host.kind.heap.usable_peak_bytes") == 312);
  CHECK(metric_in(summary, "host.peak_bytes") == 300);
  CHECK(metric_in(summary, "host.kind.heap.live_bytes") == 250);
  CHECK(metric_in(summary, "device.peak_bytes") == 0);
  REQUIRE(summary.find_peak("host/heap") != nullptr);
  CHECK(summary.find_peak("host/heap")->time_ns == 20);
  CHECK(summary.quality.exact);
  CHECK(summary.quality.log_complete);
  check_sums(summary);
}

TEST_CASE("replay: the old block of a realloc counts until its end", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 100);
  log.realloc_begin(0, 2, 0x1000);
  log.alloc(1, 3, 0x1000, 10);  // another thread gets the old address meanwhile
  log.realloc_end(0, 4, 0x2000, 150);
  log.free(0, 5, 0x2000);
  log.free(1, 6, 0x1000);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 160);
  CHECK(metric_in(summary, "host.kind.heap.live_bytes") == 0);
  CHECK(summary.quality.repairs == 0);
  CHECK(summary.quality.exact);
}

TEST_CASE("replay: a failed realloc leaves the block alone", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 100);
  log.realloc_begin(0, 2, 0x1000);
  log.realloc_failed(0, 3, 0x1000);
  log.free(0, 4, 0x1000);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 100);
  CHECK(metric_in(summary, "host.kind.heap.live_bytes") == 0);
  CHECK(summary.quality.repairs == 0);
}

TEST_CASE("replay: of two blocks at one address the one whose realloc fails is gone",
          "[collector]") {
  for (const bool end_is_lost : {false, true}) {
    LogBuilder log;
    log.alloc(0, 1, 0x1000, 100);
    log.realloc_begin(0, 2, 0x1000);
    log.alloc(1, 3, 0x1000, 10);
    if (end_is_lost) {
      log.realloc_begin(0, 4, 0x5000);
    } else {
      log.realloc_failed(0, 4, 0x1000);
    }
    const Summary summary = analyze_log(log);
    CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 110);
    CHECK(metric_in(summary, "host.kind.heap.live_bytes") == 10);
    CHECK(summary.quality.repairs == (end_is_lost ? 2 : 1));
    CHECK(summary.quality.unknown_heap_frees == (end_is_lost ? 1 : 0));
  }
}

TEST_CASE("replay: a block lies nowhere while it is reallocated, and there again if that fails",
          "[collector]") {
  for (const bool fails : {false, true}) {
    LogBuilder log;
    log.alloc(0, 1, 0x1000, 100);
    log.realloc_begin(0, 2, 0x1000);
    if (fails) log.realloc_failed(0, 3, 0x1000);
    const TemporaryFile file;
    const LogReader reader(log.save(file.path()));
    Replay replay(reader);
    replay.run({});
    CHECK(replay.heap().block_around(0x1010).has_value() == fails);
  }
}

TEST_CASE("replay: frees from before the log are counted apart", "[collector]") {
  LogBuilder log;
  log.free(0, 1, 0x1000);
  log.realloc_begin(0, 2, 0x2000);
  log.realloc_end(0, 3, 0x3000, 70);
  const Summary summary = analyze_log(log);
  CHECK(summary.quality.unknown_heap_frees == 2);
  CHECK(summary.quality.unmatched_frees == 0);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 70);
}

TEST_CASE("replay: an address handed out twice is repaired and said", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 100);
  log.alloc(0, 2, 0x1000, 60);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 100);
  CHECK(metric_in(summary, "host.kind.heap.live_bytes") == 60);
  CHECK(summary.quality.repairs == 1);
  CHECK_FALSE(summary.quality.exact);
  CHECK(has_warning(summary, "GP028"));
}

TEST_CASE("replay: records without a time have the one before", "[collector]") {
  LogBuilder log;
  log.alloc(0, 50, 0x1000, 100);
  log.alloc_unstamped(0, 0x2000, 100);
  log.alloc_unstamped(0, 0x2008, 30);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 230);
  CHECK(summary.find_peak("host")->time_ns == 50);
}

TEST_CASE("replay: slots are merged by time", "[collector]") {
  LogBuilder log;
  log.set_chunk_bytes(4096);
  uint64_t time = 0;
  // Each thread's blocks are freed by the other one: any other order would show unknown frees.
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto slot = static_cast<uint32_t>(i % 2);
    log.alloc(slot, ++time, 0x100000 + i % 7 * 64, 64);
    log.free(1 - slot, ++time, 0x100000 + i % 7 * 64);
  }
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 64);
  CHECK(summary.quality.repairs == 0);
  CHECK(summary.quality.unknown_heap_frees == 0);
  CHECK(summary.quality.events == 4000);
}

TEST_CASE("replay: device events follow their numbers, not the clock", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 100, 1, GPUPEAK_KIND_LINEAR, 0, 1000);
  log.device_free(1, 99, 1);  // stamped too early, numbered rightly
  log.device_alloc(0, 101, 2, GPUPEAK_KIND_LINEAR, 0, 900);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "device.peak_bytes") == 1000);
  CHECK(metric_in(summary, "device.live_bytes") == 900);
  CHECK(summary.quality.repairs == 0);
  CHECK(summary.quality.exact);
}

TEST_CASE("replay: a hole in the numbers is a loss", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 1000);
  log.set_sequence(6);
  log.device_alloc(1, 2, 2, GPUPEAK_KIND_LINEAR, 0, 500);
  log.alloc(0, 3, 0x1000, 10);
  const Summary summary = analyze_log(log);
  CHECK(summary.quality.dropped_events == 4);
  CHECK_FALSE(summary.quality.exact);
  CHECK(has_warning(summary, "GP004"));
  CHECK(metric_in(summary, "device.peak_bytes") == 1500);
}

TEST_CASE("replay: the peak of all devices and the sum of their own peaks", "[collector]") {
  LogBuilder log;
  log.device(0, 1 << 30, std::string(16, '\1'), "NVIDIA H200");
  log.device(1, 1 << 30, std::string(16, '\2'), "NVIDIA H200 MIG 1g.18gb");
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.device_free(0, 2, 1);
  log.device_alloc(0, 3, 2, GPUPEAK_KIND_LINEAR, 1, 70);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "device.peak_bytes") == 100);
  CHECK(metric_in(summary, "device.sum_of_peaks_bytes") == 170);
  CHECK(summary.devices[0].uuid == "GPU-01010101-0101-0101-0101-010101010101");
  CHECK(summary.devices[1].uuid == "MIG-02020202-0202-0202-0202-020202020202");
}

TEST_CASE("replay: device kinds count where they belong", "[collector]") {
  LogBuilder log;
  const uint32_t api = log.string("cuMemAlloc_v2");
  log.device(0, 1 << 30, std::string(16, '\1'), "Test GPU");
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100, api);
  log.device_alloc(0, 2, 2, GPUPEAK_KIND_POOL, 0, 20);
  log.device_alloc(0, 3, 3, GPUPEAK_KIND_MANAGED, 0, 1000);
  log.device_alloc(0, 4, 4, GPUPEAK_KIND_VMM_VA, 0, 5000);
  log.device_alloc(0, 5, 5, GPUPEAK_KIND_IMPORTED, 0, 700);
  log.device_alloc(0, 6, 6, GPUPEAK_KIND_LINEAR, 1, 50, api);
  log.device_alloc(0, 7, 7, GPUPEAK_KIND_PINNED, 0, 4000);
  log.device_alloc(0, 8, 8, GPUPEAK_KIND_REGISTERED, -1, 9000);
  log.device_alloc(0, 9, 9, GPUPEAK_KIND_HOST_VMM, -1, 30);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "device.peak_bytes") == 170);
  CHECK(metric_in(summary, "device.kind.linear.peak_bytes") == 150);
  CHECK(metric_in(summary, "device.kind.pool.peak_bytes") == 20);
  CHECK(metric_in(summary, "device.managed.peak_bytes") == 1000);
  CHECK(metric_in(summary, "device.kind.vmm.reserved_va_bytes") == 5000);
  CHECK(metric_in(summary, "device.imported.peak_bytes") == 700);
  CHECK(metric_in(summary, "device.largest_alloc_bytes") == 100);
  CHECK(metric_in(summary, "device.alloc_count") == 3);
  CHECK(metric_in(summary, "host.kind.pinned.peak_bytes") == 4000);
  CHECK(metric_in(summary, "host.overlay.registered.peak_bytes") == 9000);
  CHECK(metric_in(summary, "host.peak_bytes") == 4030);
  REQUIRE(summary.devices.size() == 2);
  CHECK(summary.devices[0].name == "Test GPU");
  CHECK(summary.devices[0].uuid == "GPU-01010101-0101-0101-0101-010101010101");
  CHECK(summary.devices[0].metrics.at("device.peak_bytes") == 120);
  CHECK(summary.devices[1].metrics.at("device.peak_bytes") == 50);
  CHECK(summary.find_peak("total")->bytes == 4200);
  CHECK(summary.find_peak("device:0")->holders.at(0).api == "cuMemAlloc_v2");
  check_sums(summary);
}

TEST_CASE("replay: a free that failed brings its block back", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.device_free(0, 2, 1);
  log.device_event(0, 3, GPUPEAK_REC_DEVICE_REVIVE, Fields().u(1));
  log.device_alloc(0, 4, 2, GPUPEAK_KIND_LINEAR, 0, 10);
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "device.peak_bytes") == 110);
  CHECK(metric_in(summary, "device.alloc_count") == 2);
  CHECK(summary.quality.exact);
}

TEST_CASE("replay: pools' reserved bytes per device", "[collector]") {
  LogBuilder log;
  const auto pool = [&](uint64_t time, uint64_t handle, uint64_t device, uint64_t reserved,
                        uint64_t event) {
    log.device_event(0, time, GPUPEAK_REC_POOL,
                     Fields().u(handle).u(device + 1).u(reserved).u(0).u(event));
  };
  pool(1, 0xa, 0, 0, GPUPEAK_POOL_CREATED);
  pool(2, 0xa, 0, 100, GPUPEAK_POOL_READ);
  pool(3, 0xb, 0, 50, GPUPEAK_POOL_READ);
  pool(4, 0xa, 0, 20, GPUPEAK_POOL_READ);
  pool(5, 0xb, 0, 0, GPUPEAK_POOL_DESTROYED);
  pool(6, 0xa, 0, 70, GPUPEAK_POOL_READ);
  CHECK(metric_in(analyze_log(log), "device.kind.pool.reserved_peak_bytes") == 150);
}

TEST_CASE("replay: a failed allocation names who held the memory", "[collector]") {
  LogBuilder log;
  const uint32_t api = log.string("cuMemAlloc_v2");
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100, api);
  log.device_alloc(0, 2, 2, GPUPEAK_KIND_LINEAR, 1, 999, api);
  log.device_event(0, 3, GPUPEAK_REC_DEVICE_FAILED,
                   Fields().u(GPUPEAK_KIND_LINEAR).u(1).u(4096).u(2).u(100).u(11).u(0).u(api).u(0));
  log.device_event(0, 4, GPUPEAK_REC_DEVICE_UNKNOWN, Fields().u(0x123).u(api).u(0));
  const Summary summary = analyze_log(log);
  REQUIRE(summary.oom.size() == 1);
  const OutOfMemory& oom = summary.oom[0];
  CHECK(oom.time_ns == 3);
  CHECK(oom.api == "cuMemAlloc_v2");
  CHECK(oom.device == 0);
  CHECK(oom.requested_bytes == 4096);
  CHECK(oom.result == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(oom.live_bytes == 100);
  CHECK(oom.driver_free_bytes == 10);
  CHECK_FALSE(oom.driver_total_bytes.has_value());
  REQUIRE(oom.holders.size() == 1);
  CHECK(oom.holders[0].bytes == 100);
  CHECK(summary.quality.unmatched_frees == 1);
}

TEST_CASE("replay: mappings are in the host's peak, an allocator's own are not", "[collector]") {
  LogBuilder log;
  log.map(0, 1, 0x7f0000000000, 8192, 3);
  log.map(0, 2, 0x7f0000010000, 1 << 20, 3, GPUPEAK_KIND_BACKING);
  log.map(0, 3, 0x7f0000200000, 1 << 20, 3, GPUPEAK_KIND_MMAP_FILE);
  log.alloc(0, 4, 0x7f0000010000, 100);
  log.unmap(0, 5, 0x7f0000000000, 4096);
  log.event(0, 6, GPUPEAK_REC_SAMPLE, Fields().u(5000000).u(1000).u(77));
  const Summary summary = analyze_log(log);
  CHECK(metric_in(summary, "host.peak_bytes") == 8292);
  CHECK(metric_in(summary, "host.kind.mmap_anon.peak_bytes") == 8192);
  CHECK(metric_in(summary, "host.kind.mmap_file.peak_bytes") == 1 << 20);
  CHECK(metric_in(summary, "host.backing.peak_bytes") == 1 << 20);
  CHECK(metric_in(summary, "host.rss.peak_bytes") == 5000000);
  CHECK(metric_in(summary, "host.brk_growth.peak_bytes") == 77);
}

TEST_CASE("replay: what came after the last look has causes as far as heap and mappings grew",
          "[collector]") {
  for (const uint64_t not_touched : {0, 2}) {
    LogBuilder log;
    log.map(0, 1, 0x7f0000000000, 10 * kMiB, 3);
    log.alloc(0, 2, 0x1000, 4 * kMiB);
    log.event(0, 3, GPUPEAK_REC_RESIDENT,
              Fields().u(20 * kMiB).u(5 * kMiB).u(0).u(0).u(0).u(14 * kMiB).u(0).u(kMiB).u(1).u(
                  4 * kMiB));
    log.map(0, 4, 0x7f0010000000, 8 * kMiB, 3);
    log.alloc(0, 5, 0x10000000, 6 * kMiB);
    log.event(0, 6, GPUPEAK_REC_SAMPLE, Fields().u((34 - not_touched) * kMiB).u(5 * kMiB).u(0));
    const Summary summary = analyze_log(log);
    const auto mib = [&](const char* name) { return (metric_in(summary, name) + kMiB / 2) / kMiB; };
    CHECK(mib("host.resident.heap_bytes") == 10 - not_touched);
    CHECK(mib("host.resident.mappings_bytes") == 18 - not_touched);
    CHECK(mib("host.resident.total_bytes") == 34 - 2 * not_touched);
    CHECK(mib("host.memory.peak_bytes") == 28 - not_touched);
    uint64_t own = 0, not_looked_at = 0;
    for (const ResidentCause& cause : resident_causes(summary.metrics)) {
      if (cause.text == "not looked at") not_looked_at = cause.bytes;
      if (cause.text != "program code and files" && cause.text != "gpupeak's own")
        own += cause.bytes;
    }
    CHECK(own == metric_in(summary, "host.memory.peak_bytes"));
    CHECK((not_looked_at + kMiB / 2) / kMiB == not_touched);
  }
}

TEST_CASE("replay: what of each site was resident, by the places that the look names",
          "[collector]") {
  constexpr uint64_t kAt = 0x7f0000000000;
  struct Place {
    uint64_t gap, bytes, absent;
  };
  using Places = std::vector<Place>;
  const auto summary_of = [&](uint64_t number, const Places& places, uint64_t shared = 0,
                              uint64_t small = 0) {
    LogBuilder log;
    const uint32_t one = log.node(0, 0x100), two = log.node(0, 0x200), three = log.node(0, 0x300);
    log.map(0, 1, kAt, 100 * kMiB, 3, GPUPEAK_KIND_MMAP_ANON, one);
    log.map(0, 2, kAt + 100 * kMiB, 20 * kMiB, 3, GPUPEAK_KIND_MMAP_ANON, two);
    log.alloc(0, 3, kAt + 200 * kMiB, 50 * kMiB, three);
    if (small > 0) log.alloc(0, 4, 0x1000, small, three);
    Fields fields;
    fields.u(60 * kMiB).u(0).u(shared).u(0).u(0).u(60 * kMiB).u(0).u(0).u(1).u(50 * kMiB).u(0).u(0);
    fields.u(number);
    for (const Place& place : places) fields.u(place.gap).u(place.bytes).u(place.absent);
    log.event(0, 5, GPUPEAK_REC_RESIDENT, fields);
    return analyze_log(log);
  };
  using Bounds = std::vector<std::pair<uint64_t, uint64_t>>;  // of one, three, two; in MiB
  const auto bounds_of = [&](const Summary& summary) {
    Bounds bounds;
    for (const Holder& row : summary.find_peak("host")->holders) {
      if (row.resident)
        bounds.push_back({row.resident->least_bytes / kMiB, row.resident->most_bytes / kMiB});
    }
    return bounds;
  };
  const auto bounds = [&](const Places& places, uint64_t shared = 0) {
    return bounds_of(summary_of(places.size() + 1, places, shared));
  };

  SECTION("a place of resident pages alone is told apart wherever owners meet") {
    const Summary summary =
        summary_of(3, {{kAt + 90 * kMiB, 30 * kMiB, 0}, {80 * kMiB, 50 * kMiB, 20 * kMiB}});
    CHECK(bounds_of(summary) == Bounds{{10, 10}, {30, 30}, {20, 20}});
    CHECK(metric_in(summary, "host.memory.by_site_bytes") == 60 * kMiB);
    CHECK(metric_in(summary, "host.resident.mappings_bytes") == 30 * kMiB);  // not the heap's
    CHECK(metric_in(summary, "host.resident.heap_bytes") == 30 * kMiB);
    const auto mark = [&](size_t row) {
      return resident_mark(summary.find_peak("host")->holders[row], summary.metrics, {});
    };
    CHECK(mark(0) == "  (10.0 MiB resident)");
    CHECK(mark(1) == "  (30.0 MiB resident)");
    CHECK(mark(2).empty());  // it had all
  }
  SECTION("where two owners share a place with absent pages, there are bounds") {
    CHECK(bounds({{kAt, 120 * kMiB, 60 * kMiB}}) == Bounds{{40, 60}, {0, 0}, {0, 20}});
    CHECK(bounds({{kAt, 120 * kMiB, 110 * kMiB}}) == Bounds{{0, 10}, {0, 0}, {0, 10}});
  }
  SECTION("what nobody is known to have may be absent, too") {
    CHECK(bounds({{kAt - 5 * kMiB, 105 * kMiB, 60 * kMiB}}) == Bounds{{40, 45}, {0, 0}, {0, 0}});
  }
  SECTION("shared memory is in no place: any mapping may have it") {
    CHECK(bounds({{kAt, 10 * kMiB, 0}}, 7 * kMiB) == Bounds{{10, 17}, {0, 0}, {0, 7}});
  }
  SECTION("a row with small blocks, too, says nothing") {
    CHECK(bounds_of(summary_of(2, {{kAt, 10 * kMiB, 0}}, 0, 100)) == Bounds{{10, 10}, {0, 0}});
  }
  SECTION("a log without places has no figures") {
    const Summary summary = summary_of(0, {});
    CHECK(bounds_of(summary).empty());
    CHECK(is_null(summary, "host.memory.by_site_bytes"));
    CHECK(metric_in(summary, "host.resident.total_bytes") == 60 * kMiB);
  }
  SECTION("a damaged list of places is left out with its record") {
    const Places most(GPUPEAK_MAX_PLACES, {kAt / 32, 4096, 0});
    CHECK(bounds(most).size() == 3);
    CHECK(bounds_of(summary_of(4, {{kAt, kMiB, 0}})) == Bounds{{1, 1}, {0, 0}, {0, 0}});  // cut off
    Places more = most;
    more.push_back({4096, 4096, 0});
    for (const auto& [number, places] : std::initializer_list<std::pair<uint64_t, Places>>{
             {18, more},
             {UINT64_MAX, {}},
             {2, {{kAt, kMiB, kMiB + 1}}},
             {2, {{UINT64_MAX - 4095, 8192, 0}}},
             {2, {{kAt, UINT64_MAX, 0}}},
             {3, {{kAt, kMiB, 0}, {UINT64_MAX, kMiB, 0}}}}) {
      const Summary summary = summary_of(number, places);
      CHECK(bounds_of(summary).empty());
      CHECK(is_null(summary, "host.resident.total_bytes"));
    }
  }
}

TEST_CASE("replay: phases and the blocks that belong to them", "[collector]") {
  LogBuilder log;
  const uint32_t main = log.string("main");
  const uint32_t load = log.string("load");
  log.phase_push(0, 1, true, main, GPUPEAK_PHASE_AUTO);
  log.device_alloc(0, 2, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.phase_push(0, 3, false, load);
  log.device_alloc(0, 4, 2, GPUPEAK_KIND_LINEAR, 0, 50);
  log.device_alloc(1, 5, 3, GPUPEAK_KIND_LINEAR, 0, 7);  // another thread: in main
  log.device_free(0, 6, 2);
  log.phase_pop(0, 7, false);
  log.phase_pop(0, 8, false);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.phases.size() == 2);
  const PhaseSummary& inner = summary.phases[1];
  CHECK(inner.name == "load");
  CHECK(inner.parent == "main");
  CHECK(inner.source == "api");
  CHECK(inner.begin_ns == 3);
  CHECK(inner.end_ns == 7);
  CHECK(inner.metrics.at("device.start_bytes") == 100);
  CHECK(inner.metrics.at("device.peak_bytes") == 157);
  CHECK(inner.metrics.at("device.end_bytes") == 107);
  CHECK(inner.metrics.at("device.alloc_count") == 1);
  CHECK(summary.phases[0].metrics.at("device.alloc_count") == 2);
  CHECK(summary.find_peak("device:0")->phase == "main");
  CHECK(has_warning(summary, "GP029"));

  Options by_phase;
  by_phase.by = GroupBy::kPhase;
  const Summary grouped = analyze_log(log, by_phase);
  const Peak* peak = grouped.find_peak("device:0");
  REQUIRE(peak->holders.size() == 2);
  CHECK(peak->holders[0].title == "main");
  CHECK(peak->holders[0].bytes == 107);
  CHECK(peak->holders[1].title == "load");
}

TEST_CASE("replay: a phase keeps its peak whatever else happens before its end", "[collector]") {
  LogBuilder log;
  log.phase_push(0, 1, true, log.string("main"), GPUPEAK_PHASE_AUTO);
  log.alloc(0, 2, 0x1000, 500);
  log.free(0, 3, 0x1000);
  log.phase_pop(0, 4, false);  // without a beginning
  log.event(0, 5, GPUPEAK_REC_THREAD, Fields().u(555).s("next owner of the slot"));
  log.alloc(0, 6, 0x2000, 5);
  log.alloc(1, 7, 0x3000, 5);  // a slot's first event
  log.phase_pop(0, 8, true);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.phases.size() == 1);
  CHECK(summary.phases[0].metrics.at("host.peak_bytes") == 500);
}

TEST_CASE("replay: blocks freed at once are temporary", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 10);
  log.free(0, 2, 0x1000);
  log.alloc(0, 3, 0x1000, 10);
  log.alloc(0, 4, 0x2000, 10);
  log.free(0, 5, 0x1000);
  const Summary summary = analyze_log(log);
  REQUIRE(summary.temporaries.size() == 1);
  CHECK(summary.temporaries[0].count == 1);
}

TEST_CASE("replay: what was not measured is null", "[collector]") {
  SECTION("host off") {
    LogBuilder log(GPUPEAK_HOST_OFF);
    log.device_alloc(0, 1, 1, GPUPEAK_KIND_PINNED, -1, 4096);
    const Summary summary = analyze_log(log);
    CHECK(is_null(summary, "host.kind.heap.peak_bytes"));
    CHECK(is_null(summary, "host.kind.mmap_anon.peak_bytes"));
    CHECK(is_null(summary, "host.peak_bytes"));
    CHECK(metric_in(summary, "host.kind.pinned.peak_bytes") == 4096);
    CHECK(summary.find_peak("host") == nullptr);
    CHECK(summary.find_peak("total") == nullptr);
    CHECK(summary.find_peak("host/pinned") != nullptr);
  }
  SECTION("counters") {
    LogBuilder log(GPUPEAK_HOST_COUNTERS);
    log.counters().heap.peak = 12345;
    log.map(0, 1, 0x7f0000000000, 4096, 3);
    const Summary summary = analyze_log(log);
    CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == 12345);
    CHECK(metric_in(summary, "host.kind.heap.usable_peak_bytes") == 12345);
    CHECK(metric_in(summary, "host.kind.mmap_anon.peak_bytes") == 4096);
    CHECK(is_null(summary, "host.peak_bytes"));
    CHECK(has_warning(summary, "GP012"));
  }
  SECTION("late start") {
    LogBuilder log;
    log.header().flags = GPUPEAK_FLAG_LATE_START;
    log.alloc(0, 1, 0x1000, 10);
    const Summary summary = analyze_log(log);
    CHECK(is_null(summary, "host.kind.heap.peak_bytes"));
    CHECK(is_null(summary, "host.peak_bytes"));
    CHECK(summary.find_peak("host/heap") == nullptr);
    CHECK(has_warning(summary, "GP015"));
  }
  SECTION("always") {
    LogBuilder log;
    const Summary summary = analyze_log(log);
    CHECK(is_null(summary, "device.driver_used.peak_bytes"));
    CHECK(is_null(summary, "device.nvml_process.peak_bytes"));
    CHECK(is_null(summary, "host.rss.peak_bytes"));
  }
}

TEST_CASE("replay: a sample is scaled up without bias", "[collector]") {
  constexpr uint64_t kMean = 4096;
  LogBuilder log(GPUPEAK_HOST_SAMPLED);
  log.header().sample_bytes = kMean;
  std::mt19937_64 random(3);
  std::exponential_distribution<double> gap(1.0 / kMean);
  double next = gap(random);
  uint64_t truth = 0;
  double position = 0;
  for (uint64_t i = 0; i < 200'000; ++i) {
    const uint64_t bytes = 16 + random() % 512;
    truth += bytes;
    position += static_cast<double>(bytes);
    if (position < next) continue;
    while (next <= position) next += gap(random);
    log.alloc(0, i, 0x10000 + i * 1024, bytes);
  }
  const Summary summary = analyze_log(log);
  const auto estimate = static_cast<double>(metric_in(summary, "host.kind.heap.peak_bytes"));
  CHECK(estimate > 0.97 * static_cast<double>(truth));
  CHECK(estimate < 1.03 * static_cast<double>(truth));
  CHECK(summary.quality.exact);  // nothing was lost, and estimates have their error
  CHECK(summary.quality.heap_sample_bytes == kMean);
}

TEST_CASE("replay: error bars of a sample hold the truth 95 times of 100", "[collector]") {
  constexpr uint64_t kMean = 4096;
  std::mt19937_64 random(5);
  std::exponential_distribution<double> gap(1.0 / kMean);
  int held = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    LogBuilder log(GPUPEAK_HOST_SAMPLED);
    log.header().sample_bytes = kMean;
    double next = gap(random), position = 0;
    uint64_t truth = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      const uint64_t bytes = i % 100 == 0 ? 20'000 : 16 + random() % 512;
      truth += bytes;
      position += static_cast<double>(bytes);
      if (position < next) continue;
      while (next <= position) next += gap(random);
      log.alloc(0, i, 0x10000 + i * 32768, bytes);
    }
    const Summary summary = analyze_log(log);
    const Peak& peak = *summary.find_peak("host/heap");
    const double off = static_cast<double>(peak.bytes) - static_cast<double>(truth);
    REQUIRE(peak.error_bytes);
    held += std::abs(off) <= static_cast<double>(*peak.error_bytes);
  }
  CHECK(held >= kRuns * 92 / 100);
  CHECK(held < kRuns);  // a bar that is never exceeded says nothing
}

TEST_CASE("replay: a log that reached its limit goes on as a sample", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 1000);
  log.alloc(0, 2, 0x2000, 100);
  SECTION("what was live then stays exact") {
    log.counters().quality |= GPUPEAK_Q_LOG_MAX;
    log.event(0, 3, GPUPEAK_REC_SAMPLING, Fields().u(4096));
    log.free(0, 4, 0x2000);
    const Summary summary = analyze_log(log);
    CHECK(summary.find_peak("host/heap")->bytes == 1100);
    CHECK_FALSE(summary.find_peak("host/heap")->error_bytes);
    CHECK(has_warning(summary, "GP033"));
    CHECK_FALSE(summary.quality.exact);
  }
  SECTION("later blocks stand for others, with an error bar") {
    log.event(0, 3, GPUPEAK_REC_SAMPLING, Fields().u(4096));
    log.alloc(0, 4, 0x3000, 1);
    const Summary summary = analyze_log(log);
    const Peak& peak = *summary.find_peak("host/heap");
    CHECK(peak.bytes == 1100 + 4097);  // 1 / (1 - exp(-1/4096))
    CHECK(peak.error_bytes == 19546);  // (1.96 * sqrt(1 + 1) + 2) * 4096
  }
  SECTION("of a sample with whole blocks these are exact") {
    log.event(0, 3, GPUPEAK_REC_SAMPLING, Fields().u(4096).u(8192));
    log.alloc(0, 4, 0x3000, 8192);
    const Summary summary = analyze_log(log);
    const Peak& peak = *summary.find_peak("host/heap");
    CHECK(peak.bytes == 1100 + 8192);
    CHECK_FALSE(peak.error_bytes);
  }
  SECTION("a sample may get thinner: each block stands for as many as it was chosen from") {
    log.event(0, 3, GPUPEAK_REC_SAMPLING, Fields().u(4096).u(65536));
    log.alloc(0, 4, 0x3000, 1);
    log.event(0, 5, GPUPEAK_REC_SAMPLING, Fields().u(8192).u(65536));
    log.alloc(0, 6, 0x4000, 1);
    const Summary summary = analyze_log(log);
    const Peak& peak = *summary.find_peak("host/heap");
    CHECK(peak.bytes == 1100 + 4097 + 8193);
    CHECK(peak.error_bytes == 40469);  // 1.96 * sqrt(4096^2 + 2 * 8192^2) + 2 * 8192
  }
}

TEST_CASE("replay: counters that disagree with the events are reported", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.counters().device_count = 1;
  log.counters().device[0].total.peak = 100;
  CHECK(analyze_log(log).quality.exact);
  log.counters().device[0].total.peak = 101;
  const Summary summary = analyze_log(log);
  CHECK_FALSE(summary.quality.exact);
  CHECK(has_warning(summary, "GP030"));
}

TEST_CASE("replay: agrees with a simple heap on random use by several threads", "[collector]") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    LogBuilder log;
    log.set_chunk_bytes(4096);
    std::unordered_map<uint64_t, uint64_t> live;
    std::vector<uint64_t> addresses;
    uint64_t now = 0, current = 0, peak = 0, peak_time = 0, next_address = 0x10000;
    for (int i = 0; i < 3000; ++i) {
      const uint32_t slot = random() % 4;
      ++now;
      const uint64_t bytes = random() % 5000;
      const size_t victim = addresses.empty() ? 0 : random() % addresses.size();
      switch (addresses.empty() ? 0 : random() % 4) {
        case 0:
        case 1: {
          const uint64_t address = next_address += 16 + random() % 3 * 8;
          log.alloc(slot, now, address, bytes);
          live[address] = bytes;
          addresses.push_back(address);
          current += bytes;
          break;
        }
        case 2:
          log.free(slot, now, addresses[victim]);
          current -= live[addresses[victim]];
          live.erase(addresses[victim]);
          addresses.erase(addresses.begin() + static_cast<ptrdiff_t>(victim));
          break;
        default: {
          const uint64_t address = random() % 2 == 0 ? addresses[victim] : next_address += 32;
          log.realloc_begin(slot, now, addresses[victim]);
          log.realloc_end(slot, ++now, address, bytes);
          current += bytes - live[addresses[victim]];
          live.erase(addresses[victim]);
          live[address] = bytes;
          addresses[victim] = address;
          break;
        }
      }
      if (current > peak) peak = current, peak_time = now;
    }
    const Summary summary = analyze_log(log);
    INFO("seed " << seed);
    REQUIRE(summary.quality.exact);
    CHECK(metric_in(summary, "host.kind.heap.peak_bytes") == peak);
    CHECK(metric_in(summary, "host.kind.heap.live_bytes") == current);
    CHECK(summary.find_peak("host/heap")->time_ns == static_cast<int64_t>(peak_time));
    check_sums(summary);
  }
}
