// The slots of a log by the time of their next event, the earliest first: EventMerger's queue. Two
// slots play a match, the winners of two matches the next one, and so on. An event has its slot
// play again, those of its own path alone. Who wins nobody can guess, so each is decided without a
// branch: who comes from below stays in registers, and the other one lies there.
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
  /// A slot that has events; of equal times the lower number comes first.
  struct Slot {
    uint64_t ticks;
    uint32_t number;
  };

  /// Of slots with smaller numbers than `slots`.
  explicit LoserTree(size_t slots)
      : places_(std::bit_ceil(slots)), matches_(2 * places_, kNobody) {}

  bool empty() const { return matches_[1].order == kNobody.order; }

  // Of a queue that is not empty.
  Slot first() const { return {matches_[1].ticks, static_cast<uint32_t>(matches_[1].order)}; }
  /// When the one behind the first comes; UINT64_MAX: there is none.
  uint64_t second_ticks() const {
    uint64_t ticks = UINT64_MAX;
    for (size_t at = place(first().number); at > 1; at /= 2)
      ticks = std::min(ticks, matches_[at ^ 1].ticks);
    return ticks;
  }

  /// The first one's next event is later than it was.
  void move_first(uint64_t ticks) { push({ticks, first().number}); }
  void pop_first() { set(first().number, kNobody); }

  /// One that is not there.
  void push(const Slot& slot) { set(slot.number, {slot.ticks, kInTurn | slot.number}); }
  /// Of those whose event is the first at the same time, this one comes first. False: it is none.
  bool put_first(uint32_t number) {
    const Entry& entry = matches_[place(number)];
    if (empty() || entry.order == kNobody.order || entry.ticks != first().ticks) return false;
    set(number, {entry.ticks, number});
    return true;
  }

 private:
  struct Entry {
    uint64_t ticks;
    uint64_t order;  // of those at the same time
  };
  static constexpr uint64_t kInTurn = UINT64_C(1) << 32;  // of all but one that is put first
  static constexpr Entry kNobody{UINT64_MAX, UINT64_MAX};

  size_t place(uint32_t number) const { return places_ + number; }
  void set(uint32_t number, Entry entry) {
    size_t at = place(number);
    matches_[at] = entry;
    for (; at > 1; at /= 2) {
      const Entry other = matches_[at ^ 1];
      // A mask, since of a condition the compiler makes a branch.
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
