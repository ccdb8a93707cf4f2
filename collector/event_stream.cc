#include "collector/event_stream.h"

#include "collector/byte_reader.h"

namespace gpupeak::collector {
namespace {

constexpr uint8_t kKnownHotBits = GPUPEAK_TAG_TYPE_MASK | GPUPEAK_TAG_TIMED | GPUPEAK_TAG_UNALIGNED;

}  // namespace

SlotDecoder::SlotDecoder(const LogReader& log, uint32_t slot_index, StreamCounts& counts)
    : log_(log), slot_(log.slots()[slot_index]), counts_(counts), slot_index_(slot_index) {}

uint64_t SlotDecoder::take_progress() {
  const uint64_t bytes = progress_ + static_cast<uint64_t>(at_ - progress_from_);
  progress_ = 0;
  progress_from_ = at_;
  return bytes;
}

bool SlotDecoder::next_chunk() {
  progress_ += static_cast<uint64_t>(end_ - progress_from_);
  if (next_chunk_ > 0) log_.release(slot_.chunks[next_chunk_ - 1]);
  if (next_chunk_ == slot_.chunks.size()) {
    at_ = progress_from_ = end_;
    return false;
  }
  const Chunk& chunk = slot_.chunks[next_chunk_++];
  at_ = progress_from_ = log_.data() + chunk.begin;
  end_ = log_.data() + chunk.end;
  ticks_ = chunk.start_ticks;
  address_ = 0;
  tid_ = chunk.tid;
  return true;
}

bool SlotDecoder::refill() {
  position_ = size_ = 0;
  while (size_ < kBatch) {
    if (decode_one(batch_[size_])) {
      ++size_;
    } else if (size_ > 0 || !next_chunk()) {
      break;
    }
  }
  return size_ > 0;
}

void SlotDecoder::stop_chunk_as_corrupt() {
  ++counts_.corrupt_chunks;
  progress_ += static_cast<uint64_t>(end_ - progress_from_);
  at_ = progress_from_ = end_;
}

/// False at the chunk's end, be it filler, damage or the last byte.
bool SlotDecoder::decode_one(Event& event) {
  while (at_ != end_ && *at_ != 0) {
    const uint8_t tag = *at_++;
    event.tag = tag;
    event.slot = slot_index_;
    if ((tag & GPUPEAK_TAG_EXTENDED) == 0) {
      if (!decode_hot(tag, event)) {
        stop_chunk_as_corrupt();
        return false;
      }
      event.tid = tid_;
      ++counts_.events;
      ++counts_.host_events;
      return true;
    }
    bool known = false;
    if (!decode_extended(tag, event, known)) {
      stop_chunk_as_corrupt();
      return false;
    }
    event.tid = tid_;
    if (known) {
      ++counts_.events;
      counts_.device_events += is_device_event(tag);
      counts_.host_events += tag >= GPUPEAK_REC_MAP && tag <= GPUPEAK_REC_REMAP;
      return true;
    }
    ++counts_.unknown_records;
  }
  return false;
}

bool SlotDecoder::decode_hot(uint8_t tag, Event& event) {
  if ((tag & ~kKnownHotBits) != 0) return false;
  const uint8_t type = tag & GPUPEAK_TAG_TYPE_MASK;
  if (type < GPUPEAK_REC_ALLOC || type > GPUPEAK_REC_REALLOC_FAILED) return false;
  const uint8_t* at = at_;
  uint64_t value = 0;
  uint64_t ticks = ticks_;
  if ((tag & GPUPEAK_TAG_TIMED) != 0) {
    if ((at = read_varint(at, end_, value)) == nullptr) return false;
    ticks += value;
  }
  if ((at = read_varint(at, end_, value)) == nullptr) return false;
  const auto delta = static_cast<uint64_t>(unzigzag(value));
  const bool unaligned = (tag & GPUPEAK_TAG_UNALIGNED) != 0;
  const uint64_t address = unaligned ? address_ + delta : ((address_ >> 4) + delta) << 4;
  event.tag = type;
  if (type == GPUPEAK_REC_ALLOC || type == GPUPEAK_REC_REALLOC_END) {
    uint64_t slack = 0;
    uint64_t stack = 0;
    if ((at = read_varint(at, end_, event.size)) == nullptr) return false;
    if ((at = read_varint(at, end_, slack)) == nullptr) return false;
    if ((at = read_varint(at, end_, stack)) == nullptr) return false;
    if (event.size > kMaxBlockBytes) return false;
    event.slack = unzigzag(slack);
    event.stack = stack > UINT32_MAX ? 0 : static_cast<uint32_t>(stack);
  }
  event.ticks = ticks_ = ticks;
  event.address = address_ = address;
  at_ = at;
  return true;
}

bool SlotDecoder::decode_extended(uint8_t tag, Event& event, bool& known) {
  uint64_t bytes = 0;
  const uint8_t* body = read_varint(at_, end_, bytes);
  if (body == nullptr || bytes > static_cast<uint64_t>(end_ - body)) return false;
  const uint8_t* body_end = body + bytes;
  uint64_t dt = 0;
  if (bytes > 0 && (body = read_varint(body, body_end, dt)) == nullptr) return false;
  ticks_ += dt;
  at_ = body_end;
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
  return true;
}

EventStream::EventStream(const LogReader& log, Progress progress)
    : progress_(std::move(progress)), patience_ticks_(log.clock().ticks_per_second()) {
  slots_.reserve(log.slots().size());
  for (uint32_t i = 0; i < log.slots().size(); ++i) {
    slots_.emplace_back(log, i, counts_);
    for (const Chunk& chunk : log.slots()[i].chunks) total_bytes_ += chunk.end - chunk.begin;
  }
}

bool EventStream::Ready::operator<(const Ready& other) const {
  if (ticks != other.ticks) return ticks < other.ticks;
  return slot->front().slot < other.slot->front().slot;
}

void EventStream::push_ready(SlotDecoder& slot) {
  ready_.push_back({slot.front().ticks, &slot});
  std::push_heap(ready_.begin(), ready_.end(),
                 [](const Ready& a, const Ready& b) { return b < a; });
}

/// Restores the heap after its first entry has become later.
void EventStream::sift_down() {
  size_t at = 0;
  while (true) {
    size_t child = 2 * at + 1;
    if (child >= ready_.size()) return;
    if (child + 1 < ready_.size() && ready_[child + 1] < ready_[child]) ++child;
    if (!(ready_[child] < ready_[at])) return;
    std::swap(ready_[child], ready_[at]);
    at = child;
  }
}

void EventStream::remove_first() {
  ready_.front() = ready_.back();
  ready_.pop_back();
  sift_down();
}

/// The first entry's slot has moved on.
void EventStream::settle_first(bool more) {
  if (!more) return remove_first();
  ready_.front().ticks = ready_.front().slot->front().ticks;
  sift_down();
}

/// The slot whose event is next, which stays the heap's first; nullptr at the end.
SlotDecoder* EventStream::pick() {
  while (true) {
    recheck_ = false;
    const auto due = std::find_if(parked_.begin(), parked_.end(), [this](const SlotDecoder* slot) {
      return slot->front().sequence <= next_sequence_;
    });
    if (due != parked_.end()) {
      SlotDecoder* slot = *due;
      parked_.erase(due);
      push_ready(*slot);
      continue;
    }
    if (!parked_.empty()) {
      // A number that does not turn up within a second of the log's time was lost.
      const auto first = std::min_element(parked_.begin(), parked_.end(), [](auto* a, auto* b) {
        return a->front().sequence < b->front().sequence;
      });
      if (ready_.empty() || ready_.front().ticks > (*first)->front().ticks + patience_ticks_) {
        const uint64_t sequence = (*first)->front().sequence;
        counts_.missing_device_events += sequence - next_sequence_;
        next_sequence_ = sequence;
        continue;
      }
    }
    if (ready_.empty()) return nullptr;
    SlotDecoder* slot = ready_.front().slot;
    if (!held_back(*slot)) return slot;
    remove_first();
    parked_.push_back(slot);
  }
}

uint64_t EventStream::others_from() const {
  uint64_t from = UINT64_MAX;
  for (size_t child = 1; child < std::min<size_t>(ready_.size(), 3); ++child) {
    from = std::min(from, ready_[child].ticks);
  }
  for (const SlotDecoder* slot : parked_) {
    const uint64_t ticks = slot->front().ticks;
    from =
        std::min(from, ticks > UINT64_MAX - patience_ticks_ ? UINT64_MAX : ticks + patience_ticks_);
  }
  return from;
}

void EventStream::passed(const Event& event) {
  next_sequence_ = std::max(next_sequence_, event.sequence + 1);
  recheck_ = !parked_.empty();
}

void EventStream::report_progress(bool last) {
  reported_bytes_ = last ? total_bytes_ : done_bytes_;
  if (progress_) progress_(reported_bytes_, total_bytes_);
}

}  // namespace gpupeak::collector
