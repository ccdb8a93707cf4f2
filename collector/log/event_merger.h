// Merges the slots of a log into the order in which the events happened: by time, device events
// besides by their sequence number. EventStream takes the events from it.
//
//   slot 0   10 malloc               35 malloc
//   slot 1             20 cuMemAlloc, number 2
//   slot 2                       30 cuMemFree, number 1
//   in order: 10 malloc · 30 number 1 · 30 number 2 · 35 malloc
//
// At 20 number 1 has not been seen: slot 1 is parked, and the others go on. Number 1 comes at 30,
// and right behind it what waited for it, at the same time, since time never runs backwards. A
// number that does not turn up within a second of the log's time was lost: it is counted, and not
// waited for. While one slot's events all come before those of the others, it is decoded without
// looking at these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {

class EventMerger {
 public:
  explicit EventMerger(const LogReader& log);
  EventMerger(const EventMerger&) = delete;
  EventMerger& operator=(const EventMerger&) = delete;

  /// The next events; fewer than there is room for at the end alone. Event::ticks never runs
  /// backwards.
  size_t fill(std::span<Event> events);
  const StreamCounts& counts() const { return counts_; }
  /// Of the chunks that have been decoded, and of all.
  uint64_t done_bytes() const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  struct Source {
    SlotDecoder decoder;
    Event next;
  };
  /// A slot that has events, by the time of the next one.
  struct Ready {
    uint64_t ticks;
    uint32_t slot;
    bool operator<(const Ready& other) const {
      return ticks != other.ticks ? ticks < other.ticks : slot < other.slot;
    }
  };

  Source* pick();
  size_t run_on(std::span<Event> events);
  uint64_t others_from() const;
  bool held_back(const Event& event) const {
    return is_device_event(event.tag) && event.sequence > next_sequence_;
  }
  void pass(Event& event);
  void push_ready(const Source& source);
  void sift_down();
  void remove_first();

  StreamCounts counts_;
  std::vector<Source> sources_;  // by slot
  std::vector<Ready> ready_;     // binary heap, the earliest first
  std::vector<Source*> parked_;  // next is a device event whose predecessor is not yet seen
  Source* running_ = nullptr;    // the heap's first, until another slot's event comes before its
  uint64_t limit_ = 0;           // when that is
  uint64_t now_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t patience_ticks_;
  bool recheck_ = false;  // a device event has passed while others are parked
  uint64_t total_bytes_ = 0;
};

}  // namespace gpupeak::collector
