#include "track/address_index.h"

#include <algorithm>

#include "base/memory.h"
#include "gpupeak/pages.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kBeginsAtOnce = 16;  // reserved at once; most of their pages are never touched

uint32_t lowest_bit(uint64_t word) {
  return static_cast<uint32_t>(__builtin_ctzll(word));
}
uint64_t bits_below(uint32_t bit) {
  return (uint64_t{1} << bit % 64) - 1;
}
uint64_t bits_above(uint32_t bit) {
  return ~uint64_t{1} << bit % 64;
}

}  // namespace

/// The number of the last block that begins in an earlier granule; `before` if there is none.
inline uint32_t AddressIndex::Begins::last_before(uint32_t granule) const {
  uint32_t word = granule / 64;
  uint64_t found = bits[word] & bits_below(granule);
  if (found == 0) {
    uint32_t group = word / 64;
    uint64_t others = words[group] & bits_below(word);
    while (others == 0) {
      if (group == 0) return before;
      others = words[--group];
    }
    word = group * 64 + highest_bit_of(others);
    found = bits[word];
  }
  return last_of[word * 64 + highest_bit_of(found)];
}

/// The first granule behind this one in which a block begins; -1: none.
inline int AddressIndex::Begins::first_behind(uint32_t granule) const {
  uint32_t word = granule / 64;
  uint64_t found = bits[word] & bits_above(granule);
  if (found == 0) {
    uint32_t group = word / 64;
    uint64_t others = words[group] & bits_above(word);
    while (others == 0) {
      if (++group == kWords / 64) return -1;
      others = words[group];
    }
    word = group * 64 + lowest_bit(others);
    found = bits[word];
  }
  return static_cast<int>(word * 64 + lowest_bit(found));
}

inline bool AddressIndex::Begins::is_empty() const {
  uint64_t any = before;
  for (const uint64_t group : words) any |= group;
  return any == 0;
}

/// The number of the last block that begins at the address or before; 0: none.
inline uint32_t AddressIndex::last_until(const Begins& begins, uint64_t address) const {
  const uint32_t granule = granule_of(address);
  if ((begins.bits[granule / 64] >> granule % 64 & 1) != 0) {
    uint32_t number = begins.last_of[granule];
    while (number != 0 && all_[number].begin > address) number = all_[number].next_in_index;
    if (number != 0) return number;
  }
  return begins.last_before(granule);
}

Use* AddressIndex::find(uint64_t address) const {
  if (!bounds().contain(address)) return nullptr;
  const uint64_t entry = entry_of(address);
  if (entry == 0) return nullptr;
  const uint64_t number = (entry & kWhole) != 0
                              ? entry >> 1
                              : last_until(*reinterpret_cast<const Begins*>(entry), address);
  Use* const block = all_ + number;
  return block->holds(address) ? block : nullptr;
}

/// A reader between the two stores sees bounds that are too wide. find() still answers right.
__attribute__((noinline)) void AddressIndex::widen(uint64_t begin, uint64_t end) {
  const uint64_t highest = std::max(lowest_ + span_, end);
  const uint64_t lowest = span_ == 0 ? begin : std::min(lowest_, begin);
  if (highest - lowest == span_) return;
  __atomic_store_n(&span_, highest - lowest, __ATOMIC_RELAXED);
  __atomic_store_n(&lowest_, lowest, __ATOMIC_RELEASE);
}

/// The entry of the address's page; nullptr: no memory.
inline uint64_t* AddressIndex::entry_at(uint64_t address) {
  std::atomic<Pages*>& top = top_[address >> kTopShift];
  Pages* pages = top.load(std::memory_order_relaxed);  // stored under the lock
  if (__builtin_expect(pages == nullptr, 0)) {
    pages = static_cast<Pages*>(map_pages(sizeof(Pages)));
    if (pages == nullptr) return nullptr;
    top.store(pages, std::memory_order_release);
  }
  return &pages->entries[(address >> kPageShift) % kPagesOfTop];
}

