// The slots of a log by the time of their next event, the earliest first: EventMerger's queue. The
// first few are sorted, the others a heap behind them. Which of the first few an event comes before
// nobody can guess, so one that moves back among them goes past all of them without a branch; few
// threads allocate at the same time, so the heap is seldom touched.
//
//   first few       3 at 10   0 at 12   7 at 15        3's next event is at 20:
//                   0 at 12   7 at 15   3 at 20        and nothing behind them comes before that
//   heap            5 at 31   …
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

class SlotQueue {
 public:
  /// A slot that has events; of equal times the lower number comes first.
  struct Slot {
    uint64_t ticks;
    uint32_t number;
    bool operator<(const Slot& other) const {
      return (ticks < other.ticks) | ((ticks == other.ticks) & (number < other.number));
    }
  };

  bool empty() const { return count_ == 0; }
  const Slot& first() const { return few_[0]; }
  /// When the one behind the first comes; UINT64_MAX: there is none.
  uint64_t second_ticks() const { return count_ > 1 ? few_[1].ticks : UINT64_MAX; }

  /// The first one's next event is later than it was.
  void move_first(uint64_t ticks) {
    Slot moved{ticks, few_[0].number};
    for (size_t i = 1; i < count_; ++i) {
      const Slot other = few_[i];
      // A mask, since of a condition the compiler makes a branch.
      const uint64_t earlier = -static_cast<uint64_t>(other < moved);
      const uint64_t ticks_differ = (other.ticks ^ moved.ticks) & earlier;
      const uint32_t numbers_differ =
          (other.number ^ moved.number) & static_cast<uint32_t>(earlier);
      few_[i - 1] = {moved.ticks ^ ticks_differ, moved.number ^ numbers_differ};
      moved = {other.ticks ^ ticks_differ, other.number ^ numbers_differ};
    }
    few_[count_ - 1] = moved;
    if (!heap_.empty() && heap_.front() < moved) [[unlikely]]
      exchange_last();
  }
  void push(const Slot& slot);
  void pop_first();
  /// Of those whose event is the first at the same time, this one comes first. False: it is none.
  bool put_first(uint32_t number);

 private:
  static constexpr size_t kFew = 8;

  void exchange_last();

  std::array<Slot, kFew> few_;
  size_t count_ = 0;  // of few_; less than kFew where heap_ is empty
  std::vector<Slot> heap_;
};

}  // namespace gpupeak::collector
