// Merges the events of a long log with several threads. The log's time is cut into windows; each
// thread takes the next window and merges what lies in it, while other threads merge theirs.
//
//   time         |  window 1  |  window 2  |  window 3  |
//   1. scanned   thread 1     thread 2     thread 3       slot after slot, each right behind the
//                                                         thread before it
//   2. merged    thread 1     thread 2     thread 3       at the same time
//   3. handed on     first        second       third      in the order of time
//
// To scan a slot is to decode its events and to keep only the place where the window begins. That
// costs a quarter of merging. When a thread merges its window, the earlier windows are not ready.
// So it assumes three things: no earlier event waits for a device event; the first device event has
// the next number; of several events at the window's first time, that of the lowest slot comes
// first. Step 3 checks them. Where one is wrong, the caller merges that window again, event by
// event, and goes on so until no event waits.
//
// EventStream uses this for a long log, if there are processors for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "collector/log/event_merger.h"
#include "collector/log/log_reader.h"

namespace gpupeak::collector {

class EventWindows {
 public:
  /// Some 20,000 events.
  static constexpr uint64_t kWindowBytes = 128 << 10;
  /// How many events of a window are merged ahead; the caller merges the rest. Headers of chunks do
  /// not say how many events a window has.
  static constexpr size_t kMostEvents = 1 << 15;

  /// Starts up to `threads` threads, as many as are to be had. Without any the caller merges all
  /// windows.
  EventWindows(const LogReader& log, size_t threads, uint64_t window_bytes = kWindowBytes);

  /// Puts the next events into `events`, which has kMostEvents, and returns how many. 0 at the end;
  /// do not call it after that. It may swap the vector's memory for another. Throws what decoding
  /// threw.
  size_t next(std::vector<Event>& events);
  /// How much of the log has been decoded, the events of the last next() included.
  uint64_t done_bytes() const { return done_bytes_; }
  /// The counts of all events. Call it at the end.
  StreamCounts counts() const;
  /// How many windows were merged again. Call it at the end.
  size_t merged_again() const { return merged_again_; }

 private:
  static constexpr size_t kWindowsPerThread = 2;
  static constexpr size_t kBatchEvents = 2048;

  /// How far a slot has been scanned. One thread after the other moves it.
  struct alignas(64) Cursor {
    Cursor(const LogReader& log, uint32_t slot);
    void advance(uint64_t until, std::span<Event> scratch);

    EventMerger::Source source;
    bool has_events;
    std::atomic<uint32_t> windows = 0;  ///< how many windows it has been scanned through
  };
  struct Window {
    std::vector<EventMerger::Source> begin;
    std::optional<EventMerger> merger;
    std::vector<Event> events;
    size_t count = 0;
    uint64_t done_bytes = 0;
    bool is_done = false;
    std::exception_ptr error;
  };
  Window& window(size_t number) { return windows_[number % windows_.size()]; }

  void work(const std::stop_token& stop);
  void prepare(size_t number);
  void scan(size_t number);
  void merge(size_t number);
  Window& take_window();

  const LogReader& log_;
  const std::vector<uint64_t> bounds_;
  std::deque<Cursor> cursors_;
  std::vector<Window> windows_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable done_;
  size_t begun_ = 0;
  size_t taken_ = 0;  ///< windows that the caller has taken; it still has the last one
  uint64_t done_bytes_ = 0;
  EventMerger::Turn turn_;             ///< where the caller's window ended
  std::optional<EventMerger> serial_;  ///< merges the rest of the caller's window
  uint64_t missing_device_events_ = 0;
  size_t merged_again_ = 0;
  std::vector<std::jthread> threads_;
};

// Cuts a log's time into windows that can be merged at the same time. EventWindows calls it.

/// The bytes of all chunks of events.
uint64_t total_bytes(const LogReader& log);

/// The last tick of each window, in order; the last window's is UINT64_MAX. Each window has about
/// `window_bytes` of the log. That is an estimate from the chunks' headers, which say when each
/// chunk began, but not when its records were written.
std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes);

}  // namespace gpupeak::collector
