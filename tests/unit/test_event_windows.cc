// Windows of a log that several threads merge: the same events in the same order as one after
// another, whatever the log holds.
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "collector/log/event_stream.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kWindowBytes = 200;

/// What of an event is defined.
using Told = std::tuple<uint64_t, uint32_t, uint32_t, uint8_t, uint64_t, uint64_t, const void*>;

Told told(const Event& event) {
  const bool sized = event.tag == GPUPEAK_REC_ALLOC || event.tag == GPUPEAK_REC_REALLOC_END;
  if (is_heap_event(event.tag))
    return {event.ticks, event.slot, event.tid, event.tag, event.address, sized ? event.size : 0,
            nullptr};
  return {event.ticks,    event.slot,       event.tid, event.tag,
          event.sequence, event.body_bytes, event.body};
}

using Counts = std::vector<uint64_t>;

Counts told(const StreamCounts& counts) {
  return {counts.events,
          counts.heap_events,
          counts.mapping_events,
          counts.device_events,
          counts.unknown_records,
          counts.corrupt_chunks,
          counts.missing_device_events};
}

struct Merged {
  std::vector<Told> events;
  Counts counts;
  size_t merged_again = 0;
};

Merged merged_serially(const LogReader& log) {
  Merged merged;
  EventMerger merger(log);
  std::vector<Event> events(100);
  while (const size_t count = merger.fill(events)) {
    for (size_t i = 0; i < count; ++i) merged.events.push_back(told(events[i]));
  }
  merged.counts = told(merger.counts());
  return merged;
}

Merged merged_in_windows(const LogReader& log, size_t threads) {
  Merged merged;
  EventWindows windows(log, threads, kWindowBytes);
  std::vector<Event> events(EventWindows::kMostEvents);
  while (const size_t count = windows.next(events)) {
    for (size_t i = 0; i < count; ++i) merged.events.push_back(told(events[i]));
  }
  merged.counts = told(windows.counts());
  merged.merged_again = windows.merged_again();
  return merged;
}

/// Returns how many windows were merged again.
size_t check_same(const LogReader& log) {
  const Merged expected = merged_serially(log);
  size_t merged_again = 0;
  for (const size_t threads : {0, 1, 3}) {
    const Merged found = merged_in_windows(log, threads);
    const bool same = found.events == expected.events;  // in words they would fill a disk
    REQUIRE(same);
    REQUIRE(found.counts == expected.counts);
    merged_again = found.merged_again;
  }
  return merged_again;
}

/// Slots of which some are busy at a time; stamps are often the same. One device event in `late` is
/// overtaken by its successors, one in `lost` is missing.
struct Pattern {
  uint32_t slots;
  unsigned late, lost;
  uint64_t largest_step;
};

void write_events(LogBuilder& log, std::mt19937& random, const Pattern& pattern) {
  const auto below = [&random](uint64_t limit) { return limit == 0 ? 0 : random() % limit; };
  uint64_t time = 100, sequence = 1;
  std::vector<uint64_t> overtaken;
  uint32_t busy = 1;
  for (int i = 0; i < 12'000; ++i) {
    time += below(pattern.largest_step);
    if (below(300) == 0) busy = 1 + static_cast<uint32_t>(below(pattern.slots));
    if (below(4000) == 0) time += 400'000'000;  // patience is a second
    const auto slot = static_cast<uint32_t>(below(20) == 0 ? below(pattern.slots) : below(busy));
    const uint64_t address = 0x1000 + 16 * below(100'000);
    switch (below(30)) {
      case 0:
        log.map(slot, time, address, 4096, 3);
        break;
      case 1:
        log.event(slot, time, 0xfe, Fields().u(7));  // of a newer writer
        break;
      case 2:
        log.event(slot, time, GPUPEAK_REC_THREAD, Fields().u(below(1000)).s("worker"));
        break;
      case 3:
      case 4:
        if (pattern.late != 0 && below(pattern.late) == 0) overtaken.push_back(sequence++);
        if (pattern.lost != 0 && below(pattern.lost) == 0) ++sequence;
        log.set_sequence(sequence++);
        log.device_alloc(slot, time, sequence, GPUPEAK_KIND_LINEAR, 0, 64);
        break;
      case 5:
        if (overtaken.empty() || below(5) != 0) break;
        log.set_sequence(overtaken.back());
        overtaken.pop_back();
        log.device_free(slot, time, 1);
        break;
      default:
        if (below(2) == 0)
          log.alloc(slot, time, address, below(5000));
        else
          log.free(slot, time, address);
    }
  }
}

}  // namespace

