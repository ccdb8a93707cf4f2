// Decodes the events of one slot in program order. EventMerger has one for each slot of a log. A
// copy goes on where the decoder was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/log/event.h"
#include "collector/log/log_reader.h"

namespace gpupeak::collector {

struct StreamCounts {
  uint64_t events = 0;                 ///< records, without fillers and unknown ones
  uint64_t heap_events = 0;            ///< how many of the events are hot records
  uint64_t mapping_events = 0;         ///< how many are the host's mappings
  uint64_t device_events = 0;          ///< how many are device events
  uint64_t unknown_records = 0;        ///< written by a newer gpupeak; skipped
  uint64_t corrupt_chunks = 0;         ///< inside of which decoding stopped
  uint64_t missing_device_events = 0;  ///< holes in the sequence numbers

  StreamCounts& operator+=(const StreamCounts& other);
};

class SlotDecoder {
 public:
  /// Decodes the entry `slot_index` of LogReader::slots().
  SlotDecoder(const LogReader& log, uint32_t slot_index);
  uint32_t slot_index() const { return slot_index_; }
  uint32_t writer() const { return writer_; }

  /// Decodes the slot's next events and returns how many. Stops behind an event that is later than
  /// `limit`, at one that is no hot record, or when the room is full. 0 at the slot's end; do not
  /// call it after that.
  size_t next(std::span<Event> events, uint64_t limit);
  /// Bytes of the chunks that have been decoded.
  uint64_t done_bytes() const { return done_bytes_; }
  const StreamCounts& counts() const { return counts_; }
  /// Whether decoded chunks stay in memory because another decoder comes after this one.
  void keep_chunks(bool keep) { keeps_chunks_ = keep; }

 private:
  bool next_chunk();
  size_t decode_hot(std::span<Event> events, uint64_t limit);
  bool decode_extended(Event& event, bool& known);
  void give_up_chunk();

  const LogReader* log_;
  const Slot* slot_;
  StreamCounts counts_;
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
  uint64_t ticks_ = 0;
  uint64_t address_ = 0;
  uint32_t slot_index_, writer_;
  uint32_t tid_ = 0;
  bool keeps_chunks_ = false;
  size_t next_chunk_ = 0;
  uint64_t done_bytes_ = 0;
};

// Goes through a log's events, without the heap's, thread by thread, for readers that need only the
// order within a thread. ModelTensors and ActivationPlans use it.

/// Calls `begin()` before each slot's events, and `visit(event)` with each of them.
template <typename Begin, typename Visit>
void for_each_slot_event(const LogReader& log, Begin begin, Visit visit) {
  std::array<Event, 512> events;
  for (uint32_t slot = 0; slot < log.slots().size(); ++slot) {
    if (log.slots()[slot].is_heap) continue;
    begin();
    SlotDecoder decoder(log, slot);
    for (size_t count; (count = decoder.next(events, UINT64_MAX)) != 0;) {
      for (size_t i = 0; i < count; ++i) visit(events[i]);
    }
  }
}

}  // namespace gpupeak::collector
