#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <protozero/varint.hpp>
#include <utility>

#include "collector/log/byte_reader.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

// Guesses the next address in a log from the addresses before. Packing and unpacking make the same
// guesses in the same order, so that an address that was guessed need not be written.

class AddressModel {
 public:
  static constexpr size_t kGuesses = 6;
  using Guesses = std::array<uint64_t, kGuesses>;

  /// For an allocation of so many usable bytes. An allocator hands out again what was freed last,
  /// or goes on behind what it handed out last.
  Guesses of_allocated(uint64_t usable_bytes) const {
    const Freed& freed = freed_[slot_of(usable_bytes, kClassBits)];
    return {freed.addresses[(freed.end - 1) % kDepth],
            (last_allocated_ + last_usable_ + kHeader + 15) & ~uint64_t{15},
            freed.addresses[(freed.end - 2) % kDepth],
            freed.addresses[(freed.end - 3) % kDepth],
            freed.addresses[(freed.end - 4) % kDepth],
            freed.addresses[freed.end % kDepth]};
  }
  void allocated(uint64_t address, uint64_t usable_bytes) {
    Freed& freed = freed_[slot_of(usable_bytes, kClassBits)];
    for (uint32_t back = 1; back <= 4; ++back) {
      if (freed.addresses[(freed.end - back) % kDepth] != address) continue;
      for (; back > 1; --back)
        freed.addresses[(freed.end - back) % kDepth] =
            freed.addresses[(freed.end - back + 1) % kDepth];
      --freed.end;
      break;
    }
    order_[count_ % kRemembered] = address;
    blocks_[slot_of(address >> 4, kBlockBits)] = {address, usable_bytes, count_};
    ++count_;
    last_allocated_ = address;
    last_usable_ = usable_bytes;
  }

  /// For a free. The block that was allocated last is freed first, or one that was allocated next
  /// to the block that was freed last.
  Guesses of_freed() const {
    const Block& block = blocks_[slot_of(last_freed_ >> 4, kBlockBits)];
    const uint32_t at = block.address == last_freed_ ? block.number : count_;
    return {order_[(count_ - 1) % kRemembered], order_[(at + 1) % kRemembered],
            order_[(at - 1) % kRemembered],     order_[(at + 2) % kRemembered],
            order_[(at - 2) % kRemembered],     order_[(count_ - 2) % kRemembered]};
  }
  void freed(uint64_t address) {
    const Block& block = blocks_[slot_of(address >> 4, kBlockBits)];
    if (block.address == address) {
      Freed& freed = freed_[slot_of(block.usable_bytes, kClassBits)];
      freed.addresses[freed.end++ % kDepth] = address;
    }
    last_freed_ = address;
  }

 private:
  static constexpr uint32_t kClassBits = 12, kBlockBits = 16, kDepth = 16, kRemembered = 1 << 16;
  static constexpr uint64_t kHeader = 8;  // what glibc has in front of a block
  struct Block {
    uint64_t address = 0, usable_bytes = 0;
    uint32_t number = 0;
  };
  /// The addresses of one size class that were freed last, as a ring.
  struct Freed {
    std::array<uint64_t, kDepth> addresses{};
    uint32_t end = 0;
  };
  static size_t slot_of(uint64_t key, uint32_t bits) {
    return (key * 0x9e3779b97f4a7c15u) >> (64 - bits);
  }

  std::vector<Block> blocks_ = std::vector<Block>(size_t{1} << kBlockBits);
  std::vector<Freed> freed_ = std::vector<Freed>(size_t{1} << kClassBits);
  std::vector<uint64_t> order_ = std::vector<uint64_t>(kRemembered);
  uint32_t count_ = 0;
  uint64_t last_allocated_ = 0, last_usable_ = 0, last_freed_ = 0;
};

constexpr size_t kStretchBytes = 16 << 20;
constexpr size_t kLargestSplitChunk = 1 << 20;
constexpr size_t kMostStretchBytes = kStretchBytes + kLargestSplitChunk;
constexpr size_t kMostBlockBytes = 256 << 20;
constexpr uint8_t kNoGuess = 0xff;
constexpr uint8_t kNoTag = 0;  ///< the rest of the chunk has no records: it is zeros, or raw bytes

/// A block begins with the size of its stretch and the size of each column, four bytes each. The
/// columns follow. kPlan: varints, in turn the bytes of raw pages and the number of event chunks
/// behind them. kRaw: raw pages, headers of chunks, rests of chunks.
enum Column : size_t {
  kPlan,
  kRaw,
  kRests,
  kTags,
  kTimes,
  kGuessed,
  kAllocated,
  kFreed,
  kSizes,
  kSlacks,
  kStacks,
  kOthers,
  kColumns
};

