// When a block was last seen used: its address, or one inside of it, stood in the arguments of a
// kernel's launch, a copy, a fill or a memory operation. The launch's time counts, not the
// kernel's. Of each live block the first and the last such time are kept, how often it was seen,
// and the longest while without; they go into the log when the block ends. What a kernel reads from
// memory (arrays of pointers) is not seen. HOOK-SAFE.
//
//   in    a launch with the words 0x7f40002000, 3, 0x7f…
//   out   block 5: first +1.20 s, last +3.40 s, 218 times; at its end the record USED
//
// Two indexes: what the driver gave, and what arenas gave of it. An address counts for the
// innermost.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/hot.h"
#include "thread/record_in_place.h"
#include "track/address_index.h"

namespace gpupeak::preload {

/// Whether uses are recorded (GPUPEAK_LAST_USE), in this process.
extern constinit GPUPEAK_OWN std::atomic<bool> g_watches_uses;
inline bool watches_uses() {
  return __builtin_expect(g_watches_uses.load(std::memory_order_relaxed), 0);
}
/// Of what the driver gave.
extern constinit GPUPEAK_OWN AddressIndex g_given_addresses;
/// The log has begun: says that uses are recorded, or why they are not.
void begin_watching_uses();
/// In a forked child, or before a next log.
void forget_uses();

// With the book's lock held.

/// A block of the driver's, by its id in the log. 0: it is not followed.
uint32_t use_began(uint64_t address, uint64_t bytes, uint64_t id);
/// Into the log; before the record of the block's end. 0 is none.
void use_ended(uint32_t number);
/// Blocks that lie there are used now, by work that was given to the stream.
void use_in_book(CUstream stream, const uint64_t* words, size_t count);
/// What was mapped at the addresses is that block's.
void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id);
void mapped_use_ended(uint64_t address);

// Inside a HookScope, without the lock.

/// What has been seen of a block since its last record.
struct SeenUses {
  bool is_known = false;
  bool of_several_streams = false;
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Of one that was used: as log_format.h has it, with times that count from the record's on.
  __attribute__((always_inline)) void put_times(RecordInPlace& record) const {
    const uint64_t now = record.time();
    record.id(now - first).id(now - last);
    const bool is_from_first_to_last = idle == last - first && (idle == 0 || idle_since == first);
    if (is_from_first_to_last && !of_several_streams) return;  // as of most, which are used twice
    record.id(idle).id(idle > 0 ? now - idle_since : 0).u(of_several_streams ? 2 : 1);
  }
};
/// What an arena gave: after its record.
void arena_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
/// Before its record, which says it.
SeenUses arena_use_ended(uint64_t arena, uint64_t address);
/// The same of PyTorch's, whose memory is a device's.
void torch_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
SeenUses torch_use_ended(uint64_t arena, uint64_t address);
/// All of an arena.
void arena_uses_ended(uint64_t arena);

/// The process ends: what is live goes into the log, and so far it is complete.
void log_all_uses();

/// Collects, of the arguments of a call that gives work to a device, the words that may be
/// addresses of blocks. Outside any HookScope.
class SeenWords {
 public:
  /// Whom they are handed to, some at a time.
  using Taker = void (*)(void* whose, const uint64_t* words, size_t count);

  SeenWords(Taker taker, void* whose)
      : taker_(taker), whose_(whose), bounds_(g_given_addresses.bounds()) {}
  ~SeenWords() {
    if (count_ > 0) taker_(whose_, words_, count_);
  }
  SeenWords(const SeenWords&) = delete;
  SeenWords& operator=(const SeenWords&) = delete;

  __attribute__((always_inline)) void look_at(uint64_t word) {
    if (__builtin_expect(bounds_.contain(word), 0)) add(word);
  }
  /// Each aligned word of what lies there, as a structure is aligned.
  __attribute__((always_inline)) void look_at_all(const void* at, size_t bytes) {
    const char* place = static_cast<const char*>(at);
    if (bytes >= kStretch) {
      const Uppers uppers(bounds_);
      do {
        if (__builtin_expect(uppers.may_be_in(place), 0)) look_at_each(place, kStretch);
        place += kStretch;
        bytes -= kStretch;
      } while (bytes >= kStretch);
    }
    look_at_each(place, bytes);
  }

 private:
  static constexpr size_t kMost = 128;
  static constexpr size_t kStretch = 8 * sizeof(uint64_t);
  using Halves = uint32_t __attribute__((vector_size(16)));
  using SignedHalves = int32_t __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));

  /// Whether one of a stretch's words may be in the bounds. Structures are long, and most of their
  /// words are sizes and strides. Compares the upper halves, as signed numbers, for which each
  /// processor has instructions.
  class Uppers {
   public:
    explicit Uppers(const AddressIndex::Bounds& bounds)
        : lowest_(Halves{} + (static_cast<uint32_t>(bounds.lowest >> 32) + kLeast)),
          span_(Halves{} + (static_cast<uint32_t>(bounds.span_of_uppers()) - kLeast)) {}

    __attribute__((always_inline)) bool may_be_in(const char* stretch) const {
      const auto beyond =
          reinterpret_cast<Words>(are_beyond(stretch) & are_beyond(stretch + kStretch / 2));
      return (beyond[0] & beyond[1]) != UINT64_MAX;
    }

   private:
    static constexpr uint32_t kLeast = 1u << 31;

    __attribute__((always_inline)) SignedHalves are_beyond(const char* four_words) const {
      Halves a, b;
      memcpy(&a, four_words, sizeof a);
      memcpy(&b, four_words + sizeof a, sizeof b);
      const Halves uppers = __builtin_shufflevector(a, b, 1, 3, 5, 7) - lowest_;
      return reinterpret_cast<SignedHalves>(uppers) > reinterpret_cast<SignedHalves>(span_);
    }

    const Halves lowest_, span_;
  };

  __attribute__((always_inline)) void look_at_each(const char* at, size_t bytes) {
    for (size_t offset = 0; offset + sizeof(uint64_t) <= bytes; offset += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, at + offset, sizeof word);
      look_at(word);
    }
  }
  void add(uint64_t word) {
    if (__builtin_expect(count_ == kMost, 0)) {
      taker_(whose_, words_, count_);
      count_ = 0;
    }
    words_[count_++] = word;
  }

  const Taker taker_;
  void* const whose_;
  const AddressIndex::Bounds bounds_;  ///< of most words all that has to be known
  size_t count_ = 0;
  uint64_t words_[kMost];
};
/// A Taker: they are used now, by work that was given to the stream (CUstream) `stream`.
void use_now(void* stream, const uint64_t* words, size_t count);
/// A launch whose parameters could not be read.
void note_unread_launch();

}  // namespace gpupeak::preload
