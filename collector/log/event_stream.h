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
#include <system_error>
#include <thread>
#include <utility>
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
  explicit EventMerger(const LogReader& log)
      : ready_(log.slots().size()), patience_ticks_(log.clock().ticks_per_second()) {
    sources_.reserve(log.slots().size());
    for (uint32_t i = 0; i < log.slots().size(); ++i) {
      Source& source = sources_.emplace_back(Source{SlotDecoder(log, i), {}});
      if (source.decoder.next({&source.next, 1}, 0) > 0) push_ready(i);
    }
  }
  /// Goes on where another merger ended. `sources` are in the order of their slots.
  EventMerger(const LogReader& log, std::vector<Source> sources, const Turn& turn)
      : sources_(std::move(sources)),
        ready_(sources_.size()),
        next_sequence_(turn.next_sequence),
        patience_ticks_(log.clock().ticks_per_second()) {
    for (uint32_t i = 0; i < sources_.size(); ++i) push_ready(i);
    if (turn.slot) begin_with(*turn.slot);
    if (!ready_.empty()) first_slot_ = sources_[ready_.first().number].decoder.slot_index();
  }
  EventMerger(EventMerger&&) = default;
  EventMerger(const EventMerger&) = delete;
  EventMerger& operator=(const EventMerger&) = delete;

  /// Puts the next events into `events`, none of them later than `until`, and returns how many.
  /// Fewer than there is room for means that there are no more up to then. Event::ticks never runs
  /// backwards.
  size_t fill(std::span<Event> events, uint64_t until = UINT64_MAX) {
    size_t count = 0;
    while (count < events.size()) {
      if (running_ == nullptr) {
        running_ = pick();
        if (running_ == nullptr) break;
        limit_ = others_from();
      }
      if (running_->next.ticks > until) break;
      events[count] = running_->next;
      pass(events[count]);
      count += 1 + run_on(events.subspan(count + 1), until);
    }
    return count;
  }
  /// Where the next merger goes on. Call it after a fill() that left room.
  Turn turn() const {
    Turn turn{.slot = {}, .next_sequence = next_sequence_};
    if (running_ != nullptr) turn.slot = running_->decoder.slot_index();
    return turn;
  }
  /// Whether events up to that time wait for events that come later.
  bool holds_back() const { return !parked_.empty(); }
  /// For a merger that began with kAnySequence: whether the events that it gave follow directly on
  /// `turn`. If so it may go on.
  bool follows(const Turn& turn) {
    if (has_parked_ || first_sequence_ > turn.next_sequence) return false;
    if (turn.slot && turn.slot != first_slot_) return false;
    next_sequence_ = std::max(next_sequence_, turn.next_sequence);
    if (running_ != nullptr && held_back(running_->next)) stop_running(running_->next.ticks);
    return true;
  }
  StreamCounts counts() const {
    StreamCounts counts;
    for (const Source& source : sources_) counts += source.decoder.counts();
    counts.missing_device_events += missing_device_events_;
    return counts;
  }
  /// Bytes of the chunks that have been decoded.
  uint64_t done_bytes() const {
    return sum_of(sources_, [](const Source& source) { return source.decoder.done_bytes(); });
  }

 private:
  /// The slot whose event is next, or nullptr at the end. It stays the first of ready_.
  Source* pick() {
    while (true) {
      recheck_ = false;
      const auto due = std::ranges::find_if(parked_, [this](const Source* source) {
        return source->next.sequence <= next_sequence_;
      });
      if (due != parked_.end()) {
        Source& source = **due;
        parked_.erase(due);
        let_go(source);
        continue;
      }
      if (!parked_.empty()) {
        // A number that does not turn up within a second of the log's time was lost.
        const Source* first = *std::ranges::min_element(
            parked_, [](auto* a, auto* b) { return a->next.sequence < b->next.sequence; });
        if (ready_.empty() || ready_.first().ticks > first->next.ticks + patience_ticks_) {
          missing_device_events_ += first->next.sequence - next_sequence_;
          next_sequence_ = first->next.sequence;
          continue;
        }
      }
      if (ready_.empty()) return nullptr;
      Source& source = sources_[ready_.first().number];
      if (!parked_.empty() && waits_behind(source)) {
        ready_.pop_first();
        source.waits_behind = true;
        continue;
      }
      if (!held_back(source.next)) return &source;
      ready_.pop_first();
      parked_.push_back(&source);
      has_parked_ = true;
    }
  }
  /// Decodes further events of the running slot into `events`, as long as no other slot's event
  /// comes before them. Returns how many. The event behind them is the slot's `next`.
  size_t run_on(std::span<Event> events, uint64_t until) {
    const uint64_t limit = std::min(limit_, until);
    size_t count = 0;
    while (true) {
      const std::span<Event> next{&running_->next, 1};
      const bool in_place = count < events.size() && !recheck_;
      const std::span<Event> room = in_place ? events.subspan(count) : next;
      const size_t decoded = running_->decoder.next(room, limit);
      if (decoded == 0) {
        ready_.pop_first();
        running_ = nullptr;
        return count;
      }
      for (Event& event : room.first(decoded - 1)) pass(event);
      count += decoded - 1;
      Event& last = room[decoded - 1];
      if (last.ticks > limit || recheck_ || held_back(last)) {
        if (in_place) running_->next = last;
        if (last.ticks > limit_ || recheck_ || held_back(last)) stop_running(last.ticks);
        return count;
      }
      if (!in_place) return count;
      pass(last);
      ++count;
    }
  }
  void stop_running(uint64_t next_ticks) {
    ready_.move_first(next_ticks);
    running_ = nullptr;
  }
  /// The slot that was running goes on, if its event is among the first: several can have the same
  /// time.
  void begin_with(uint32_t slot) {
    const auto source = std::ranges::find_if(
        sources_, [slot](const Source& one) { return one.decoder.slot_index() == slot; });
    if (source == sources_.end()) return;
    if (!ready_.put_first(static_cast<uint32_t>(source - sources_.begin()))) return;
    running_ = &*source;
    limit_ = others_from();
  }
  /// The time up to which the first slot of ready_ can go on before another one must be looked at.
  uint64_t others_from() const {
    uint64_t from = ready_.second_ticks();
    for (const Source* source : parked_) {
      const uint64_t ticks = source->next.ticks;
      from = std::min(from,
                      ticks > UINT64_MAX - patience_ticks_ ? UINT64_MAX : ticks + patience_ticks_);
    }
    return from;
  }
  bool held_back(const Event& event) const {
    return is_device_event(event.tag) && event.sequence > next_sequence_ &&
           next_sequence_ != kAnySequence;
  }
  /// Whether this is a heap slot whose writer's other slot is parked: that one's event comes first.
  bool waits_behind(Source& source) {
    const uint32_t writer = source.decoder.writer();
    return writer != source.decoder.slot_index() &&
           std::ranges::any_of(parked_, [writer](const Source* parked) {
             return parked->decoder.slot_index() == writer;
           });
  }
  /// Makes a parked source ready again, and the heap slot that waits behind it.
  void let_go(Source& source) {
    const auto number = static_cast<uint32_t>(&source - sources_.data());
    push_ready(number);
    if (number + 1 == sources_.size()) return;
    Source& behind = sources_[number + 1];
    if (!behind.waits_behind || behind.decoder.writer() != source.decoder.writer()) return;
    behind.waits_behind = false;
    push_ready(number + 1);
  }
  void pass(Event& event) {
    event.ticks = now_ = std::max(now_, event.ticks);
    if (!is_device_event(event.tag)) return;
    if (next_sequence_ == kAnySequence) first_sequence_ = std::max(first_sequence_, event.sequence);
    next_sequence_ = std::max(next_sequence_, event.sequence + 1);
    recheck_ = !parked_.empty();
  }
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