constexpr size_t kBlockHeadWords = 1 + kColumns,
                 kBlockHeadBytes = kBlockHeadWords * sizeof(uint32_t);

/// No column has more bytes than the stretch: of each record it has one part, or one byte.
constexpr size_t kMostColumnBytes = kMostStretchBytes + GPUPEAK_LOG_PAGE;

/// A column that grows. It has the largest size it can need from the start, so that put() need not
/// check for room. The kernel gives memory only to the part that is used.
struct Growing {
  std::unique_ptr<uint8_t[]> bytes = std::make_unique_for_overwrite<uint8_t[]>(kMostColumnBytes);
  size_t size = 0;

  void put(uint8_t byte) { bytes[size++] = byte; }
  void put(const uint8_t* from, size_t count) {
    memcpy(bytes.get() + size, from, count);
    size += count;
  }
  /// Without memcpy: for a few bytes the call would cost more.
  void put_few(const uint8_t* from, const uint8_t* end) {
    while (from != end) bytes[size++] = *from++;
  }
};
using GrowingColumns = std::array<Growing, kColumns>;
using PieceSink = std::function<void(const char* bytes, size_t size)>;

bool is_events_chunk(std::span<const uint8_t> bytes, gpupeak_chunk_header& header) {
  if (bytes.size() < sizeof header) return false;
  memcpy(&header, bytes.data(), sizeof header);
  return header.magic == GPUPEAK_CHUNK_MAGIC &&
         (header.kind == GPUPEAK_CHUNK_EVENTS || header.kind == GPUPEAK_CHUNK_HEAP) &&
         header.bytes >= GPUPEAK_LOG_PAGE && header.bytes % GPUPEAK_LOG_PAGE == 0 &&
         header.bytes <= std::min(bytes.size(), kLargestSplitChunk);
}

bool has_block(uint8_t type) {
  return type == GPUPEAK_REC_ALLOC || type == GPUPEAK_REC_REALLOC_END;
}

/// Whether the tag is one of a hot record, with no bit that is not known.
bool is_known_hot(uint8_t tag) {
  const uint8_t type = tag & GPUPEAK_TAG_TYPE_MASK;
  return type >= GPUPEAK_REC_ALLOC && type <= GPUPEAK_REC_REALLOC_FAILED &&
         (tag & ~(GPUPEAK_TAG_TYPE_MASK | GPUPEAK_TAG_TIMED | GPUPEAK_TAG_UNALIGNED)) == 0;
}

inline size_t put_varint(uint8_t* to, uint64_t value) {
  return static_cast<size_t>(protozero::add_varint_to_buffer(reinterpret_cast<char*>(to), value));
}

uint64_t address_of(uint64_t delta, uint64_t running, bool unaligned) {
  const auto step = static_cast<uint64_t>(protozero::decode_zigzag64(delta));
  return unaligned ? running + step : ((running >> 4) + step) << 4;
}
uint64_t delta_of(uint64_t address, uint64_t running, bool unaligned) {
  const uint64_t step = unaligned ? address - running : (address >> 4) - (running >> 4);
  return protozero::encode_zigzag64(static_cast<int64_t>(step));
}

/// Where each field of a record begins in the log; nullptr: it does not have the field.
struct HotRecord {
  const uint8_t* time = nullptr;
  const uint8_t *address = nullptr, *size = nullptr, *slack = nullptr, *stack = nullptr;
  const uint8_t* end = nullptr;
  uint64_t delta = 0, usable_bytes = 0;
};

/// Returns false if the record is not whole.
inline bool read_hot(const uint8_t* at, const uint8_t* end, HotRecord& record) {
  const uint8_t tag = *at++;
  const auto field = [&](const uint8_t*& place, uint64_t& value) {
    place = at;
    at = read_varint(at, end, value);
    return at != nullptr;
  };
  uint64_t ignored;
  record.time = at;
  if ((tag & GPUPEAK_TAG_TIMED) != 0 && !field(record.time, ignored)) return false;
  if (!field(record.address, record.delta)) return false;
  record.size = at;
  if (has_block(tag & GPUPEAK_TAG_TYPE_MASK)) {
    uint64_t size, slack;
    if (!field(record.size, size) || !field(record.slack, slack) || !field(record.stack, ignored))
      return false;
    record.usable_bytes = size + static_cast<uint64_t>(protozero::decode_zigzag64(slack));
  }
  record.end = at;
  return true;
}

