#include "collector/log/slot_decoder.h"

#include "collector/log/byte_reader.h"

namespace gpupeak::collector {
namespace {

constexpr uint8_t kKnownHotBits = GPUPEAK_TAG_TYPE_MASK | GPUPEAK_TAG_TIMED | GPUPEAK_TAG_UNALIGNED;
constexpr ptrdiff_t kLongestHotRecord = 1 + 5 * kVarintBytes;

bool is_hot(uint8_t tag) {
  return tag != 0 && (tag & GPUPEAK_TAG_EXTENDED) == 0;
}

/// Where the decoding of hot records is in the chunk.
struct HotFields {
  const uint8_t* at;
  const uint8_t* end;
  uint64_t ticks, address;

  /// `kInner`: the longest record fits before the end, so the end need not be checked.
  template <bool kInner>
  [[gnu::always_inline]] const uint8_t* varint(const uint8_t* from, uint64_t& value) const {
    return kInner ? read_inner_varint(from, value) : read_varint(from, end, value);
  }
  /// Decodes one record. False if it makes no sense.
  template <bool kInner>
  bool read(Event& event) {
    const uint8_t tag = *at;
    if ((tag & ~kKnownHotBits) != 0) return false;
    const uint8_t type = tag & GPUPEAK_TAG_TYPE_MASK;
    if (type < GPUPEAK_REC_ALLOC || type > GPUPEAK_REC_REALLOC_FAILED) return false;
    const uint8_t* from = at + 1;
    uint64_t dt = 0;
    if ((tag & GPUPEAK_TAG_TIMED) != 0) {
      if ((from = varint<kInner>(from, dt)) == nullptr) return false;
    }
    uint64_t moved = 0;
    if ((from = varint<kInner>(from, moved)) == nullptr) return false;
    if (type == GPUPEAK_REC_ALLOC || type == GPUPEAK_REC_REALLOC_END) {
      uint64_t size = 0, slack = 0, stack = 0;
      if ((from = varint<kInner>(from, size)) == nullptr) return false;
      if ((from = read_varint(from, end, slack)) == nullptr) return false;
      if ((from = varint<kInner>(from, stack)) == nullptr) return false;
      if (size > kMaxBlockBytes) return false;
      event.size = size;
      event.slack = protozero::decode_zigzag64(slack);
      event.stack = stack > UINT32_MAX ? 0 : static_cast<uint32_t>(stack);
    }
    const auto delta = static_cast<uint64_t>(protozero::decode_zigzag64(moved));
    const bool unaligned = (tag & GPUPEAK_TAG_UNALIGNED) != 0;
    address = unaligned ? address + delta : ((address >> 4) + delta) << 4;
    ticks += dt;
    at = from;
    event.ticks = ticks;
    event.address = address;
    event.tag = type;
    return true;
  }
};

}  // namespace

StreamCounts& StreamCounts::operator+=(const StreamCounts& other) {
  events += other.events;
  heap_events += other.heap_events;
  mapping_events += other.mapping_events;
  device_events += other.device_events;
  unknown_records += other.unknown_records;
  corrupt_chunks += other.corrupt_chunks;
  missing_device_events += other.missing_device_events;
  return *this;
}

SlotDecoder::SlotDecoder(const LogReader& log, uint32_t slot_index)
    : log_(&log),
      slot_(&log.slots()[slot_index]),
      slot_index_(slot_index),
      writer_(slot_->writer) {}

bool SlotDecoder::next_chunk() {
  if (next_chunk_ > 0) {
    const Chunk& done = slot_->chunks[next_chunk_ - 1];
    done_bytes_ += done.end - done.begin;
    if (!keeps_chunks_) log_->release(done);
  }
  if (next_chunk_ == slot_->chunks.size()) return false;
  const Chunk& chunk = slot_->chunks[next_chunk_++];
  at_ = log_->data() + chunk.begin;
  end_ = log_->data() + chunk.end;
  ticks_ = chunk.start_ticks;
  address_ = 0;
  tid_ = chunk.tid;
  return true;
}

/// Leaves out the rest of the chunk: behind damage nothing can be trusted.
void SlotDecoder::give_up_chunk() {
  ++counts_.corrupt_chunks;
  at_ = end_;
}

size_t SlotDecoder::next(std::span<Event> events, uint64_t limit) {
  while (true) {
    const size_t count = decode_hot(events, limit);
    if (count > 0) return count;
    if (at_ == end_ || *at_ == 0) {  // filler: the chunk holds no further record
      if (!next_chunk()) return 0;
      continue;
    }
    bool known = false;
    if (!decode_extended(events[0], known)) {
      give_up_chunk();
    } else if (known) {
      return 1;
    }
  }
}

/// As next(), for hot records alone. Stops before any other record.
size_t SlotDecoder::decode_hot(std::span<Event> events, uint64_t limit) {
  // A local copy that can stay in registers: the compiler cannot know that stores to the events do
  // not change members.
  HotFields fields{at_, end_, ticks_, address_};
  size_t count = 0;
  bool sound = true;
  while (count < events.size() && fields.at != end_ && is_hot(*fields.at)) {
    Event& event = events[count];
    const bool inner = end_ - fields.at > kLongestHotRecord;
    sound = inner ? fields.read<true>(event) : fields.read<false>(event);
    if (!sound) break;
    event.tid = tid_;
    event.slot = writer_;
    ++count;
    if (event.ticks > limit) break;
  }
  at_ = fields.at;
  ticks_ = fields.ticks;
  address_ = fields.address;
  counts_.events += count;
  counts_.heap_events += count;
  if (!sound) give_up_chunk();
  return count;
}

bool SlotDecoder::decode_extended(Event& event, bool& known) {
  const uint8_t tag = *at_;
  uint64_t bytes = 0;
  const uint8_t* body = read_varint(at_ + 1, end_, bytes);
  if (body == nullptr || bytes > static_cast<uint64_t>(end_ - body)) return false;
  const uint8_t* body_end = body + bytes;
  uint64_t dt = 0;
  if (bytes > 0 && (body = read_varint(body, body_end, dt)) == nullptr) return false;
  ticks_ += dt;
  at_ = body_end;
  event.tag = tag;
  event.slot = writer_;
  event.ticks = ticks_;
  event.body = body;
  event.body_bytes = static_cast<uint32_t>(body_end - body);
  event.sequence = 0;
  known = is_known_event(tag);
  if (is_device_event(tag)) {
    ByteReader fields(body, event.body_bytes);
    event.sequence = fields.u();
    if (fields.malformed()) return false;
  } else if (tag == GPUPEAK_REC_THREAD) {
    const ThreadEvent thread = parse_thread(event);
    if (thread.malformed) return false;
    tid_ = thread.tid;
  }
  event.tid = tid_;
  counts_.unknown_records += !known;
  counts_.events += known;
  counts_.device_events += known && is_device_event(tag);
  counts_.mapping_events += known && tag >= GPUPEAK_REC_MAP && tag <= GPUPEAK_REC_REMAP;
  return true;
}

}  // namespace gpupeak::collector