TEST_CASE("event_windows: several threads give the events of one after another", "[collector]") {
  std::mt19937 random(1);
  size_t merged_again = 0, windows = 0;
  for (const Pattern& pattern : std::vector<Pattern>{{1, 0, 0, 3},
                                                     {2, 0, 0, 2},
                                                     {7, 0, 0, 40},
                                                     {60, 0, 0, 3},
                                                     {5, 100, 0, 10},
                                                     {30, 30, 0, 3},
                                                     {12, 0, 200, 1000},
                                                     {60, 20, 100, 50'000},
                                                     {9, 3, 3, 200'000}}) {
    for (const bool heap_apart : {false, true}) {
      LogBuilder log;
      log.set_heap_apart(heap_apart);
      log.set_chunk_bytes(pattern.slots < 10 ? 64 << 10 : 4 << 10);
      write_events(log, random, pattern);
      const TemporaryFile file;
      const LogReader reader(log.save(file.path()));
      merged_again += check_same(reader);
      windows += window_bounds(reader, kWindowBytes).size();
    }
  }
  INFO(windows << " windows");
  CHECK(merged_again > 20);
  CHECK(merged_again < windows);
}

TEST_CASE("event_windows: damaged chunks are merged as one after another", "[collector]") {
  std::mt19937 random(2);
  LogBuilder log;
  log.set_chunk_bytes(4 << 10);
  write_events(log, random, {20, 50, 200, 1000});
  const std::vector<uint8_t> whole = log.bytes();
  uint64_t corrupt = 0;
  for (int round = 0; round < 25; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (int i = 0; i < 1 + round; ++i)
      bytes[2 * GPUPEAK_LOG_PAGE + random() % (bytes.size() - 2 * GPUPEAK_LOG_PAGE)] ^=
          static_cast<uint8_t>(1U << random() % 8);
    const TemporaryFile file;
    file.write(bytes);
    const LogReader reader(file.path());
    check_same(reader);
    corrupt += merged_serially(reader).counts[4];
  }
  CHECK(corrupt > 20);
}

TEST_CASE("event_windows: of a window with more events than are kept, the rest is in order",
          "[collector]") {
  constexpr uint64_t kKept = 1 << 17;
  for (uint64_t before = kKept - 3; before < kKept + 3; ++before) {
    LogBuilder log;
    log.set_chunk_bytes(2 << 20);
    log.free(1, 100, 0x1000);  // all chunks begin at the same time
    for (uint64_t i = 0; i < before; ++i) log.free(0, 100 + i, 0x1000 + 16 * (i % 7));
    log.set_sequence(3);
    log.device_free(0, 1'000'000, 1);
    log.free(0, 1'000'005, 0x1000);
    log.set_sequence(1);
    log.device_free(1, 1'000'010, 1);
    log.device_free(1, 1'000'020, 1);
    log.free(0, 1'000'030, 0x1000);
    const TemporaryFile file;
    const LogReader reader(log.save(file.path()));
    REQUIRE(window_bounds(reader, kWindowBytes).size() < 4);
    check_same(reader);
  }
}

TEST_CASE("event_windows: who has seen enough need not see the end", "[collector]") {
  std::mt19937 random(3);
  LogBuilder log;
  write_events(log, random, {10, 0, 0, 10});
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  for (int taken = 0; taken < 8; ++taken) {
    EventWindows windows(reader, 3, kWindowBytes);
    std::vector<Event> events(EventWindows::kMostEvents);
    for (int i = 0; i < taken; ++i) CHECK(windows.next(events) > 0);
  }
}
