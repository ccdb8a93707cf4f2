#include "collector/log/event_merger.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

EventMerger::EventMerger(const LogReader& log) : patience_ticks_(log.clock().ticks_per_second()) {
  sources_.reserve(log.slots().size());
  for (uint32_t i = 0; i < log.slots().size(); ++i) {
    Source& source = sources_.emplace_back(Source{SlotDecoder(log, i), {}});
    if (source.decoder.next({&source.next, 1}, 0) > 0) push_ready(i);
  }
}

EventMerger::EventMerger(const LogReader& log, std::vector<Source> sources, const Turn& turn)
    : sources_(std::move(sources)),
      next_sequence_(turn.next_sequence),
      patience_ticks_(log.clock().ticks_per_second()) {
  ready_.reserve(sources_.size());
  for (uint32_t i = 0; i < sources_.size(); ++i) push_ready(i);
  if (turn.slot) begin_with(*turn.slot);
  if (!ready_.empty()) first_slot_ = sources_[ready_.front().source].next.slot;
}

/// Of slots whose events are the first at the same time, the one that was running goes on.
void EventMerger::begin_with(uint32_t slot) {
  const auto first = std::find_if(ready_.begin(), ready_.end(), [&](const Ready& ready) {
    return sources_[ready.source].next.slot == slot;
  });
  if (first == ready_.end() || first->ticks != ready_.front().ticks) return;
  const uint32_t source = first->source;
  std::make_heap(ready_.begin(), ready_.end(), [source](const Ready& a, const Ready& b) {
    const bool tie = a.ticks == b.ticks && a.source != b.source;
    if (tie && (a.source == source || b.source == source)) return b.source == source;
    return b < a;
  });
  running_ = &sources_[source];
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
  if (running_ != nullptr) turn.slot = running_->next.slot;
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

/// The running slot's further events are decoded in place, for as long as no other slot's come
/// before them. Returns how many these are; what follows them is the slot's `next`.
size_t EventMerger::run_on(std::span<Event> events, uint64_t until) {
  const uint64_t limit = std::min(limit_, until);
  size_t count = 0;
  while (true) {
    const std::span<Event> next{&running_->next, 1};
    const bool in_place = count < events.size() && !recheck_;
    const std::span<Event> room = in_place ? events.subspan(count) : next;
    const size_t decoded = running_->decoder.next(room, limit);
    if (decoded == 0) {
      remove_first();
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
  ready_.front().ticks = next_ticks;
  sift_down();
  running_ = nullptr;
}

void EventMerger::pass(Event& event) {
  event.ticks = now_ = std::max(now_, event.ticks);
  if (!is_device_event(event.tag)) return;
  if (next_sequence_ == kAnySequence) first_sequence_ = std::max(first_sequence_, event.sequence);
  next_sequence_ = std::max(next_sequence_, event.sequence + 1);
  recheck_ = !parked_.empty();
}

void EventMerger::push_ready(uint32_t source) {
  ready_.push_back({sources_[source].next.ticks, source});
  std::push_heap(ready_.begin(), ready_.end(),
                 [](const Ready& a, const Ready& b) { return b < a; });
}

/// Restores the heap after its first entry has become later.
void EventMerger::sift_down() {
  size_t at = 0;
  while (true) {
    size_t child = 2 * at + 1;
    if (child >= ready_.size()) return;
    if (child + 1 < ready_.size()) child += ready_[child + 1] < ready_[child] ? 1 : 0;
    if (!(ready_[child] < ready_[at])) return;
    std::swap(ready_[child], ready_[at]);
    at = child;
  }
}

void EventMerger::remove_first() {
  ready_.front() = ready_.back();
  ready_.pop_back();
  sift_down();
}

/// The slot whose event is next, which stays the heap's first; nullptr at the end.
EventMerger::Source* EventMerger::pick() {
  while (true) {
    recheck_ = false;
    const auto due = std::find_if(parked_.begin(), parked_.end(), [this](const Source* source) {
      return source->next.sequence <= next_sequence_;
    });
    if (due != parked_.end()) {
      const auto source = static_cast<uint32_t>(*due - sources_.data());
      parked_.erase(due);
      push_ready(source);
      continue;
    }
    if (!parked_.empty()) {
      // A number that does not turn up within a second of the log's time was lost.
      const Source* first = *std::min_element(parked_.begin(), parked_.end(), [](auto* a, auto* b) {
        return a->next.sequence < b->next.sequence;
      });
      if (ready_.empty() || ready_.front().ticks > first->next.ticks + patience_ticks_) {
        missing_device_events_ += first->next.sequence - next_sequence_;
        next_sequence_ = first->next.sequence;
        continue;
      }
    }
    if (ready_.empty()) return nullptr;
    Source& source = sources_[ready_.front().source];
    if (!held_back(source.next)) return &source;
    remove_first();
    parked_.push_back(&source);
    has_parked_ = true;
  }
}

/// The time up to which the heap's first slot goes on undisturbed.
uint64_t EventMerger::others_from() const {
  uint64_t from = UINT64_MAX;
  for (size_t child = 1; child < std::min<size_t>(ready_.size(), 3); ++child) {
    from = std::min(from, ready_[child].ticks);
  }
  for (const Source* source : parked_) {
    const uint64_t ticks = source->next.ticks;
    from =
        std::min(from, ticks > UINT64_MAX - patience_ticks_ ? UINT64_MAX : ticks + patience_ticks_);
  }
  return from;
}

}  // namespace gpupeak::collector
