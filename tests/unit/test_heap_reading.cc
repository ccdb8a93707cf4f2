// Heap events in chunks of their own: with them a log says what it says with all events in one row;
// without them, what concerns devices.
#include <random>
#include <sstream>
#include <vector>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/event_stream.h"
#include "collector/text/work.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kHeapEvents = 20'000;

/// Three threads that allocate of the heap and of a device, in phases.
void write_events(LogBuilder& log) {
  std::mt19937 random(3);
  const uint32_t load = log.string("load"), run = log.string("run");
  const uint32_t stacks[] = {log.node(0, 0x1000), log.node(0, 0x2000), log.node(0, 0x3000)};
  log.device(0, 80'000'000'000, std::string(16, 'u'), "NVIDIA H100");
  uint64_t time = 10;
  std::vector<uint64_t> live;
  uint64_t device_blocks = 0, heap_bytes = 0;
  for (uint32_t slot = 0; slot < 3; ++slot)
    log.phase_push(slot, time += 3, false, slot == 0 ? load : run);
  for (uint64_t i = 0; i < kHeapEvents; ++i) {
    const auto slot = static_cast<uint32_t>(random() % 3);
    if (live.size() < 50 || random() % 2 == 0) {
      log.alloc(slot, time += 3, live.emplace_back(0x100000 + 0x10000 * i), random() % 5000,
                stacks[random() % 3]);
    } else {
      log.free(slot, time += 3, live.back());
      live.pop_back();
    }
    if (i % 2000 == 7)
      log.device_alloc(slot, time += 3, ++device_blocks, GPUPEAK_KIND_LINEAR, 0, i << 10, 0,
                       stacks[slot]);
    if (i % 6000 == 11) log.device_free(slot, time += 3, device_blocks);
    if (i % 5000 == 13) log.map(slot, time += 3, 0x7000'0000'0000 + i * 4096, 1 << 20, 3);
    if (i == kHeapEvents / 2) log.phase_pop(0, time += 3, false);
  }
  heap_bytes = 123'456;
  log.counters().heap.peak = heap_bytes;
  log.counters().heap_alloc_count = kHeapEvents;
  log.counters().device_events = device_blocks;
}

Summary read(LogBuilder& log, HeapReading heap, uint64_t* records = nullptr) {
  const TemporaryFile file;
  Options options;
  options.reading.heap = heap;
  const uint64_t before = work().records;
  Summary summary = analyze(log.save(file.path()), options);
  if (records != nullptr) *records = work().records - before;
  summary.log_path = "log";
  summary.log_bytes = 0;
  return summary;
}

std::string json(const Summary& summary) {
  std::ostringstream out;
  write_json(summary, out);
  return out.str();
}

LogBuilder log_of(bool heap_apart) {
  LogBuilder log;
  log.set_heap_apart(heap_apart);
  log.set_chunk_bytes(4 << 10);
  write_events(log);
  return log;
}

}  // namespace

TEST_CASE("heap_reading: two rows of chunks say what one said", "[collector]") {
  LogBuilder together = log_of(false), apart = log_of(true);
  CHECK(json(read(together, HeapReading::kAll)) == json(read(apart, HeapReading::kAll)));
}

TEST_CASE("heap_reading: what is said of devices needs none of the heap's records", "[collector]") {
  LogBuilder log = log_of(true);
  uint64_t records = 0;
  const Summary whole = read(log, HeapReading::kAll),
                without = read(log, HeapReading::kNone, &records);
  CHECK(records < 40);
  CHECK(json(Summary{.devices = whole.devices}) == json(Summary{.devices = without.devices}));
  const Peak* peak = without.find_peak("device:0");
  REQUIRE(peak != nullptr);
  CHECK(json(Summary{.peaks = {*peak}}) == json(Summary{.peaks = {*whole.find_peak("device:0")}}));
  REQUIRE(without.phases.size() == whole.phases.size());
  for (size_t i = 0; i < whole.phases.size(); ++i) {
    CHECK(without.phases[i].name == whole.phases[i].name);
    CHECK(without.phases[i].instances.front().device.peak_bytes ==
          whole.phases[i].instances.front().device.peak_bytes);
  }
  CHECK(metric(without.metrics, "host.kind.mmap_anon.peak_bytes") ==
        metric(whole.metrics, "host.kind.mmap_anon.peak_bytes"));
}

TEST_CASE("heap_reading: left out, the heap is what was counted, and no other figure is given",
          "[collector]") {
  LogBuilder log = log_of(true);
  const Summary without = read(log, HeapReading::kNone);
  CHECK(without.quality.heap_not_read);
  CHECK(without.quality.exact);
  CHECK(metric(without.metrics, "host.kind.heap.usable_peak_bytes") == 123'456);
  CHECK_FALSE(metric(without.metrics, "host.kind.heap.peak_bytes"));
  CHECK_FALSE(metric(without.metrics, "host.peak_bytes"));
  CHECK(without.find_peak("host") == nullptr);
}

TEST_CASE("heap_reading: an older log is read whole", "[collector]") {
  LogBuilder log = log_of(false);
  CHECK(json(read(log, HeapReading::kNone)) == json(read(log, HeapReading::kAll)));
  CHECK_FALSE(read(log, HeapReading::kNone).quality.heap_not_read);
}

TEST_CASE("heap_reading: few events are read, and all where there is no device", "[collector]") {
  LogBuilder few = log_of(true);
  few.counters().heap_alloc_count = 9'000;
  CHECK_FALSE(read(few, HeapReading::kIfFew).quality.heap_not_read);
  LogBuilder many = log_of(true);
  many.counters().heap_alloc_count = 1'000'000;
  CHECK(read(many, HeapReading::kIfFew).quality.heap_not_read);
  many.counters().device_events = 0;
  CHECK_FALSE(read(many, HeapReading::kIfFew).quality.heap_not_read);
}

TEST_CASE("heap_reading: a writer's heap waits with its device event for the one before",
          "[collector]") {
  LogBuilder log;
  log.set_heap_apart(true);
  log.set_sequence(2);
  log.device_free(0, 20, 1);  // behind number 1, which has a later stamp
  log.alloc(0, 22, 0x1000, 10);
  log.alloc(1, 25, 0x2000, 10);
  log.set_sequence(1);
  log.device_free(1, 30, 2);
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  EventMerger merger(reader);
  std::vector<Event> events(10);
  REQUIRE(merger.fill(events) == 4);
  CHECK(events[0].address == 0x2000);
  CHECK(events[1].sequence == 1);
  CHECK(events[2].sequence == 2);
  CHECK(events[3].address == 0x1000);
}
