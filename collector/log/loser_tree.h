// EventMerger's queue: the slots of a log by the time of their next event, the earliest first. Two
// slots play a match, the winners of two matches play the next one, and so on. When a slot's event
// changes, only the matches on its own path are played again. The processor cannot guess who wins,
// so each match is decided without a branch: the slot that comes from below stays in registers, and
// the other one is in memory.
//
//   first                0 at 10               0's next event is at 20: it loses to 1 at 15,
//   matches       0 at 10       2 at 12        who loses to 2 at 12
//   slots     0 at 10  1 at 15  2 at 12  –
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

class LoserTree {
 public:
  /// A slot that has events. Of equal times the lower number comes first.
  struct Slot {
    uint64_t ticks;
    uint32_t number;
  };

  /// Holds slots with numbers smaller than `slots`.
  explicit LoserTree(size_t slots)
      : places_(std::bit_ceil(slots)), matches_(2 * places_, kNobody) {}

  bool empty() const { return matches_[1].order == kNobody.order; }

  // The earliest slot. The queue must not be empty, nor for second_ticks(), move_first() and
  // pop_first().
  Slot first() const { return {matches_[1].ticks, static_cast<uint32_t>(matches_[1].order)}; }
  /// The time of the slot behind the first; UINT64_MAX: there is none.
  uint64_t second_ticks() const {
    uint64_t ticks = UINT64_MAX;
    for (size_t at = place(first().number); at > 1; at /= 2)
      ticks = std::min(ticks, matches_[at ^ 1].ticks);
    return ticks;
  }

  /// Gives the first slot a later time.
  void move_first(uint64_t ticks) { push({ticks, first().number}); }
  void pop_first() { set(first().number, kNobody); }

  /// Adds a slot that is not in the queue.
  void push(const Slot& slot) { set(slot.number, {slot.ticks, kInTurn | slot.number}); }
  /// Puts this slot before all others that have the same time as the first. False: its time is
  /// another one, or it is not in the queue.
  bool put_first(uint32_t number) {
    const Entry& entry = matches_[place(number)];
    if (empty() || entry.order == kNobody.order || entry.ticks != first().ticks) return false;
    set(number, {entry.ticks, number});
    return true;
  }

 private:
  struct Entry {
    uint64_t ticks;
    uint64_t order;  // decides between equal times
  };
  // Every slot has this bit, except the one that was put first.
  static constexpr uint64_t kInTurn = UINT64_C(1) << 32;
  static constexpr Entry kNobody{UINT64_MAX, UINT64_MAX};

  size_t place(uint32_t number) const { return places_ + number; }
  void set(uint32_t number, Entry entry) {
    size_t at = place(number);
    matches_[at] = entry;
    for (; at > 1; at /= 2) {
      const Entry other = matches_[at ^ 1];
      // A mask, since the compiler would make a branch of a condition.
      const bool wins = (other.ticks < entry.ticks) |
                        ((other.ticks == entry.ticks) & (other.order < entry.order));
      const uint64_t differs = -static_cast<uint64_t>(wins);
      entry.ticks ^= (other.ticks ^ entry.ticks) & differs;
      entry.order ^= (other.order ^ entry.order) & differs;
      matches_[at / 2] = entry;
    }
  }

  size_t places_;
  std::vector<Entry> matches_;  // the winner of 2i and 2i + 1 at i; the slots from places_ on
};

}  // namespace gpupeak::collector
