// The events of a log in the order in which they happened: each slot is decoded in program order,
// and the slots are merged by time, device events besides by their sequence number. Replay and the
// dump drive it with a visitor.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "collector/event.h"
#include "collector/log_reader.h"

namespace gpupeak::collector {

/// Called now and then with bytes done and bytes in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

struct StreamCounts {
  uint64_t events = 0;                 ///< records, fillers and unknown ones left out
  uint64_t host_events = 0;            ///< of them hot records and mappings
  uint64_t device_events = 0;          ///< of them numbered ones
  uint64_t unknown_records = 0;        ///< of a newer writer: skipped
  uint64_t corrupt_chunks = 0;         ///< decoding stopped inside
  uint64_t missing_device_events = 0;  ///< holes in the numbers
};

/// Decodes one slot, a batch of events at a time.
class SlotDecoder {
 public:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kAhead = 8;

  SlotDecoder(const LogReader& log, uint32_t slot_index, StreamCounts& counts);

  /// Makes the next batch; false at the end of the slot.
  bool refill();
  const Event& front() const { return batch_[position_]; }
  Event& front() { return batch_[position_]; }
  /// An event a few places further on, if it is decoded already.
  const Event* look_ahead() const {
    return position_ + kAhead < size_ ? &batch_[position_ + kAhead] : nullptr;
  }
  bool empty() const { return position_ == size_; }
  void pop() { ++position_; }
  const Event* begin() const { return batch_.data(); }
  const Event* end() const { return batch_.data() + size_; }
  /// Bytes of chunks decoded since the last call.
  uint64_t take_progress();

 private:
  bool next_chunk();
  bool decode_one(Event& event);
  bool decode_hot(uint8_t tag, Event& event);
  bool decode_extended(uint8_t tag, Event& event, bool& known);
  void stop_chunk_as_corrupt();

  const LogReader& log_;
  const Slot& slot_;
  StreamCounts& counts_;
  uint32_t slot_index_;
  uint32_t tid_ = 0;
  size_t next_chunk_ = 0;
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
  const uint8_t* progress_from_ = nullptr;
  uint64_t progress_ = 0;
  uint64_t ticks_ = 0;
  uint64_t address_ = 0;
  size_t position_ = 0;
  size_t size_ = 0;
  std::array<Event, kBatch> batch_;
};

class EventStream {
 public:
  explicit EventStream(const LogReader& log, Progress progress = {});

  /// Calls visitor.on_event(event) for each event in order. Event::ticks never runs backwards.
  /// Before that it calls prefetch(event) some dozens of events ahead, and prefetch_next(event) a
  /// few ahead.
  template <class Visitor>
  void run(Visitor& visitor) {
    for (SlotDecoder& slot : slots_) {
      if (fill(slot, visitor)) push_ready(slot);
    }
    while (SlotDecoder* slot = pick()) {
      const uint64_t limit = others_from();
      bool more = true;
      do {
        if (const Event* ahead = slot->look_ahead()) visitor.prefetch_next(*ahead);
        Event& event = slot->front();
        event.ticks = now_ = std::max(now_, event.ticks);
        visitor.on_event(event);
        if (is_device_event(event.tag)) passed(event);
        slot->pop();
        more = !slot->empty() || fill(*slot, visitor);
      } while (more && slot->front().ticks <= limit && !recheck_ && !held_back(*slot));
      settle_first(more);
    }
    report_progress(true);
  }

  const StreamCounts& counts() const { return counts_; }

 private:
  template <class Visitor>
  bool fill(SlotDecoder& slot, Visitor& visitor) {
    if (!slot.refill()) return false;
    for (const Event& event : slot) visitor.prefetch(event);
    done_bytes_ += slot.take_progress();
    if (done_bytes_ - reported_bytes_ >= kProgressStepBytes) report_progress(false);
    return true;
  }
  static constexpr uint64_t kProgressStepBytes = 1 << 20;

  /// A slot that has events, by the time of the next one.
  struct Ready {
    uint64_t ticks;
    SlotDecoder* slot;
    bool operator<(const Ready& other) const;
  };

  SlotDecoder* pick();
  uint64_t others_from() const;
  bool held_back(const SlotDecoder& slot) const {
    return is_device_event(slot.front().tag) && slot.front().sequence > next_sequence_;
  }
  void passed(const Event& event);
  void push_ready(SlotDecoder& slot);
  void settle_first(bool more);
  void sift_down();
  void remove_first();
  void report_progress(bool last);

  StreamCounts counts_;
  std::vector<SlotDecoder> slots_;
  std::vector<Ready> ready_;  // binary heap, the earliest first
  std::vector<SlotDecoder*>
      parked_;  // next event is a device event whose predecessor is not yet seen
  Progress progress_;
  uint64_t now_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t patience_ticks_;
  bool recheck_ = false;  // a device event has passed while others are parked
  uint64_t done_bytes_ = 0, reported_bytes_ = 0, total_bytes_ = 0;
};

}  // namespace gpupeak::collector
