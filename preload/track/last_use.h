// When a block was last used. A use is a kernel's launch, a copy, a fill or a memory operation with
// an address in the block among its arguments. The launch's time counts, not the kernel's. For each
// live block these are kept: its first and its last use, their number, and the longest time between
// two. They go into the log when the block ends. Addresses that a kernel reads from memory (arrays
// of pointers) are not seen. HOOK-SAFE.
//
//   in    a launch with the words 0x7f40002000, 3, 0x7f…
//   out   block 5: first +1.20 s, last +3.40 s, 218 times; at its end the record USED
//
// There are two indexes: blocks that the driver gave, and blocks that arenas gave out of these. An
// address is a use of the innermost block alone.
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
/// The index of the blocks that the driver gave.
extern constinit GPUPEAK_OWN AddressIndex g_given_addresses;
/// Call it when the log begins. The log then says that uses are recorded, or why they are not.
void begin_watching_uses();
/// In a forked child, or before a next log.
void forget_uses();

// The caller of these holds the book's lock.

/// A block of the driver's begins; `id` as in the log. Returns its number here; 0: its uses are not
/// recorded.
uint32_t use_began(uint64_t address, uint64_t bytes, uint64_t id);
/// Logs the uses of a block; call it before the record of the block's end. Number 0 is no block.
void use_ended(uint32_t number);
/// Blocks that lie at the addresses `words` are used now, by work that was given to the stream.
void use_in_book(CUstream stream, const uint64_t* words, size_t count);
/// The block `id` was mapped at these addresses.
void mapped_use_began(uint64_t address, uint64_t bytes, uint64_t id);
void mapped_use_ended(uint64_t address);

// These are called inside a HookScope, without the lock.

/// The uses of a block since its last record.
struct SeenUses {
  bool is_known = false;
  bool of_several_streams = false;
  uint64_t count = 0, first = 0, last = 0;
  uint64_t idle_since = 0, idle = 0;

  /// Call it if `count` > 0. Writes the times as log_format.h has them: as ticks before the record.
  __attribute__((always_inline)) void put_times(RecordInPlace& record) const {
    const uint64_t now = record.time();
    record.id(now - first).id(now - last);
    const bool is_from_first_to_last = idle == last - first && (idle == 0 || idle_since == first);
    if (is_from_first_to_last && !of_several_streams) return;  // most blocks are used twice
    record.id(idle).id(idle > 0 ? now - idle_since : 0).u(of_several_streams ? 2 : 1);
  }
};
/// An arena gave a block. Call it after the record of that.
void arena_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
/// The block goes. Call it before the record of that, which has the uses.
SeenUses arena_use_ended(uint64_t arena, uint64_t address);
/// The same for PyTorch's arenas, whose memory is always a device's.
void torch_use_began(uint64_t arena, uint64_t address, uint64_t bytes);
SeenUses torch_use_ended(uint64_t arena, uint64_t address);
/// All blocks of an arena go: logs their uses.
void arena_uses_ended(uint64_t arena);

/// The process ends: logs the uses of all live blocks, and that the log has the uses of all blocks.
void log_all_uses();

/// Collects the words that may be addresses of blocks, from the arguments of a call that gives work
/// to a device. Used outside any HookScope.
class SeenWords {
 public:
  /// Gets the words, some at a time.
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
  /// Looks at each word of the structure at `at`; it is aligned to words.
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

  /// Finds out fast whether a word of a stretch may be in the bounds: structures are long, and most
  /// of their words are sizes and strides. Compares the words' upper halves. It compares them as
  /// signed numbers, since all processors have instructions for that.
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
  const AddressIndex::Bounds bounds_;  ///< most words are outside, and need no more than this
  size_t count_ = 0;
  uint64_t words_[kMost];
};
/// A SeenWords::Taker. Blocks at the addresses `words` are used now, by work that was given to
/// `stream` (a CUstream).
void use_now(void* stream, const uint64_t* words, size_t count);
/// Counts a launch whose parameters could not be read.
void note_unread_launch();

}  // namespace gpupeak::preload