// Cuts a log's time into windows that can be merged at the same time. EventWindows calls it.

/// The bytes of all chunks of events.
uint64_t total_bytes(const LogReader& log);

/// The last tick of each window, in order; the last window's is UINT64_MAX. Each window has about
/// `window_bytes` of the log. That is an estimate from the chunks' headers, which say when each
/// chunk began, but not when its records were written.
std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes);

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
  EventWindows(const LogReader& log, size_t threads, uint64_t window_bytes = kWindowBytes)
      : log_(log),
        bounds_(window_bounds(log, window_bytes)),
        windows_(std::max<size_t>(1, threads * kWindowsPerThread)) {
    for (uint32_t i = 0; i < log.slots().size(); ++i) cursors_.emplace_back(log, i);
    for (Window& window : windows_) {
      window.begin.reserve(cursors_.size());
      // Here: malloc keeps what threads that have ended allocated.
      window.events.resize(kMostEvents);
    }
    try {
      while (threads_.size() < threads)
        threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    } catch (const std::system_error&) {
      // No more threads are to be had: those that were started do all, or the caller does.
    }
  }

  /// Puts the next events into `events`, which has kMostEvents, and returns how many. 0 at the end;
  /// do not call it after that. It may swap the vector's memory for another. Throws what decoding
  /// threw.
  size_t next(std::vector<Event>& events) {
    while (true) {
      if (serial_) {
        const size_t count =
            serial_->fill(std::span(events).first(kBatchEvents), bounds_[taken_ - 1]);
        if (count > 0) return count;
        if (serial_->holds_back()) {
          take_window();  // serial_ merges it, too
          continue;
        }
        turn_ = serial_->turn();
        missing_device_events_ += serial_->counts().missing_device_events;
        serial_.reset();
      }
      if (taken_ == bounds_.size()) return 0;
      Window& window = take_window();
      if (!window.merger->follows(turn_)) {
        ++merged_again_;
        serial_.emplace(log_, window.begin, turn_);
        continue;
      }
      turn_ = window.merger->turn();
      if (window.count == kMostEvents) serial_.emplace(std::move(*window.merger));
      if (window.count == 0) continue;
      events.swap(window.events);
      return window.count;
    }
  }
  /// How much of the log has been decoded, the events of the last next() included.
  uint64_t done_bytes() const { return done_bytes_; }
  /// The counts of all events. Call it at the end.
  StreamCounts counts() const {
    StreamCounts counts;
    for (const Cursor& cursor : cursors_) counts += cursor.source.decoder.counts();
    counts.missing_device_events += missing_device_events_;
    return counts;
  }
  /// How many windows were merged again. Call it at the end.
  size_t merged_again() const { return merged_again_; }

 private:
  static constexpr size_t kWindowsPerThread = 2;
  static constexpr size_t kBatchEvents = 2048;

  /// How far a slot has been scanned. One thread after the other moves it.
  struct alignas(64) Cursor {
    Cursor(const LogReader& log, uint32_t slot) : source{SlotDecoder(log, slot), {}} {
      source.decoder.keep_chunks(true);
      has_events = source.decoder.next({&source.next, 1}, 0) > 0;
    }
    /// Goes to the slot's first event later than `until`.
    void advance(uint64_t until, std::span<Event> scratch) {
      while (has_events && source.next.ticks <= until) {
        const size_t decoded = source.decoder.next(scratch, until);
        has_events = decoded > 0;
        if (has_events) source.next = scratch[decoded - 1];
      }
    }

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

  void work(const std::stop_token& stop) {
    while (true) {
      size_t number;
      {
        std::unique_lock lock(mutex_);
        const auto has_room = [this] {
          const size_t left = taken_ == 0 ? 0 : taken_ - 1;
          return begun_ == bounds_.size() || begun_ - left < windows_.size();
        };
        if (!room_.wait(lock, stop, has_room) || begun_ == bounds_.size()) return;
        number = begun_++;
      }
      prepare(number);
      {
        const std::lock_guard lock(mutex_);
        window(number).is_done = true;
      }
      done_.notify_one();
    }
  }
  void prepare(size_t number) {
    scan(number);
    Window& window = this->window(number);
    try {
      window.merger.emplace(
          log_, window.begin,
          EventMerger::Turn{.slot = {}, .next_sequence = EventMerger::kAnySequence});
      window.count = window.merger->fill(window.events, bounds_[number]);
    } catch (...) {
      window.error = std::current_exception();
    }
  }
  /// Waits at each slot until the window before this one has been scanned there. Never throws, or
  /// other threads would wait for ever.
  void scan(size_t number) {
    Window& window = this->window(number);
    std::array<Event, 128> scratch;
    window.begin.clear();
    window.done_bytes = 0;
    for (Cursor& cursor : cursors_) {
      uint32_t windows;
      while ((windows = cursor.windows.load(std::memory_order_acquire)) != number)
        cursor.windows.wait(windows, std::memory_order_acquire);
      if (cursor.has_events) {
        window.begin.push_back(cursor.source);
        window.begin.back().decoder.keep_chunks(false);
      }
      cursor.advance(bounds_[number], scratch);
      window.done_bytes += cursor.source.decoder.done_bytes();
      cursor.windows.store(static_cast<uint32_t>(number + 1), std::memory_order_release);
      cursor.windows.notify_all();
    }
  }
  /// Waits until the next window is merged and returns it. The caller gives back the one that it
  /// had.
  Window& take_window() {
    const size_t number = taken_;
    Window& window = this->window(number);
    if (threads_.empty()) {
      prepare(number);
      ++taken_;
    } else {
      std::unique_lock lock(mutex_);
      ++taken_;
      room_.notify_one();
      done_.wait(lock, [&window] { return window.is_done; });
      window.is_done = false;
    }
    if (window.error) std::rethrow_exception(window.error);
    done_bytes_ = window.done_bytes;
    return window;
  }

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
                       size_t processors = usable_processors())
      : log_(log),
        progress_(std::move(progress)),
        pass_(std::move(pass)),
        total_bytes_(total_bytes(log)) {
    if (const size_t threads = window_threads(total_bytes_, processors); threads > 0)
      windows_.emplace(log, threads);
    else
      merger_.emplace(log);
    const bool is_short = total_bytes_ < kWorthThread, goes_ahead = !is_short && processors >= 2;
    // Here, since malloc keeps what threads that have ended allocated.
    for (Batch& batch : std::span(batches_).first(goes_ahead ? kBatches : 1)) {
      batch.events.resize(windows_   ? EventWindows::kMostEvents
                          : is_short ? kShortEvents
                                     : kBatchEvents);
      if (pass_) batch.notes.resize(batch.events.size());
    }
    if (!goes_ahead) return;
    try {
      thread_ = std::jthread([this](const std::stop_token& stop) { fill_ahead(stop); });
    } catch (const std::system_error&) {
      // No thread is to be had: the caller does all the work.
    }
  }

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
  static constexpr size_t kShortEvents = 256;  ///< of a short log the new memory takes longest
  static constexpr size_t kBatches = 4;        ///< with the one that the caller has
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

  /// The next batch, valid until the next call. Do not call it after the end.
  const Batch& next() {
    if (!thread_.joinable()) {
      fill(batches_[0]);
      return batches_[0];
    }
    std::unique_lock lock(mutex_);
    emptied_ += lent_ ? 1 : 0;
    lent_ = true;
    if (filled_ - emptied_ == kBatches / 2) changed_.notify_one();
    changed_.wait(lock, [this] { return filled_ > emptied_; });
    const Batch& batch = batches_[emptied_ % kBatches];
    if (batch.error) std::rethrow_exception(batch.error);
    return batch;
  }
  void fill(Batch& batch) {
    if (windows_) {
      batch.count = windows_->next(batch.events);
      batch.done_bytes = windows_->done_bytes();
    } else {
      batch.count = merger_->fill(batch.events);
      batch.done_bytes = merger_->done_bytes();
    }
    if (pass_) pass_({batch.events.data(), batch.count}, batch.notes);
  }
  /// What the thread does: fills batches up to the end, which is an empty batch.
  void fill_ahead(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        // Does not wake for each batch: waking takes as long as decoding some hundred events.
        std::unique_lock lock(mutex_);
        const auto half_empty = [this] { return filled_ - emptied_ <= kBatches / 2; };
        if (filled_ - emptied_ == kBatches && !changed_.wait(lock, stop, half_empty)) return;
      }
      Batch& batch = batches_[filled_ % kBatches];
      try {
        fill(batch);
      } catch (...) {
        batch.count = 0;
        batch.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        ++filled_;
      }
      changed_.notify_one();
      if (batch.count == 0) return;
    }
  }
  void report_progress(uint64_t done_bytes) {
    if (done_bytes < total_bytes_ && done_bytes - reported_bytes_ < kProgressStepBytes) return;
    reported_bytes_ = done_bytes;
    if (progress_) progress_(done_bytes, total_bytes_);
  }

  /// How many threads merge windows. 0: there are too few processors or too few events for windows.
  static size_t window_threads(uint64_t total_bytes, size_t processors) {
    // More threads gain little: the caller does not take events as fast as these make them.
    constexpr size_t kMost = 8;
    if (total_bytes < kWorthWindows || processors <= kReplayThreads) return 0;
    return std::min(kMost, processors - kReplayThreads);
  }

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
