// The whole stacks that a thread remembers, as a tree that is followed from the innermost frame
// outwards. One in every StackCache. HOOK-SAFE, inside a HookScope.
//
// A stack is given by its innermost frame (ip, sp), and by the words that lead from each frame to
// its caller, in the order in which a walk needs them: mostly return addresses. The words before
// tell where the next one lies. So stacks that are alike so far have the next word at the same
// place, and differ in its value. Say that main calls parse twice, and both times parse calls
// malloc:
//
//   record 1   key: ip and sp in parse           node 3   words: "line 7 of main", end
//   record 2   key: "line 9", in place of record 1's word 0   node 5   words: end
//
// To find a stack, record 1's words are compared with those on the stack. At the first that differs
// there may be a record for the value that is there instead; then its words are compared. If there
// is none, the stack is not known and has to be walked. A hash alone is never believed.
//
// The outer parts of stacks are shared as tails: 32 frames each, counted from the outermost. Many
// records go on with the same tail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "gpupeak/log_format.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// A word of the stack by which a frame was left for its caller, and what it held then.
struct StackWord {
  const uintptr_t* at;  ///< in StackSteps, nullptr: the frame pointer's register
  uintptr_t value;
};

/// A stack's words from the innermost on, in the order in which a walk depends on them.
struct StackSteps {
  static constexpr uint32_t kTailFrames = 32;
  static constexpr uint32_t kMost = 3 * GPUPEAK_MAX_FRAMES + 2;
  static constexpr uint32_t kMostTails = GPUPEAK_MAX_FRAMES / kTailFrames;
  /// The frames up to the next whose number, counted from the outermost, is a multiple of
  /// kTailFrames.
  struct Tail {
    uint32_t begin;   ///< its first step
    uint32_t record;  ///< its record in the tree, if its steps have not changed since; else 0
    StackWord fp;     ///< what its first use of fp is compared with
  };
  /// Tail::fp if the tail does not use fp, or if fp was compared before.
  static constexpr uintptr_t kNoWord = 0;
  static constexpr StackWord kNoFp{&kNoWord, 0};

  uint32_t count = 0, tail_count = 0;
  /// How many tails have the same frames as the last time.
  uint32_t kept_tails = 0;
  uint32_t tree_number = 0;  ///< TraceTree::number_ when their records were made
  StackWord steps[kMost];
  Tail tails[kMostTails];  ///< outermost first

  /// Call it from the innermost tail on. Steps follow from the frames and from fp: if both are
  /// unchanged, so is all that lies further out. So if a tail has its record, outer tails have
  /// theirs.
  void begin_tail(uint32_t number, const StackWord& fp) {
    if (tail_count == 0) tail_count = number + 1;
    Tail& tail = tails[number];
    const bool is_same = number < kept_tails && tail.fp.at == fp.at && tail.fp.value == fp.value;
    tail = {count, is_same ? tail.record : 0, fp};
  }
};

class TraceTree {
 public:
  /// The node of the caller's stack if it is remembered; else 0.
  uint32_t find(const CallerFrame& caller) {
    const uint32_t node = find_expected(caller);
    return node != 0 ? node : find_otherwise(caller);
  }
  /// The first half of find(). Programs repeat themselves: looks at what came after the last stack
  /// when that was found before. A function of its own, and without calls, so that it can do with
  /// the registers that a callee may change.
  uint32_t find_expected(const CallerFrame& caller);
  /// The second half, right after the first has found nothing.
  uint32_t find_otherwise(const CallerFrame& caller);

  /// Remembers a stack that has just been walked. If memory is used up, forgets all others now and
  /// then.
  void learn(const CallerFrame& caller, StackSteps& stack, uint32_t node);
  void forget();
  /// For a new thread in the place of one that has ended: gives large memory back.
  void begin_thread();
  /// In a forked child: gives up the trees of the parent's threads, which the child does not have.
  static void abandon_all() { g_all_bytes.store(0, std::memory_order_relaxed); }

  // The memory of one thread, and of all.
  static constexpr size_t kFirstBytes = 64 << 10, kMostBytes = 4 << 20, kMostOfAll = 64 << 20;
  static constexpr size_t kMostWithFewAddresses = 256 << 10, kMostOfEnded = 256 << 10;

 private:
  struct Key {
    uint64_t a, b;
  };
  static constexpr uint32_t kHops = 4;
  /// The first few records by which a stack was found; 0: no more.
  struct Way {
    uint32_t records[kHops];

    bool operator==(const Way&) const = default;
  };
  /// Has words, the last of them kEnd or kTail, then as many uint16_t: how many words above `base`
  /// the stack has the same word. A mark has the number of the word before it, so that it may be
  /// compared as if it were a word: the word there is known not to be a mark. A tail has no node,
  /// lines and next, since no stack ends in it.
  struct Record {
    Key key;
    uint32_t node;
    uint16_t count;
    uint16_t lines;  ///< cache lines, up to its end, that were written with it; 0: few
    uintptr_t base;
    Way next;  ///< the way of the stack that came after this one the last time
    uint64_t words[1];

    bool is(const Key& other) const { return key.a == other.a && key.b == other.b; }
    const uint16_t* places() const { return reinterpret_cast<const uint16_t*>(words + count); }
  };
  static constexpr uint32_t kHeadWords = offsetof(Record, words) / sizeof(uint64_t);
  static constexpr uint64_t kMark = uint64_t{1} << 63;  ///< of everything that is not a word
  static constexpr uint64_t kEnd = ~uint64_t{0};        ///< all words are what they were
  /// A word that does not fit: its place and value come next. Place 0: the frame pointer's
  /// register.
  static constexpr uint64_t kWide = ~uint64_t{1};
  static constexpr uint64_t kTail = kMark;  ///< with the offset of the record with which it goes on
  static constexpr uint64_t kIsBranch = kMark, kIsTail = kMark | uint64_t{1} << 62;  ///< in Key::b

