#include "collector/replay/big_arrays.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <random>
#include <utility>

namespace gpupeak::collector {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line

/// Rounded up to whole huge pages if it is a huge page or more: the kernel makes none of a part of
/// one.
size_t mapped_bytes(size_t bytes) {
  return bytes < kHugePageBytes ? bytes
                                : (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

/// Maps memory; `for_huge_pages`: it begins where one can.
void* map(size_t bytes, bool for_huge_pages) {
  const size_t more = bytes < kHugePageBytes || !for_huge_pages ? 0 : kHugePageBytes;
  void* const room =
      mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  if (more == 0) return room;
  auto* const begin = static_cast<std::byte*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, more - before);
  return begin + before;
}

}  // namespace

ZeroedMemory::ZeroedMemory(size_t bytes, bool asks_for_huge_pages) {
  grow(bytes, asks_for_huge_pages);
}

void ZeroedMemory::grow(size_t bytes, bool asks_for_huge_pages) {
  bytes = mapped_bytes(bytes);
  const size_t old_bytes = data_.get_deleter().bytes;
  if (bytes <= old_bytes) return;
  const bool is_small = bytes < kSmallBytes, was_small = old_bytes < kSmallBytes;
  void* const data = is_small ? ::operator new(bytes, kAlignment) : map(bytes, asks_for_huge_pages);
  if (is_small) memset(data, 0, bytes);
  if (was_small) {
    if (old_bytes > 0) memcpy(data, data_.get(), old_bytes);
  } else {  // its pages are moved; the new place has none yet
    if (mremap(data_.get(), old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) == MAP_FAILED)
      throw std::bad_alloc();
    (void)data_.release();
  }
  data_ = std::unique_ptr<void, Release>(data, Release{bytes});
  if (asks_for_huge_pages && bytes >= kHugePageBytes) madvise(data, bytes, MADV_HUGEPAGE);
}

void ZeroedMemory::Release::operator()(void* data) const {
  if (bytes < kSmallBytes)
    ::operator delete(data, kAlignment);
  else
    munmap(data, bytes);
}

const uint32_t* KeyTable::find_beyond(const Bucket& home, uint64_t key) const {
  const Bucket* at = &home;
  while (gone_on(*at, key) != 0) {
    at = &next(*at);
    if (const unsigned found = places(*at, key)) return &at->numbers[first(found)];
  }
  return nullptr;
}

uint32_t& KeyTable::claim_beyond(Bucket& home, uint64_t key, bool& added) {
  if (const uint32_t* number = find_beyond(home, key)) {
    added = false;
    return const_cast<uint32_t&>(*number);
  }
  if (size_++ == limit_) grow();
  size_t way;
  uint32_t& number = add(key, way);
  if (way < kLongWay) return number;
  spread_anew();
  return const_cast<uint32_t&>(*find(key));
}

uint32_t KeyTable::take_beyond(Bucket& home, uint64_t key) {
  const uint32_t* number = find_beyond(home, key);
  if (number == nullptr) return kNone;
  Bucket* at = &home;
  unsigned found;
  do {
    count_gone_on(*at, key, UINT32_MAX);
    at = &next(*at);
  } while ((found = places(*at, key)) == 0);
  at->keys[first(found)] = kFree;
  --size_;
  return *number;
}

/// Adds a key that is not there; some bucket must have room. `way`: how many buckets it has gone
/// on.
uint32_t& KeyTable::add(uint64_t key, size_t& way) {
  Bucket* at = &buckets_[home(hash(key))];
  unsigned free;
  for (way = 0; (free = places(*at, kFree)) == 0; ++way) {
    count_gone_on(*at, key, 1);
    at = &next(*at);
  }
  at->keys[first(free)] = key;
  return at->numbers[first(free)];
}

/// Grows by half: growing is fast, since it goes through memory in order, and empty buckets would
/// take cache. It grows in place, from the last bucket to the first, since keys move towards the
/// end. A key may go into a bucket that is yet to be emptied, and then comes up again there. Keys
/// for which a bucket has no room come last.
void KeyTable::grow() {
  const size_t old_count = bucket_count_;
  const size_t new_count = old_count + old_count / 2;
  std::vector<std::pair<uint64_t, uint32_t>> last;
  buckets_.grow(new_count);
  for (size_t from = old_count; from-- > 0;) {
    const Bucket bucket = std::exchange(buckets_[from], Bucket{});
    for (size_t i = 0; i < kBucketKeys; ++i) {
      const uint64_t key = bucket.keys[i];
      if (key == kFree) continue;
      Bucket& to = buckets_[home(hash(key), new_count)];
      const unsigned free = places(to, kFree);
      if (free == 0) {
        last.emplace_back(key, bucket.numbers[i]);
      } else {
        to.keys[first(free)] = key;
        to.numbers[first(free)] = bucket.numbers[i];
      }
    }
  }
  bucket_count_ = new_count;
  limit_ = limit(new_count);
  size_t way;
  for (const auto& [key, number] : last) add(key, way) = number;
}

void KeyTable::spread_anew() {
  std::vector<std::pair<uint64_t, uint32_t>> all;
  for (size_t place = 0; place < bucket_count_; ++place) {
    const Bucket bucket = std::exchange(buckets_[place], Bucket{});
    for (size_t i = 0; i < kBucketKeys; ++i) {
      if (bucket.keys[i] != kFree) all.emplace_back(bucket.keys[i], bucket.numbers[i]);
    }
  }
  std::random_device random;
  multiplier_ = uint64_t{random()} << 32 | random() | 1;
  size_t way;
  for (const auto& [key, number] : all) add(key, way) = number;
}

}  // namespace gpupeak::collector
