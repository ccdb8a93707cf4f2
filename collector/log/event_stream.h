// Goes through the events of a log in the order in which they happened. Replay and the dump call it
// with a visitor.
#pragma once

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

  /// Calls visit(events, notes) for one batch after the other, in order. Event::ticks never runs
  /// backwards. `pass` sees all events first and makes the notes; without one there are none.
  /// Throws LogError if the file was cut meanwhile.
  template <class Visit>
  void run(const Visit& visit, EventPass* pass = nullptr) {
    EventBatches batches(log_, pass);
    for (auto batch = batches.next(); !batch.events.empty(); batch = batches.next()) {
      visit(batch.events, batch.notes);
      report_progress(batches.done_bytes(), batches.total_bytes());
    }
    report_progress(batches.total_bytes(), batches.total_bytes());
    counts_ = batches.counts();
    log_.require_whole();
  }

  /// Call it after run().
  const StreamCounts& counts() const { return counts_; }

 private:
  static constexpr uint64_t kProgressStepBytes = 1 << 20;

  void report_progress(uint64_t done_bytes, uint64_t total_bytes);

  const LogReader& log_;
  Progress progress_;
  uint64_t reported_bytes_ = 0;
  StreamCounts counts_;
};

}  // namespace gpupeak::collector
