#include "collector/log/event_merger.h"

#include <algorithm>
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

}  // namespace gpupeak::collector