AddressIndex::Begins* AddressIndex::take_begins() {
  if (Begins* const known = free_) {
    free_ = known->next_free;
    return known;
  }
  if (fresh_count_ == 0) {
    fresh_ = static_cast<Begins*>(reserve_pages(whole_pages(kBeginsAtOnce * sizeof(Begins))));
    if (fresh_ == nullptr) return nullptr;
    fresh_count_ = kBeginsAtOnce;
  }
  return fresh_ + --fresh_count_;
}

/// Gives back `begins`, which is empty: as when it was fresh, but for values in `last_of`, which do
/// not count without their bit.
void AddressIndex::drop(uint64_t& entry, Begins& begins) {
  __atomic_store_n(&entry, 0, __ATOMIC_RELAXED);
  begins.next_free = free_;
  free_ = &begins;
}

/// Whether no block lies in [begin, end), which is in the page of `begins`.
inline bool AddressIndex::is_free(const Begins& begins, uint64_t begin, uint64_t end) const {
  const uint32_t granule = granule_of(begin);
  if (__builtin_expect((begins.bits[granule / 64] >> granule % 64 & 1) != 0, 0))
    return is_free_slowly(begins, begin, end);
  if (all_[begins.last_before(granule)].end > begin) return false;
  const int behind = begins.first_behind(granule), last = static_cast<int>(granule_of(end - 1));
  if (behind < 0 || behind > last) return true;
  return behind == last && is_free_slowly(begins, begin, end);
}

/// The same if a block begins in the first granule or in the last one.
bool AddressIndex::is_free_slowly(const Begins& begins, uint64_t begin, uint64_t end) const {
  if (all_[last_until(begins, begin)].end > begin) return false;
  const auto begins_there = [&](uint32_t granule) {
    if ((begins.bits[granule / 64] >> granule % 64 & 1) == 0) return false;
    for (uint32_t at = begins.last_of[granule]; at != 0; at = all_[at].next_in_index) {
      if (all_[at].begin >= begin && all_[at].begin < end) return true;
    }
    return false;
  };
  const uint32_t first = granule_of(begin), last = granule_of(end - 1);
  if (begins_there(first) || begins_there(last)) return false;
  const int behind = begins.first_behind(first);
  return behind < 0 || behind >= static_cast<int>(last);
}

/// Enters the block in the page in which it begins. False: no room, or another block overlaps.
inline bool AddressIndex::begin_in(uint64_t& entry, Use& block) {
  const uint32_t number = number_of(block);
  const uint64_t page = block.begin & ~(kPage - 1);
  if (__builtin_expect(block.begin == page && block.end - page >= kPage, 0))
    return cover(entry, block, page);
  if ((entry & kWhole) != 0) return false;
  const bool is_first = entry == 0;
  Begins* const begins = is_first ? take_begins() : reinterpret_cast<Begins*>(entry);
  if (begins == nullptr) return false;
  if (!is_first && !is_free(*begins, block.begin, std::min(block.end, page + kPage))) return false;
  const uint32_t granule = granule_of(block.begin), word = granule / 64;
  const uint64_t bit = uint64_t{1} << granule % 64;
  uint32_t* place = &begins->last_of[granule];
  if (__builtin_expect((begins->bits[word] & bit) == 0, 1)) {
    *place = 0;
  } else {
    while (*place != 0 && all_[*place].begin > block.begin) place = &all_[*place].next_in_index;
  }
  block.next_in_index = *place;
  // The order of the stores is such that after a jump out of here the list has an end, and `words`
  // has no bit for a word without bits.
  in_order();
  *place = number;
  begins->bits[word] |= bit;
  in_order();
  begins->words[word / 64] |= uint64_t{1} << word % 64;
  in_order();
  // Who has no lock asks whether there is an entry, and follows none.
  if (is_first) __atomic_store_n(&entry, reinterpret_cast<uint64_t>(begins), __ATOMIC_RELAXED);
  return true;
}

