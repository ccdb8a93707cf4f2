// The events of a log in the order in which they happened. Replay and the dump drive it with a
// visitor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/log/event.h"
#include "collector/log/event_batches.h"
#include "collector/log/log_reader.h"
#include "collector/log/progress.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {

class EventStream {
 public:
  explicit EventStream(const LogReader& log, Progress progress = {});

  /// Calls visitor.on_event(event) for each event in order. Event::ticks never runs backwards.
  /// Before that it calls prefetch(event) some dozens of events ahead, and prefetch_next(event) a
  /// few ahead.
  template <class Visitor>
  void run(Visitor& visitor) {
    EventBatches batches(log_);
    for (auto events = batches.next(); !events.empty(); events = batches.next()) {
      visit(events, visitor);
      report_progress(batches.done_bytes(), batches.total_bytes());
    }
    report_progress(batches.total_bytes(), batches.total_bytes());
    counts_ = batches.counts();
  }

  /// After run().
  const StreamCounts& counts() const { return counts_; }

 private:
  static constexpr size_t kFarAhead = 40;
  static constexpr size_t kAhead = 12;
  static constexpr uint64_t kProgressStepBytes = 1 << 20;

  template <class Visitor>
  static void visit(std::span<const Event> events, Visitor& visitor) {
    const size_t count = events.size();
    for (size_t i = 0; i < std::min(kFarAhead, count); ++i) visitor.prefetch(events[i]);
    for (size_t i = 0; i < count; ++i) {
      if (i + kFarAhead < count) visitor.prefetch(events[i + kFarAhead]);
      if (i + kAhead < count) visitor.prefetch_next(events[i + kAhead]);
      visitor.on_event(events[i]);
    }
  }
  void report_progress(uint64_t done_bytes, uint64_t total_bytes);

  const LogReader& log_;
  Progress progress_;
  uint64_t reported_bytes_ = 0;
  StreamCounts counts_;
};

}  // namespace gpupeak::collector
