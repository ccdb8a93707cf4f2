#include "collector/log/slot_queue.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {
namespace {

bool later(const SlotQueue::Slot& a, const SlotQueue::Slot& b) {
  return b < a;
}

}  // namespace

/// The last of the few, which comes after the heap's first, sinks in its place.
void SlotQueue::exchange_last() {
  const Slot sinks = few_[count_ - 1];
  few_[count_ - 1] = heap_.front();
  size_t at = 0;
  for (size_t child = 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size()) child += heap_[child + 1] < heap_[child] ? 1 : 0;
    if (!(heap_[child] < sinks)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = sinks;
}

void SlotQueue::push(const Slot& slot) {
  Slot last = slot;
  if (count_ < kFew) {
    few_[count_++] = last;
  } else {
    if (last < few_[kFew - 1]) std::swap(last, few_[kFew - 1]);
    heap_.push_back(last);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  for (size_t i = count_ - 1; i > 0 && few_[i] < few_[i - 1]; --i) std::swap(few_[i], few_[i - 1]);
}

void SlotQueue::pop_first() {
  std::move(few_.begin() + 1, few_.begin() + count_, few_.begin());
  --count_;
  if (heap_.empty()) return;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  few_[count_++] = heap_.back();
  heap_.pop_back();
}

bool SlotQueue::put_first(uint32_t number) {
  const auto is_meant = [&](const Slot& slot) {
    return slot.number == number && slot.ticks == few_[0].ticks;
  };
  if (empty()) return false;
  auto place = std::find_if(few_.begin(), few_.begin() + count_, is_meant);
  if (place == few_.begin() + count_) {
    const auto beyond = std::find_if(heap_.begin(), heap_.end(), is_meant);
    if (beyond == heap_.end()) return false;
    std::swap(*--place, *beyond);  // which comes at the same time
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  std::rotate(few_.begin(), place, place + 1);
  return true;
}

}  // namespace gpupeak::collector
