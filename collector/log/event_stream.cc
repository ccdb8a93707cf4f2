#include "collector/log/event_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>
#include <utility>

namespace gpupeak::collector {

EventMerger::EventMerger(const LogReader& log)
    : ready_(log.slots().size()), patience_ticks_(log.clock().ticks_per_second()) {
  sources_.reserve(log.slots().size());
  for (uint32_t i = 0; i < log.slots().size(); ++i) {
    Source& source = sources_.emplace_back(Source{SlotDecoder(log, i), {}});
    if (source.decoder.next({&source.next, 1}, 0) > 0) push_ready(i);
  }
}

EventMerger::EventMerger(const LogReader& log, std::vector<Source> sources, const Turn& turn)
    : sources_(std::move(sources)),
      ready_(sources_.size()),
      next_sequence_(turn.next_sequence),
      patience_ticks_(log.clock().ticks_per_second()) {
  for (uint32_t i = 0; i < sources_.size(); ++i) push_ready(i);
  if (turn.slot) begin_with(*turn.slot);
  if (!ready_.empty()) first_slot_ = sources_[ready_.first().number].decoder.slot_index();
}

/// The slot that was running goes on, if its event is among the first: several can have the same
/// time.
void EventMerger::begin_with(uint32_t slot) {
  const auto source = std::ranges::find_if(
      sources_, [slot](const Source& one) { return one.decoder.slot_index() == slot; });
  if (source == sources_.end()) return;
  if (!ready_.put_first(static_cast<uint32_t>(source - sources_.begin()))) return;
  running_ = &*source;
  limit_ = others_from();
}

uint64_t EventMerger::done_bytes() const {
  uint64_t bytes = 0;
  for (const Source& source : sources_) bytes += source.decoder.done_bytes();
  return bytes;
}

StreamCounts EventMerger::counts() const {
  StreamCounts counts;
  for (const Source& source : sources_) counts += source.decoder.counts();
  counts.missing_device_events += missing_device_events_;
  return counts;
}

EventMerger::Turn EventMerger::turn() const {
  Turn turn{.slot = {}, .next_sequence = next_sequence_};
  if (running_ != nullptr) turn.slot = running_->decoder.slot_index();
  return turn;
}

bool EventMerger::follows(const Turn& turn) {
  if (has_parked_ || first_sequence_ > turn.next_sequence) return false;
  if (turn.slot && turn.slot != first_slot_) return false;
  next_sequence_ = std::max(next_sequence_, turn.next_sequence);
  if (running_ != nullptr && held_back(running_->next)) stop_running(running_->next.ticks);
  return true;
}

size_t EventMerger::fill(std::span<Event> events, uint64_t until) {
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

/// Decodes further events of the running slot into `events`, as long as no other slot's event comes
/// before them. Returns how many. The event behind them is the slot's `next`.
size_t EventMerger::run_on(std::span<Event> events, uint64_t until) {
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

void EventMerger::stop_running(uint64_t next_ticks) {
  ready_.move_first(next_ticks);
  running_ = nullptr;
}

void EventMerger::pass(Event& event) {
  event.ticks = now_ = std::max(now_, event.ticks);
  if (!is_device_event(event.tag)) return;
  if (next_sequence_ == kAnySequence) first_sequence_ = std::max(first_sequence_, event.sequence);
  next_sequence_ = std::max(next_sequence_, event.sequence + 1);
  recheck_ = !parked_.empty();
}

/// Whether this is a heap slot whose writer's other slot is parked: that one's event comes first.
bool EventMerger::waits_behind(Source& source) {
  const uint32_t writer = source.decoder.writer();
  return writer != source.decoder.slot_index() &&
         std::ranges::any_of(parked_, [writer](const Source* parked) {
           return parked->decoder.slot_index() == writer;
         });
}

/// Makes a parked source ready again, and the heap slot that waits behind it.
void EventMerger::let_go(Source& source) {
  const auto number = static_cast<uint32_t>(&source - sources_.data());
  push_ready(number);
  if (number + 1 == sources_.size()) return;
  Source& behind = sources_[number + 1];
  if (!behind.waits_behind || behind.decoder.writer() != source.decoder.writer()) return;
  behind.waits_behind = false;
  push_ready(number + 1);
}

/// The slot whose event is next, or nullptr at the end. It stays the first of ready_.
EventMerger::Source* EventMerger::pick() {
  while (true) {
    recheck_ = false;
    const auto due = std::ranges::find_if(
        parked_, [this](const Source* source) { return source->next.sequence <= next_sequence_; });
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

/// The time up to which the first slot of ready_ can go on before another one must be looked at.
uint64_t EventMerger::others_from() const {
  uint64_t from = ready_.second_ticks();
  for (const Source* source : parked_) {
    const uint64_t ticks = source->next.ticks;
    from =
        std::min(from, ticks > UINT64_MAX - patience_ticks_ ? UINT64_MAX : ticks + patience_ticks_);
  }
  return from;
}

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

void EventStream::report_progress(uint64_t done_bytes) {
  if (done_bytes < total_bytes_ && done_bytes - reported_bytes_ < kProgressStepBytes) return;
  reported_bytes_ = done_bytes;
  if (progress_) progress_(done_bytes, total_bytes_);
}

/// How many threads merge windows. 0: there are too few processors or too few events for windows.
size_t EventStream::window_threads(uint64_t total_bytes, size_t processors) {
  // More threads gain little: the caller does not take events as fast as these make them.
  constexpr size_t kMost = 8;
  if (total_bytes < kWorthWindows || processors <= kReplayThreads) return 0;
  return std::min(kMost, processors - kReplayThreads);
}

EventStream::EventStream(const LogReader& log, Progress progress, EventPass pass, size_t processors)
    : log_(log),
      progress_(std::move(progress)),
      pass_(std::move(pass)),
      total_bytes_(total_bytes(log)) {
  if (const size_t threads = window_threads(total_bytes_, processors); threads > 0)
    windows_.emplace(log, threads);
  else
    merger_.emplace(log);
  for (Batch& batch : batches_) {  // here: malloc keeps what threads that have ended allocated
    batch.events.resize(windows_ ? EventWindows::kMostEvents : kBatchEvents);
    if (pass_) batch.notes.resize(batch.events.size());
  }
  if (total_bytes_ < kWorthThread || processors < 2) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { fill_ahead(stop); });
  } catch (const std::system_error&) {
    // No thread is to be had: the caller does all the work.
  }
}

void EventStream::fill(Batch& batch) {
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
void EventStream::fill_ahead(const std::stop_token& stop) {
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

/// The next batch, valid until the next call. Do not call it after the end.
const EventStream::Batch& EventStream::next() {
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

}  // namespace gpupeak::collector
