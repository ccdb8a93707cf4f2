#include "track/address_index.h"

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "gpupeak/pages.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMostLists = 1 << 20;
constexpr uint32_t kFirstPieces = 256;  // their memory is whole pages
constexpr uint32_t kMostPieces = 1 << 14;

}  // namespace

bool AddressIndex::may_hold(uint64_t address) const {
  if (!bounds().contain(address)) return false;
  const Pages* const pages = top_[address >> kTopShift].load(std::memory_order_acquire);
  return pages != nullptr && __atomic_load_n(&pages->entries[(address >> kPageShift) % kPagesOfTop],
                                             __ATOMIC_RELAXED) != 0;
}

/// A reader between the two stores sees too much, which find() puts right.
void AddressIndex::widen(uint64_t begin, uint64_t end) {
  const uint64_t highest = std::max(lowest_ + span_, end);
  const uint64_t lowest = span_ == 0 ? begin : std::min(lowest_, begin);
  if (highest - lowest == span_) return;
  __atomic_store_n(&span_, highest - lowest, __ATOMIC_RELAXED);
  __atomic_store_n(&lowest_, lowest, __ATOMIC_RELAXED);
}

uint32_t* AddressIndex::entry_at(uint64_t address) {
  if (address >= kAddresses) return nullptr;
  std::atomic<Pages*>& top = top_[address >> kTopShift];
  Pages* pages = top.load(std::memory_order_acquire);
  if (pages == nullptr) {
    pages = static_cast<Pages*>(map_pages(sizeof(Pages)));
    if (pages == nullptr) return nullptr;
    top.store(pages, std::memory_order_release);
  }
  return &pages->entries[(address >> kPageShift) % kPagesOfTop];
}

/// Of the first piece that begins behind the offset.
uint32_t AddressIndex::position(const List& list, uint32_t offset) {
  uint32_t low = 0, high = list.count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (list.pieces[middle].begin <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

uint32_t AddressIndex::find(uint64_t address) const {
  if (!may_hold(address)) return 0;
  const Pages* const pages = top_[address >> kTopShift].load(std::memory_order_acquire);
  const uint32_t entry = pages->entries[(address >> kPageShift) % kPagesOfTop];
  if ((entry & kWhole) != 0) return entry & ~kWhole;
  if (entry == 0) return 0;
  const List& list = lists_[entry];
  const auto offset = static_cast<uint32_t>(address % kPage);
  const uint32_t behind = position(list, offset);
  if (behind == 0) return 0;
  const Piece& piece = list.pieces[behind - 1];
  return offset < piece.end ? piece.number : 0;
}

uint32_t AddressIndex::take_list() {
  if (lists_ == nullptr) lists_ = static_cast<List*>(reserve_pages(kMostLists * sizeof(List)));
  if (lists_ == nullptr) return 0;
  const uint32_t free = free_list_;
  if (free != 0) {
    free_list_ = lists_[free].next_free;
    return free;
  }
  return list_count_ + 1 < kMostLists ? ++list_count_ : 0;
}

bool AddressIndex::make_room(List& list) {
  if (list.count < list.capacity) return true;
  const uint32_t capacity = list.capacity == 0 ? kFirstPieces : list.capacity * 2;
  if (capacity > kMostPieces) return false;
  auto* const pieces = static_cast<Piece*>(map_pages(whole_pages(capacity * sizeof(Piece))));
  if (pieces == nullptr) return false;
  Piece* const old = list.pieces;
  if (old != nullptr) memcpy(pieces, old, list.count * sizeof(Piece));
  list.pieces = pieces;
  if (old != nullptr) unmap_pages(old, whole_pages(list.capacity * sizeof(Piece)));
  list.capacity = capacity;
  return true;
}

/// Its memory stays with it, for the next page that needs one.
void AddressIndex::drop_list(uint32_t& entry) {
  const uint32_t number = entry;
  __atomic_store_n(&entry, 0, __ATOMIC_RELAXED);
  lists_[number].next_free = free_list_;
  free_list_ = number;
}

bool AddressIndex::add_piece(uint32_t& entry, Piece piece) {
  if ((entry & kWhole) != 0) return false;
  const bool is_first = entry == 0;
  const uint32_t number = is_first ? take_list() : entry;
  if (number == 0) return false;
  List& list = lists_[number];
  if (is_first) list.count = 0;
  const uint32_t at = position(list, piece.begin);
  const bool overlaps = (at > 0 && list.pieces[at - 1].end > piece.begin) ||
                        (at < list.count && list.pieces[at].begin < piece.end);
  if (overlaps || !make_room(list)) {
    if (is_first) {
      list.next_free = free_list_;
      free_list_ = number;
    }
    return false;
  }
  memmove(list.pieces + at + 1, list.pieces + at, (list.count - at) * sizeof(Piece));
  list.pieces[at] = piece;
  ++list.count;
  if (is_first) __atomic_store_n(&entry, number, __ATOMIC_RELEASE);
  return true;
}

void AddressIndex::remove_piece(uint32_t& entry, uint32_t offset, uint32_t number) {
  if (entry == 0 || (entry & kWhole) != 0) return;
  List& list = lists_[entry];
  const uint32_t behind = position(list, offset);
  if (behind == 0 || list.pieces[behind - 1].number != number) return;
  Piece* const piece = list.pieces + behind - 1;
  memmove(piece, piece + 1, (list.count - behind) * sizeof(Piece));
  if (--list.count == 0) drop_list(entry);
}

bool AddressIndex::add(uint64_t begin, uint64_t bytes, uint32_t number) {
  const uint64_t end = begin + bytes;
  if (bytes == 0 || end < begin || end > kAddresses) return false;
  widen(begin, end);
  for (uint64_t at = begin; at < end;) {
    const uint64_t page = at & ~(kPage - 1);
    const uint64_t page_end = std::min(end, page + kPage);
    uint32_t* const entry = entry_at(page);
    bool added = entry != nullptr;
    if (added && page_end - at == kPage) {
      added = *entry == 0;
      if (added) __atomic_store_n(entry, kWhole | number, __ATOMIC_RELAXED);
    } else if (added) {
      added = add_piece(*entry, {static_cast<uint32_t>(at - page),
                                 static_cast<uint32_t>(page_end - page), number});
    }
    if (!added) {
      if (at > begin) remove(begin, at - begin, number);
      return false;
    }
    at = page_end;
  }
  return true;
}

void AddressIndex::remove(uint64_t begin, uint64_t bytes, uint32_t number) {
  const uint64_t end = std::min(begin + bytes, kAddresses);
  for (uint64_t page = begin & ~(kPage - 1); page < end; page += kPage) {
    uint32_t* const entry = entry_at(page);
    if (entry == nullptr) continue;
    if (*entry == (kWhole | number))
      __atomic_store_n(entry, 0, __ATOMIC_RELAXED);
    else
      remove_piece(*entry, static_cast<uint32_t>(page < begin ? begin - page : 0), number);
  }
}

void AddressIndex::forget() {
  for (std::atomic<Pages*>& top : top_) {
    if (top.load(std::memory_order_relaxed) != nullptr)
      top.store(nullptr, std::memory_order_relaxed);
  }
  lowest_ = span_ = 0;
  lists_ = nullptr;
  list_count_ = free_list_ = 0;
}

}  // namespace gpupeak::preload