/// Enters the block in a page that it covers whole, or of which it covers the beginning.
bool AddressIndex::cover(uint64_t& entry, const Use& block, uint64_t page) {
  const uint32_t number = number_of(block);
  if (block.end - page >= kPage) {
    if (entry != 0) return false;
    __atomic_store_n(&entry, uint64_t{number} << 1 | kWhole, __ATOMIC_RELAXED);
    return true;
  }
  if ((entry & kWhole) != 0) return false;
  Begins* const begins = entry != 0 ? reinterpret_cast<Begins*>(entry) : take_begins();
  if (begins == nullptr || (entry != 0 && !is_free(*begins, page, block.end))) return false;
  begins->before = number;
  in_order();
  if (entry == 0) __atomic_store_n(&entry, reinterpret_cast<uint64_t>(begins), __ATOMIC_RELAXED);
  return true;
}

inline void AddressIndex::end_in(uint64_t& entry, const Use& block) {
  if (__builtin_expect((entry & kWhole) != 0 || entry == 0, 0)) return uncover(entry, block);
  const uint32_t number = number_of(block);
  Begins& begins = *reinterpret_cast<Begins*>(entry);
  const uint32_t granule = granule_of(block.begin), word = granule / 64;
  const uint64_t bit = uint64_t{1} << granule % 64, bits = begins.bits[word];
  if ((bits & bit) == 0) return;
  uint32_t* place = &begins.last_of[granule];
  while (*place != 0 && *place != number) place = &all_[*place].next_in_index;
  if (*place == 0) return;
  *place = block.next_in_index;
  if (begins.last_of[granule] != 0) return;
  if (bits == bit) begins.words[word / 64] &= ~(uint64_t{1} << word % 64);
  in_order();
  begins.bits[word] = bits & ~bit;
  if (bits == bit && begins.is_empty()) drop(entry, begins);
}

void AddressIndex::uncover(uint64_t& entry, const Use& block) {
  const uint32_t number = number_of(block);
  if (entry == 0) return;
  if ((entry & kWhole) != 0) {
    if (entry >> 1 == number) __atomic_store_n(&entry, 0, __ATOMIC_RELAXED);
    return;
  }
  Begins& begins = *reinterpret_cast<Begins*>(entry);
  if (begins.before != number) return;
  begins.before = 0;
  if (begins.is_empty()) drop(entry, begins);
}

bool AddressIndex::add(Use& block) {
  const uint64_t begin = block.begin, end = block.end;
  if (__builtin_expect(end <= begin || end > kAddresses, 0)) return false;
  if (const Bounds known = bounds(); !known.contain(begin) || !known.contain(end - 1))
    widen(begin, end);
  uint64_t* const first = entry_at(begin);
  if (first == nullptr || !begin_in(*first, block)) return false;
  for (uint64_t page = (begin & ~(kPage - 1)) + kPage; page < end; page += kPage) {
    uint64_t* const entry = entry_at(page);
    if (entry != nullptr && cover(*entry, block, page)) continue;
    end_in(*first, block);
    uncover_until(block, page);
    return false;
  }
  return true;
}

void AddressIndex::remove(const Use& block) {
  if (uint64_t* const first = entry_at(block.begin)) end_in(*first, block);
  uncover_until(block, block.end);
}

/// Takes the block out of its pages up to `end`, but not out of the page in which it begins.
inline void AddressIndex::uncover_until(const Use& block, uint64_t end) {
  for (uint64_t page = (block.begin & ~(kPage - 1)) + kPage; page < end; page += kPage) {
    if (uint64_t* const entry = entry_at(page)) uncover(*entry, block);
  }
}

void AddressIndex::forget() {
  for (std::atomic<Pages*>& top : top_) {
    if (top.load(std::memory_order_relaxed) != nullptr)
      top.store(nullptr, std::memory_order_relaxed);
  }
  lowest_ = span_ = 0;
  free_ = fresh_ = nullptr;
  fresh_count_ = 0;
}

}  // namespace gpupeak::preload
