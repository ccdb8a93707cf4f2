// Goes through the events of a log in the order in which they happened. Replay and the dump call it
// with a visitor.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/event_merger.h"
#include "collector/log/event_windows.h"
#include "collector/log/log_reader.h"
#include "collector/log/parallel.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {

// Gives the events of a log, a batch at a time, in the merger's order.
//
//   one processor          the caller decodes and merges each batch when it asks for it
//   several                one thread decodes and merges ahead of the caller
//   more, and a long log   several threads do (event_windows.h)
//
// A pass (event.h) must see all events in order, so it runs on the one thread that fills the
// batches.
class EventStream {
 public:
  /// `pass` sees the events first; empty: there is none. `processors`: for how many this is made.
  explicit EventStream(const LogReader& log, Progress progress = {}, EventPass pass = {},
                       size_t processors = usable_processors());

  /// Calls visit(events, notes) for one batch after the other, in order. Event::ticks never runs
  /// backwards. Without a pass there are no notes. Throws what decoding or the pass threw, and
  /// LogError if the file was cut meanwhile.
  template <class Visit>
  void run(const Visit& visit) {
    for (const Batch* batch; (batch = &next())->count > 0;) {
      visit(std::span<const Event>(batch->events.data(), batch->count),
            std::span<const uint32_t>(batch->notes));
      report_progress(batch->done_bytes);
    }
    report_progress(total_bytes_);
    log_.require_whole();
  }

  /// The counts of all events. Call it after run().
  StreamCounts counts() const { return windows_ ? windows_->counts() : merger_->counts(); }

 private:
  static constexpr size_t kBatchEvents = 2048;
  static constexpr size_t kBatches = 4;  ///< with the one that the caller has
  /// A shorter log is decoded before a thread has started.
  static constexpr uint64_t kWorthThread = 256 << 10;
  /// Windows are worth it where each of several threads has several.
  static constexpr uint64_t kWorthWindows = 16 * EventWindows::kWindowBytes;
  static constexpr uint64_t kProgressStepBytes = 1 << 20;

  struct Batch {
    std::vector<Event> events;
    std::vector<uint32_t> notes;  ///< one for each event, where there is a pass
    size_t count = 0;             ///< of the events; 0: at the end
    uint64_t done_bytes = 0;      ///< how much of the log has been decoded, this batch included
    std::exception_ptr error;
  };

  const Batch& next();
  void fill(Batch& batch);
  void fill_ahead(const std::stop_token& stop);
  void report_progress(uint64_t done_bytes);

  static size_t window_threads(uint64_t total_bytes, size_t processors);

  const LogReader& log_;
  const Progress progress_;
  const EventPass pass_;
  const uint64_t total_bytes_;
  uint64_t reported_bytes_ = 0;
  std::optional<EventWindows> windows_;
  std::optional<EventMerger> merger_;  // where there are no windows
  std::array<Batch, kBatches> batches_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  size_t filled_ = 0;   ///< batches, in all
  size_t emptied_ = 0;  ///< batches, in all, with which the caller is done
  bool lent_ = false;   ///< the caller has batch number emptied_
  std::jthread thread_;
};

}  // namespace gpupeak::collector