  static uint32_t hash(Key key) {
    return static_cast<uint32_t>((key.a ^ key.b << 20) * 0x9e3779b97f4a7c15u >> 32);
  }
  uint32_t offset_of(const void* at) const {
    return static_cast<uint32_t>(static_cast<const uint64_t*>(at) - arena_);
  }
  const Record* record_at(uint32_t offset) const {
    return reinterpret_cast<const Record*>(arena_ + offset);
  }
  /// The key of the record for stacks that have `there` where `record` has `word`.
  Key branch(const Record* record, const uint64_t* word, uintptr_t there) const {
    return {there, kIsBranch | uint64_t{offset_of(record)} << 32 | offset_of(word)};
  }

  /// Fetches at once what would be waited for piece by piece. No loop: the processor would guess
  /// its end wrong.
  static __attribute__((always_inline)) void fetch(const Record* record) {
    const char* end = reinterpret_cast<const char*>(record->places() + record->count);
    const char* at = end - record->lines * kLine;
#pragma GCC unroll 12
    for (uint32_t line = 0; line < kFetched; ++line) arch::prefetch(at + line * kLine);
  }

  /// Fetches what most likely comes after this record: with many stacks it is in no cache any more.
  __attribute__((always_inline)) void fetch_expected(const Record* record) const {
    if (mask_ < kManyEntries) return;
    for (const uint32_t offset : record->next.records) {
      const char* at = reinterpret_cast<const char*>(arena_ + offset);
      arch::prefetch(at);
      arch::prefetch(at + kLine);
    }
  }

  const Record* look_up(Key key) const {
    for (uint32_t i = hash(key);; ++i) {
      const uint32_t offset = table_[i & mask_];
      if (offset == 0) return nullptr;
      const Record* record = record_at(offset);
      if (record->is(key)) return record;
    }
  }

  /// Compares a record's words with the stack's. Each is read only after those before have proved
  /// that its frame stands. Returns the place of kEnd, or of the first word that differs; `there`
  /// is the stack's value. `passes` gets each place.
  template <typename Passes>
  __attribute__((always_inline)) const uint64_t* first_difference(const Record* record,
                                                                  uintptr_t fp, uintptr_t& there,
                                                                  Passes passes) const {
    size_t i = 0;
    for (;;) {
      const uint64_t* words = record->words;
      if ((words[i] & kMark) == 0) {
        const auto* base = reinterpret_cast<const uintptr_t*>(record->base);
        const uint16_t* places = record->places();
        for (; base[places[i]] == words[i]; ++i) passes(base + places[i]);
        asm("" : "+r"(i));  // so that the loop need keep nothing but that
        if ((words[i] & kMark) == 0) {
          passes(base + places[i]);
          there = base[places[i]];
          return words + i;
        }
      }
      if (words[i] == kEnd) return words + i;
      if (words[i] == kWide) {
        const auto* place = reinterpret_cast<const uintptr_t*>(words[i + 1]);
        passes(place);
        there = place != nullptr ? *place : fp;
        if (there != words[i + 2]) return words + i;
        i += 3;
      } else {
        record = record_at(static_cast<uint32_t>(words[i]));
        i = 0;
      }
    }
  }

  uint32_t leave_expected(Key key, uint32_t hop);
  static uint64_t* put(Record* record, const StackSteps& stack, uint32_t begin, uint32_t end,
                       uint32_t tail);
  uint32_t put_tail(const StackSteps& stack, uint32_t number, uint32_t outer);
  Record* claim(uint32_t steps);
  void publish(Record* record, const uint64_t* end);
  void enter(uint32_t* table, uint32_t mask, const Record* record) const;
  uint32_t* entries_at(uint32_t offset) const {
    return reinterpret_cast<uint32_t*>(arena_ + offset);
  }
  bool make_table(uint32_t entries);
  bool has_words(size_t words);
  bool has_room(const StackSteps& stack);
  bool grow(size_t bytes);

  static constexpr uint32_t kFirstEntries = 1024, kSparseness = 4, kMostWordsOfStep = 4;
  static constexpr uint32_t kLine = 64, kFewLines = 8, kFetched = 12;
  static constexpr uint32_t kManyEntries = 4096;  ///< they and their records fill the first cache
  static const uint32_t kNoEntries[1];
  static std::atomic<size_t> g_all_bytes;

  // First what find_expected() needs.
  uint64_t* arena_ = nullptr;
  uint32_t last_found_ = 0;             ///< record; 0: none
  uint32_t mask_ = 0;                   ///< entries - 1; 0: no table yet
  const uint32_t* table_ = kNoEntries;  ///< offsets of records in the arena, hashed; 0: none
  uint32_t records_ = 0;
  uint32_t used_ = 0, capacity_ = 0;  ///< of the arena, words
  uint32_t refused_ = 0;              ///< stacks for which there was no room
  Key sought_{};                      ///< where find_expected() had to leave the expected way
  uint32_t number_ = 0;               ///< changes when the tree forgets
  uint32_t sought_hop_ = 0;           ///< after so many records of that way
  bool is_full_ = false;              ///< until the tree forgets
  size_t most_bytes_ = kMostBytes;
};

}  // namespace gpupeak::preload