class StretchSplitter {
 public:
  const GrowingColumns& split(std::span<const uint8_t> stretch) {
    size_t raw = 0, events = 0;  // since the plan's last entries
    for (size_t at = 0; at < stretch.size();) {
      gpupeak_chunk_header header;
      if (is_events_chunk(stretch.subspan(at), header)) {
        split_chunk(stretch.subspan(at, header.bytes));
        ++events;
        at += header.bytes;
        continue;
      }
      if (events != 0) plan(std::exchange(raw, 0), std::exchange(events, 0));
      const size_t bytes = std::min<size_t>(GPUPEAK_LOG_PAGE, stretch.size() - at);
      put(kRaw, stretch.data() + at, bytes);
      raw += bytes;
      at += bytes;
    }
    plan(raw, events);
    return columns_;
  }

 private:
  void put(Column column, const uint8_t* bytes, size_t size) { columns_[column].put(bytes, size); }
  void put_number(Column column, uint64_t value) {
    uint8_t bytes[kVarintBytes];
    put(column, bytes, put_varint(bytes, value));
  }
  void plan(size_t raw_bytes, size_t chunks) {
    put_number(kPlan, raw_bytes);
    put_number(kPlan, chunks);
  }

  void split_chunk(std::span<const uint8_t> chunk) {
    put(kRaw, chunk.data(), sizeof(gpupeak_chunk_header));
    const uint8_t* at = chunk.data() + sizeof(gpupeak_chunk_header);
    const uint8_t* end = chunk.data() + chunk.size();
    uint64_t running = 0;
    while (at < end) {
      const uint8_t* next = (*at & GPUPEAK_TAG_EXTENDED) != 0 ? split_extended(at, end)
                            : is_known_hot(*at)               ? split_hot(at, end, running)
                                                              : nullptr;
      if (next == nullptr) return split_rest(at, end);
      at = next;
    }
  }

  void split_rest(const uint8_t* at, const uint8_t* end) {
    columns_[kTags].put(kNoTag);
    const bool zeros = std::all_of(at, end, [](uint8_t byte) { return byte == 0; });
    columns_[kRests].put(zeros ? 0 : 1);
    if (!zeros) put(kRaw, at, static_cast<size_t>(end - at));
  }

  const uint8_t* split_extended(const uint8_t* at, const uint8_t* end) {
    uint64_t length = 0;
    const uint8_t* const body = read_varint(at + 1, end, length);
    if (body == nullptr || length > static_cast<uint64_t>(end - body)) return nullptr;
    columns_[kTags].put(*at);
    put(kOthers, at + 1, static_cast<size_t>(body - at) - 1 + length);
    return body + length;
  }

  const uint8_t* split_hot(const uint8_t* at, const uint8_t* end, uint64_t& running) {
    HotRecord record;
    if (!read_hot(at, end, record)) return nullptr;
    const uint8_t tag = *at;
    const bool allocates = has_block(tag & GPUPEAK_TAG_TYPE_MASK);
    const bool unaligned = (tag & GPUPEAK_TAG_UNALIGNED) != 0;
    const uint64_t address = address_of(record.delta, running, unaligned);
    columns_[kTags].put(tag);
    if ((tag & GPUPEAK_TAG_TIMED) != 0) columns_[kTimes].put_few(record.time, record.address);
    const AddressModel::Guesses guesses =
        allocates ? model_.of_allocated(record.usable_bytes) : model_.of_freed();
    const auto right = std::ranges::find(guesses, address);
    // A guess counts only if the joiner will write the same bytes: a varint can be written in more
    // than one way.
    uint8_t again[kVarintBytes];
    const size_t again_bytes = put_varint(again, delta_of(address, running, unaligned));
    const auto bytes = static_cast<size_t>(record.size - record.address);
    if (right != guesses.end() && again_bytes == bytes &&
        memcmp(again, record.address, bytes) == 0) {
      columns_[kGuessed].put(static_cast<uint8_t>(right - guesses.begin()));
    } else {
      columns_[kGuessed].put(kNoGuess);
      columns_[allocates ? kAllocated : kFreed].put_few(record.address, record.size);
    }
    if (allocates) {
      columns_[kSizes].put_few(record.size, record.slack);
      columns_[kSlacks].put_few(record.slack, record.stack);
      columns_[kStacks].put_few(record.stack, record.end);
      model_.allocated(address, record.usable_bytes);
    } else {
      model_.freed(address);
    }
    running = address;
    return record.end;
  }

  AddressModel model_;
  GrowingColumns columns_;
};

struct BrokenColumns {};

