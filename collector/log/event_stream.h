// Goes through the events of a log in the order in which they happened. Replay and the dump call it
// with a visitor.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
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

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/log/parallel.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {

// Merges the slots of a log into the order in which the events happened: by time, and device events
// also by their sequence number. EventStream takes the events from it.
//
//   slot 0   10 malloc               35 malloc
//   slot 1             20 cuMemAlloc, number 2
//   slot 2                       30 cuMemFree, number 1
//   in order: 10 malloc · 30 number 1 · 30 number 2 · 35 malloc
//
// At time 20 number 1 has not been seen: slot 1 is parked, and the other slots go on. Number 1
// comes at 30. The parked number 2 follows at once, and gets the time 30, since time never runs
// backwards. A number that does not turn up within a second of the log's time was lost: it is
// counted, and no longer waited for. While all events of one slot come before those of the other
// slots, that slot is decoded without looking at the others.
//
// A log can be merged in pieces: one merger goes up to a time, and another one goes on from there.
// The second may begin before the first has ended. Then it does not know which device number comes
// next; what it assumed is checked later (follows()).

// EventMerger's queue: the slots of a log by the time of their next event, the earliest first. Two
// slots play a match, the winners of two matches play the next one, and so on. When a slot's event
// changes, only the matches on its own path are played again. The processor cannot guess who wins,
// so each match is decided without a branch: the slot that comes from below stays in registers, and
// the other one is in memory.
//
//   first                0 at 10               0's next event is at 20: it loses to 1 at 15,
//   matches       0 at 10       2 at 12        who loses to 2 at 12
//   slots     0 at 10  1 at 15  2 at 12  –

class LoserTree {
 public:
  /// A slot that has events. Of equal times the lower number comes first.
  struct Slot {
    uint64_t ticks;
    uint32_t number;
  };

  /// Holds slots with numbers smaller than `slots`.
  explicit LoserTree(size_t slots)
      : places_(std::bit_ceil(slots)), matches_(2 * places_, kNobody) {}

  bool empty() const { return matches_[1].order == kNobody.order; }

  // The earliest slot. The queue must not be empty, nor for second_ticks(), move_first() and
  // pop_first().
  Slot first() const { return {matches_[1].ticks, static_cast<uint32_t>(matches_[1].order)}; }
  /// The time of the slot behind the first; UINT64_MAX: there is none.
  uint64_t second_ticks() const {
    uint64_t ticks = UINT64_MAX;
    for (size_t at = place(first().number); at > 1; at /= 2)
      ticks = std::min(ticks, matches_[at ^ 1].ticks);
    return ticks;
  }

  /// Gives the first slot a later time.
  void move_first(uint64_t ticks) { push({ticks, first().number}); }
  void pop_first() { set(first().number, kNobody); }

  /// Adds a slot that is not in the queue.
  void push(const Slot& slot) { set(slot.number, {slot.ticks, kInTurn | slot.number}); }
  /// Puts this slot before all others that have the same time as the first. False: its time is
  /// another one, or it is not in the queue.
  bool put_first(uint32_t number) {
    const Entry& entry = matches_[place(number)];
    if (empty() || entry.order == kNobody.order || entry.ticks != first().ticks) return false;
    set(number, {entry.ticks, number});
    return true;
  }

 private:
  struct Entry {
    uint64_t ticks;
    uint64_t order;  // decides between equal times
  };
  // Every slot has this bit, except the one that was put first.
  static constexpr uint64_t kInTurn = UINT64_C(1) << 32;
  static constexpr Entry kNobody{UINT64_MAX, UINT64_MAX};

  size_t place(uint32_t number) const { return places_ + number; }
  void set(uint32_t number, Entry entry) {
    size_t at = place(number);
    matches_[at] = entry;
    for (; at > 1; at /= 2) {
      const Entry other = matches_[at ^ 1];
      // A mask, since the compiler would make a branch of a condition.
      const bool wins = (other.ticks < entry.ticks) |
                        ((other.ticks == entry.ticks) & (other.order < entry.order));
      const uint64_t differs = -static_cast<uint64_t>(wins);
      entry.ticks ^= (other.ticks ^ entry.ticks) & differs;
      entry.order ^= (other.order ^ entry.order) & differs;
      matches_[at / 2] = entry;
    }
  }

  size_t places_;
  std::vector<Entry> matches_;  // the winner of 2i and 2i + 1 at i; the slots from places_ on
};

class EventMerger {
 public:
  /// A slot that has events left.
  struct Source {
    SlotDecoder decoder;
    Event next;
    /// Of a heap slot: it waits, because the same writer's other slot is parked and comes first.
    bool waits_behind = false;
  };
  /// Where one merger has ended, for the next one to go on.
  struct Turn {
    /// The index of the slot whose turn it is. None: the slot whose event comes first.
    std::optional<uint32_t> slot;
    uint64_t next_sequence = 1;  ///< the next device event's number; kAnySequence: not known yet
  };
  static constexpr uint64_t kAnySequence = 0;

  /// Merges the whole log.
  explicit EventMerger(const LogReader& log);
  /// Goes on where another merger ended. `sources` are in the order of their slots.
  EventMerger(const LogReader& log, std::vector<Source> sources, const Turn& turn);
  EventMerger(EventMerger&&) = default;
  EventMerger(const EventMerger&) = delete;
  EventMerger& operator=(const EventMerger&) = delete;

  /// Puts the next events into `events`, none of them later than `until`, and returns how many.
  /// Fewer than there is room for means that there are no more up to then. Event::ticks never runs
  /// backwards.
  size_t fill(std::span<Event> events, uint64_t until = UINT64_MAX);
  /// Where the next merger goes on. Call it after a fill() that left room.
  Turn turn() const;
  /// Whether events up to that time wait for events that come later.
  bool holds_back() const { return !parked_.empty(); }
  /// For a merger that began with kAnySequence: whether the events that it gave follow directly on
  /// `turn`. If so it may go on.
  bool follows(const Turn& turn);
  StreamCounts counts() const;
  /// Bytes of the chunks that have been decoded.
  uint64_t done_bytes() const;

 private:
  Source* pick();
  size_t run_on(std::span<Event> events, uint64_t until);
  void stop_running(uint64_t next_ticks);
  void begin_with(uint32_t slot);
  uint64_t others_from() const;
  bool held_back(const Event& event) const {
    return is_device_event(event.tag) && event.sequence > next_sequence_ &&
           next_sequence_ != kAnySequence;
  }
  bool waits_behind(Source& source);
  void let_go(Source& source);
  void pass(Event& event);
  void push_ready(uint32_t source) { ready_.push({sources_[source].next.ticks, source}); }

  std::vector<Source> sources_;  // in the order of slots
  LoserTree ready_;              // the sources that have events, by their index in sources_
  // `next` is a device event, and an earlier number has not been seen.
  std::vector<Source*> parked_;
  Source* running_ = nullptr;  // the first of ready_, decoded on until limit_
  uint64_t limit_ = 0;         // when another slot's event may come first
  uint64_t now_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t patience_ticks_;
  bool recheck_ = false;  // a device event has passed while others are parked
  uint64_t missing_device_events_ = 0;
  // What follows() compares with a turn.
  std::optional<uint32_t> first_slot_;
  uint64_t first_sequence_ = 0;  // the largest number that was taken for the next one; 0: none was
  bool has_parked_ = false;
};

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

// Gives the events of a log, a batch at a time, in the merger's order.
//
//   one processor          the caller decodes and merges each batch when it asks for it
//   several                one thread decodes and merges ahead of the caller
//   more, and a long log   several threads do (EventWindows)
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
