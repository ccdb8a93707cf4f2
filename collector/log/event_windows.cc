#include "collector/log/event_windows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>
#include <utility>

namespace gpupeak::collector {

EventWindows::Cursor::Cursor(const LogReader& log, uint32_t slot)
    : source{SlotDecoder(log, slot), {}} {
  source.decoder.keep_chunks(true);
  has_events = source.decoder.next({&source.next, 1}, 0) > 0;
}

/// Goes to the slot's first event later than `until`.
void EventWindows::Cursor::advance(uint64_t until, std::span<Event> scratch) {
  while (has_events && source.next.ticks <= until) {
    const size_t decoded = source.decoder.next(scratch, until);
    has_events = decoded > 0;
    if (has_events) source.next = scratch[decoded - 1];
  }
}

EventWindows::EventWindows(const LogReader& log, size_t threads, uint64_t window_bytes)
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

void EventWindows::work(const std::stop_token& stop) {
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

void EventWindows::prepare(size_t number) {
  scan(number);
  try {
    merge(number);
  } catch (...) {
    window(number).error = std::current_exception();
  }
}

/// Waits at each slot until the window before this one has been scanned there. Never throws, or
/// other threads would wait for ever.
void EventWindows::scan(size_t number) {
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

void EventWindows::merge(size_t number) {
  Window& window = this->window(number);
  window.merger.emplace(log_, window.begin,
                        EventMerger::Turn{.slot = {}, .next_sequence = EventMerger::kAnySequence});
  window.count = window.merger->fill(window.events, bounds_[number]);
}

/// Waits until the next window is merged and returns it. The caller gives back the one that it had.
EventWindows::Window& EventWindows::take_window() {
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

size_t EventWindows::next(std::vector<Event>& events) {
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

StreamCounts EventWindows::counts() const {
  StreamCounts counts;
  for (const Cursor& cursor : cursors_) counts += cursor.source.decoder.counts();
  counts.missing_device_events += missing_device_events_;
  return counts;
}

namespace {

/// At `ticks`, `at_once` bytes are written, and from then on so many bytes more for each tick.
struct Change {
  uint64_t ticks;
  double bytes_per_tick;
  double at_once;
};

/// A chunk is assumed to fill evenly until its slot's next chunk begins, or until the last chunk of
/// the log does.
std::vector<Change> changes_of(const LogReader& log) {
  uint64_t last = 0;
  for (const Slot& slot : log.slots()) {
    for (const Chunk& chunk : slot.chunks) last = std::max(last, chunk.start_ticks);
  }
  std::vector<Change> changes;
  for (const Slot& slot : log.slots()) {
    for (size_t i = 0; i < slot.chunks.size(); ++i) {
      const Chunk& chunk = slot.chunks[i];
      const auto bytes = static_cast<double>(chunk.end - chunk.begin);
      const uint64_t end = i + 1 < slot.chunks.size() ? slot.chunks[i + 1].start_ticks : last;
      if (end <= chunk.start_ticks) {
        changes.push_back({chunk.start_ticks, 0, bytes});
        continue;
      }
      const double rate = bytes / static_cast<double>(end - chunk.start_ticks);
      changes.push_back({chunk.start_ticks, rate, 0});
      changes.push_back({end, -rate, 0});
    }
  }
  std::ranges::sort(changes, {}, &Change::ticks);
  return changes;
}

}  // namespace

uint64_t total_bytes(const LogReader& log) {
  uint64_t bytes = 0;
  for (const Slot& slot : log.slots()) {
    for (const Chunk& chunk : slot.chunks) bytes += chunk.end - chunk.begin;
  }
  return bytes;
}

std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes) {
  const auto wanted = static_cast<double>(window_bytes);
  std::vector<uint64_t> bounds;
  double rate = 0, bytes = 0;
  uint64_t from = 0;
  // Damaged times can be so far apart that rounding errors would make windows without end.
  const size_t most = 2 * (total_bytes(log) / window_bytes + 1);
  const auto cut = [&](uint64_t ticks) {
    bytes = 0;
    from = ticks;
    if (bounds.size() < most && (bounds.empty() || ticks > bounds.back())) bounds.push_back(ticks);
  };
  for (const Change& change : changes_of(log)) {
    while (rate > 0 && bounds.size() < most) {
      const double ticks_left = (wanted - bytes) / rate;
      if (ticks_left >= static_cast<double>(change.ticks - from)) break;
      cut(std::min(change.ticks, from + static_cast<uint64_t>(ticks_left) + 1));
    }
    bytes += std::max(rate, 0.0) * static_cast<double>(change.ticks - from);
    from = change.ticks;
    rate += change.bytes_per_tick;
    bytes += change.at_once;
    if (bytes >= wanted) cut(change.ticks);
  }
  if (bounds.empty() || bounds.back() != UINT64_MAX) bounds.push_back(UINT64_MAX);
  return bounds;
}

}  // namespace gpupeak::collector