/// Reads a column. Throws BrokenColumns where it has too few bytes.
class ColumnReader {
 public:
  void set(std::span<const uint8_t> bytes) {
    at_ = bytes.data();
    end_ = at_ + bytes.size();
  }
  bool is_at_end() const { return at_ == end_; }
  uint8_t byte() {
    if (at_ == end_) throw BrokenColumns{};
    return *at_++;
  }
  std::span<const uint8_t> take(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) throw BrokenColumns{};
    const std::span<const uint8_t> taken(at_, bytes);
    at_ += bytes;
    return taken;
  }
  std::span<const uint8_t> varint(uint64_t& value) {
    const uint8_t* const behind = read_varint(at_, end_, value);
    if (behind == nullptr) throw BrokenColumns{};
    return take(static_cast<uint64_t>(behind - at_));
  }

 private:
  const uint8_t *at_ = nullptr, *end_ = nullptr;
};

class BlockJoiner {
 public:
  BlockJoiner(const ColumnBlock& block, const PieceSink& sink)
      : sink_(sink), chunk_(kLargestSplitChunk) {
    std::span<const uint8_t> rest = std::span(block.bytes).subspan(kBlockHeadBytes);
    for (size_t i = 0; i < kColumns; ++i) {
      uint32_t size;
      memcpy(&size, block.bytes.data() + (i + 1) * sizeof size, sizeof size);
      columns_[i].set(rest.first(size));
      rest = rest.subspan(size);
    }
  }

  /// Returns how many bytes the sink was given.
  uint64_t join() {
    while (!columns_[kPlan].is_at_end()) {
      uint64_t raw, chunks;
      columns_[kPlan].varint(raw);
      columns_[kPlan].varint(chunks);
      give(columns_[kRaw].take(raw));
      for (; chunks > 0; --chunks) join_chunk();
    }
    for (const ColumnReader& column : columns_) {
      if (!column.is_at_end()) throw BrokenColumns{};
    }
    return given_;
  }

