#include "collector/log/event_merger.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

EventMerger::EventMerger(const LogReader& log) : patience_ticks_(log.clock().ticks_per_second()) {
  sources_.reserve(log.slots().size());
  for (uint32_t i = 0; i < log.slots().size(); ++i) {
    for (const Chunk& chunk : log.slots()[i].chunks) total_bytes_ += chunk.end - chunk.begin;
    Source& source = sources_.emplace_back(Source{SlotDecoder(log, i, counts_), {}});
    if (source.decoder.next({&source.next, 1}, 0) > 0) push_ready(source);
  }
}

uint64_t EventMerger::done_bytes() const {
  uint64_t bytes = 0;
  for (const Source& source : sources_) bytes += source.decoder.done_bytes();
  return bytes;
}

size_t EventMerger::fill(std::span<Event> events) {
  size_t count = 0;
  while (count < events.size()) {
    if (running_ == nullptr) {
      running_ = pick();
      if (running_ == nullptr) break;
      limit_ = others_from();
    }
    events[count] = running_->next;
    pass(events[count]);
    count += 1 + run_on(events.subspan(count + 1));
  }
  return count;
}

/// The running slot's further events are decoded in place, for as long as no other slot's come
/// before them. Returns how many these are; what follows them is the slot's `next`.
size_t EventMerger::run_on(std::span<Event> events) {
  size_t count = 0;
  while (true) {
    const std::span<Event> next{&running_->next, 1};
    const bool in_place = count < events.size() && !recheck_;
    const std::span<Event> room = in_place ? events.subspan(count) : next;
    const size_t decoded = running_->decoder.next(room, limit_);
    if (decoded == 0) {
      remove_first();
      running_ = nullptr;
      return count;
    }
    for (Event& event : room.first(decoded - 1)) pass(event);
    count += decoded - 1;
    Event& last = room[decoded - 1];
    if (last.ticks > limit_ || recheck_ || held_back(last)) {
      if (in_place) running_->next = last;
      ready_.front().ticks = last.ticks;
      sift_down();
      running_ = nullptr;
      return count;
    }
    if (!in_place) return count;
    pass(last);
    ++count;
  }
}

void EventMerger::pass(Event& event) {
  event.ticks = now_ = std::max(now_, event.ticks);
  if (!is_device_event(event.tag)) return;
  next_sequence_ = std::max(next_sequence_, event.sequence + 1);
  recheck_ = !parked_.empty();
}

void EventMerger::push_ready(const Source& source) {
  ready_.push_back({source.next.ticks, source.next.slot});
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
      const Source* source = *due;
      parked_.erase(due);
      push_ready(*source);
      continue;
    }
    if (!parked_.empty()) {
      // A number that does not turn up within a second of the log's time was lost.
      const Source* first = *std::min_element(parked_.begin(), parked_.end(), [](auto* a, auto* b) {
        return a->next.sequence < b->next.sequence;
      });
      if (ready_.empty() || ready_.front().ticks > first->next.ticks + patience_ticks_) {
        counts_.missing_device_events += first->next.sequence - next_sequence_;
        next_sequence_ = first->next.sequence;
        continue;
      }
    }
    if (ready_.empty()) return nullptr;
    Source& source = sources_[ready_.front().slot];
    if (!held_back(source.next)) return &source;
    remove_first();
    parked_.push_back(&source);
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
