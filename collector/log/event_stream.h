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

// Gives the events of a log, a batch at a time, in the merger's order. EventStream calls it.
//
//   one processor          the caller decodes and merges each batch when it asks for it
//   several                one thread decodes and merges ahead of the caller
//   more, and a long log   several threads do (event_windows.h)
//
// A pass (event.h) must see all events in order, so it runs on the one thread that fills the
// batches.
class EventBatches {
 public:
  /// `pass` sees the events first; nullptr: there is none. It must outlive this. `processors`: for
  /// how many this is made.
  explicit EventBatches(const LogReader& log, EventPass* pass = nullptr,
                        size_t processors = usable_processors());

  struct Noted {
    std::span<const Event> events;
    std::span<const uint32_t> notes;  ///< one for each event, where there is a pass
  };
  /// The next events, valid until the next call. Empty at the end; do not call it after that.
  /// Throws what decoding or the pass threw.
  Noted next();
  /// How much of the log has been decoded, the last batch included.
  uint64_t done_bytes() const { return done_bytes_; }
  uint64_t total_bytes() const { return total_bytes_; }
  /// The counts of all events. Call it at the end.
  StreamCounts counts() const { return windows_ ? windows_->counts() : merger_->counts(); }

 private:
  static constexpr size_t kBatchEvents = 2048;
  static constexpr size_t kBatches = 4;  ///< with the one that the caller has
  /// A shorter log is decoded before a thread has started.
  static constexpr uint64_t kWorthThread = 256 << 10;
  /// Windows are worth it where each of several threads has several.
  static constexpr uint64_t kWorthWindows = 16 * EventWindows::kWindowBytes;

  struct Batch {
    std::vector<Event> events;
    std::vector<uint32_t> notes;
    size_t count = 0;
    uint64_t done_bytes = 0;
    std::exception_ptr error;
  };

  void fill(Batch& batch);
  void fill_ahead(const std::stop_token& stop);
  Noted take(const Batch& batch);

  static size_t window_threads(uint64_t total_bytes, size_t processors);

  const uint64_t total_bytes_;
  EventPass* const pass_;
  std::optional<EventWindows> windows_;
  std::optional<EventMerger> merger_;  // where there are no windows
  std::array<Batch, kBatches> batches_;
  uint64_t done_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  size_t filled_ = 0;   ///< batches, in all
  size_t emptied_ = 0;  ///< batches, in all, with which the caller is done
  bool lent_ = false;   ///< the caller has batch number emptied_
  std::jthread thread_;
};

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