 private:
  void give(std::span<const uint8_t> bytes) {
    given_ += bytes.size();
    if (given_ > kMostStretchBytes) throw BrokenColumns{};
    if (!bytes.empty()) sink_(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  /// Appends to the chunk that is being joined.
  void put(std::span<const uint8_t> bytes) {
    if (bytes.size() > static_cast<size_t>(end_ - at_)) throw BrokenColumns{};
    std::copy(bytes.begin(), bytes.end(), at_);
    at_ += bytes.size();
  }

  void join_chunk() {
    const std::span<const uint8_t> begin = columns_[kRaw].take(sizeof(gpupeak_chunk_header));
    gpupeak_chunk_header header;
    memcpy(&header, begin.data(), sizeof header);
    if (header.bytes < sizeof header || header.bytes > kLargestSplitChunk) throw BrokenColumns{};
    at_ = chunk_.data();
    end_ = at_ + header.bytes;
    put(begin);
    running_ = 0;
    while (at_ < end_) {
      const uint8_t tag = columns_[kTags].byte();
      if (tag == kNoTag) {
        join_rest();
        break;
      }
      put({&tag, 1});
      if ((tag & GPUPEAK_TAG_EXTENDED) != 0)
        join_extended();
      else
        join_hot(tag);
    }
    give({chunk_.data(), header.bytes});
  }

  void join_rest() {
    const auto left = static_cast<size_t>(end_ - at_);
    if (columns_[kRests].byte() != 0)
      put(columns_[kRaw].take(left));
    else
      std::fill(at_, end_, uint8_t{0});
    at_ = end_;
  }

  void join_extended() {
    uint64_t length;
    put(columns_[kOthers].varint(length));
    put(columns_[kOthers].take(length));
  }

  void join_hot(uint8_t tag) {
    if (!is_known_hot(tag)) throw BrokenColumns{};
    uint64_t ignored, size = 0, slack = 0;
    const bool allocates = has_block(tag & GPUPEAK_TAG_TYPE_MASK);
    const bool unaligned = (tag & GPUPEAK_TAG_UNALIGNED) != 0;
    if ((tag & GPUPEAK_TAG_TIMED) != 0) put(columns_[kTimes].varint(ignored));
    std::span<const uint8_t> sizes, slacks, stacks;
    if (allocates) {  // the guess depends on them
      sizes = columns_[kSizes].varint(size);
      slacks = columns_[kSlacks].varint(slack);
      stacks = columns_[kStacks].varint(ignored);
    }
    const uint64_t usable_bytes = size + static_cast<uint64_t>(protozero::decode_zigzag64(slack));
    const uint8_t guess = columns_[kGuessed].byte();
    if (guess == kNoGuess) {
      uint64_t delta;
      put(columns_[allocates ? kAllocated : kFreed].varint(delta));
      running_ = address_of(delta, running_, unaligned);
    } else {
      if (guess >= AddressModel::kGuesses) throw BrokenColumns{};
      const uint64_t address =
          (allocates ? model_.of_allocated(usable_bytes) : model_.of_freed())[guess];
      uint8_t bytes[kVarintBytes];
      put({bytes, put_varint(bytes, delta_of(address, running_, unaligned))});
      running_ = address;
    }
    if (allocates) {
      put(sizes);
      put(slacks);
      put(stacks);
      model_.allocated(running_, usable_bytes);
    } else {
      model_.freed(running_);
    }
  }

  AddressModel model_;
  std::array<ColumnReader, kColumns> columns_;
  const PieceSink& sink_;
  uint64_t given_ = 0;
  std::vector<uint8_t> chunk_;
  uint8_t *at_ = nullptr, *end_ = nullptr;
  uint64_t running_ = 0;
};

}  // namespace

size_t stretch_bytes(std::span<const uint8_t> log, size_t begin) {
  size_t at = begin;
  while (at < log.size() && at - begin < kStretchBytes) {
    gpupeak_chunk_header header;
    const bool chunk = is_events_chunk(log.subspan(at), header);
    at += std::min<size_t>(chunk ? header.bytes : GPUPEAK_LOG_PAGE, log.size() - at);
  }
  return at - begin;
}

std::vector<uint8_t> split_columns(std::span<const uint8_t> stretch) {
  if (stretch.size() > kMostStretchBytes) throw LogError("the stretch is too long", 0);
  StretchSplitter splitter;
  const GrowingColumns& columns = splitter.split(stretch);
  std::vector<uint8_t> block;
  const auto put_size = [&block](size_t bytes) {
    const auto size = static_cast<uint32_t>(bytes);
    const auto* word = reinterpret_cast<const uint8_t*>(&size);
    block.insert(block.end(), word, word + sizeof size);
  };
  put_size(stretch.size());
  for (const Growing& column : columns) put_size(column.size);
  for (const Growing& column : columns)
    block.insert(block.end(), column.bytes.get(), column.bytes.get() + column.size);
  return block;
}

ColumnCutter::ColumnCutter(std::string name) : name_(std::move(name)) {}

void ColumnCutter::take(const char* bytes, size_t size, const Sink& sink) {
  while (size > 0) {
    const size_t wanted = pending_.size() < kBlockHeadBytes ? kBlockHeadBytes : block_bytes();
    const size_t step = std::min(size, wanted - pending_.size());
    pending_.insert(pending_.end(), bytes, bytes + step);
    bytes += step;
    size -= step;
    if (pending_.size() < kBlockHeadBytes) return;
    const size_t whole = block_bytes();
    pending_.reserve(whole);
    if (pending_.size() == whole) {
      count_block();
      const uint32_t stretch_bytes = head_word(0);
      sink({std::exchange(pending_, {}), stretch_bytes});
    }
  }
}

uint32_t ColumnCutter::head_word(size_t i) const {
  uint32_t word;
  memcpy(&word, pending_.data() + i * sizeof word, sizeof word);
  return word;
}

/// The size of the pending block, which its head says.
size_t ColumnCutter::block_bytes() const {
  uint64_t whole = kBlockHeadBytes;
  for (size_t i = 0; i < kColumns; ++i) whole += head_word(i + 1);
  if (whole > kMostBlockBytes || head_word(0) > kMostStretchBytes)
    throw LogError(name_ + " is damaged: a block is too large", 0);
  return whole;
}

/// A column has at most one byte for each byte of a log, and one or two more for each record.
/// Blocks that stand for less than that would let a damaged file unpack without end.
void ColumnCutter::count_block() {
  constexpr uint64_t kMostPerByte = 3, kBeside = 64 << 10;
  column_bytes_ += pending_.size();
  stretch_bytes_ += head_word(0);
  if (head_word(0) == 0 || column_bytes_ > kMostPerByte * stretch_bytes_ + kBeside)
    throw LogError(name_ + " is damaged: its columns are larger than what they stand for", 0);
}

void ColumnCutter::finish() const {
  if (!pending_.empty()) throw LogError(name_ + " is cut off: the end of it is missing", 0);
}

void join_columns(const ColumnBlock& block, const std::string& name, const PieceSink& sink) {
  try {
    if (BlockJoiner(block, sink).join() == block.stretch_bytes) return;
  } catch (const BrokenColumns&) {
  }
  throw LogError(name + " is damaged: its columns do not fit together", 0);
}

}  // namespace gpupeak::collector
