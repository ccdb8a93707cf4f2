// A hint to the processor that memory will be needed soon. The tables that replay hits at random
// use it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace gpupeak::collector {

/// Asks for the cache line of `address`, which need not be readable.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  // Otherwise g++ takes a function that only prefetches as without effect, and drops it.
  asm volatile("");
}

/// The size of a huge page.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
/// Less than this comes from malloc: for a short log, mapping and unmapping takes a third of all.
inline constexpr size_t kSmallBytes = size_t{64} << 10;

/// Memory that is all zero at first. It grows without copying, since touching new memory is what
/// costs most.
class ZeroedMemory {
 public:
  /// Throws std::bad_alloc. `asks_for_huge_pages`: events will hit all of it at random, each time
  /// on another page.
  explicit ZeroedMemory(size_t bytes, bool asks_for_huge_pages = true);

  void* data() const { return data_.get(); }
  /// Grows to so many bytes, on huge pages if the kernel has some. The new ones are zero. Throws
  /// std::bad_alloc.
  void grow(size_t bytes, bool asks_for_huge_pages = true);

 private:
  struct Release {
    size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Release> data_{nullptr, Release{0}};
};

// An array that grows without moving its entries, but for the first few. Events add entries and
// change them at random for as long as a log lasts, and copying millions of them would take as long
// as the events themselves.
// Entries that have not been written are zero and take no memory. The tables of groups are such
// arrays.

template <class T>
class ChunkedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return *at(i); }
  const T& operator[](size_t i) const { return *at(i); }
  /// `i` may be out of range.
  void prefetch(size_t i) const {
    if (i < size_) prefetch_line(at(i));
  }
  /// Adds an entry, all bytes of which are zero.
  T& append() {
    grow(size_ + 1);
    return *at(size_ - 1);
  }
  /// Grows to `size` entries. All bytes of the new ones are zero.
  void grow(size_t size) {
    while (size > capacity_) add_chunk();
    size_ = size;
  }

 private:
  static constexpr size_t kEntries = std::bit_floor(kHugePageBytes / sizeof(T));
  static constexpr size_t kFew = std::bit_floor(kSmallBytes / 8 / sizeof(T));

  T* at(size_t i) const { return static_cast<T*>(chunks_[i / kEntries].data()) + i % kEntries; }

  void add_chunk() {
    if (capacity_ == kFew) {
      chunks_.front().grow(kHugePageBytes, false);
    } else {
      // Where there are other chunks already, this one will be filled.
      chunks_.emplace_back(capacity_ == 0 ? kFew * sizeof(T) : kHugePageBytes, capacity_ > 0);
    }
    capacity_ = capacity_ == 0 ? kFew : chunks_.size() * kEntries;
  }

  std::vector<ZeroedMemory> chunks_;  // the first is small until it is full
  size_t size_ = 0, capacity_ = 0;
};

/// A table that is all zero at first. Hash tables and notes that wait to be counted use it.
template <class T>
class ZeroedTable {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedTable(size_t entries) : memory_(entries * sizeof(T)) {}

  T* get() const { return static_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return get()[i]; }
  /// Grows to so many entries. That may move all of them.
  void grow(size_t entries) { memory_.grow(entries * sizeof(T)); }

 private:
  ZeroedMemory memory_;
};

// A hash table of numbers by 64-bit keys. A bucket is a cache line, since an event waits for a
// cache line that the processor cannot guess. A key lies in the bucket that its hash names; the
// bucket's five keys are compared without a branch. A key for which there is no room goes on to the
// next bucket. Each bucket counts the keys that went on, in eight parts by their hashes. A search
// ends where no key of the same part has gone on, so that a key that is not there costs one bucket
// nearly always.
//
//   bucket   keys                 numbers          gone on
//     7      A   B   C   D   E    3  0  9  1  6    0 1 0 0 0 0 0 0
//     8      G   F   -   -   -    5  2             0 0 0 0 0 0 0 0    F belongs to 7
//
// A log can be made so that all its keys belong to one bucket. If a key has to go on far, all keys
// are spread anew with a random multiplier, which nobody can know.
//
// Used for live blocks by their addresses, and for groups by their sites.

class KeyTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  size_t size() const { return size_; }
  void prefetch(uint64_t key) const { prefetch_line(&buckets_[home(hash(key))]); }

  /// The key's number; nullptr: the key is not there. The key must not be 0.
  const uint32_t* find(uint64_t key) const {
    const Bucket& bucket = buckets_[home(hash(key))];
    const unsigned found = places(bucket, key);
    if (found != 0) [[likely]]
      return &bucket.numbers[first(found)];
    return gone_on(bucket, key) == 0 ? nullptr : find_beyond(bucket, key);
  }

  /// The key's number; the reference is valid until the next claim. `added`: the key was not there,
  /// and the number has no meaning until it is set.
  uint32_t& claim(uint64_t key, bool& added) {
    Bucket& bucket = buckets_[home(hash(key))];
    const unsigned found = places(bucket, key), free = places(bucket, kFree);
    added = found == 0;
    if (!added) [[unlikely]]
      return bucket.numbers[first(found)];
    if (gone_on(bucket, key) != 0 || free == 0 || size_ == limit_) [[unlikely]]
      return claim_beyond(bucket, key, added);
    ++size_;
    bucket.keys[first(free)] = key;
    return bucket.numbers[first(free)];
  }

  /// Takes a key out and returns its number; kNone if it is not there.
  uint32_t take(uint64_t key) {
    Bucket& bucket = buckets_[home(hash(key))];
    const unsigned found = places(bucket, key);
    if (found == 0) [[unlikely]]
      return gone_on(bucket, key) == 0 ? kNone : take_beyond(bucket, key);
    --size_;
    bucket.keys[first(found)] = kFree;
    return bucket.numbers[first(found)];
  }

 private:
  static constexpr uint64_t kFree = 0;  // as in zeroed memory
  static constexpr size_t kBucketKeys = 5;
  static constexpr size_t kFirstBuckets = 128;  // two pages: most tables stay small
  static constexpr uint32_t kMostCounted = 15;  // 15 means 15 or more: no longer counted
  static constexpr size_t kLongWay = 64;        // buckets; no key of a million goes so far
  struct alignas(64) Bucket {
    std::array<uint64_t, kBucketKeys> keys;
    std::array<uint32_t, kBucketKeys> numbers;
    uint32_t gone_on;  // eight times four bits
  };
  static_assert(sizeof(Bucket) == 64);

  /// A bit for each place in the bucket that has the key.
  static unsigned places(const Bucket& bucket, uint64_t key) {
    unsigned places = 0;
#pragma GCC unroll 5
    for (unsigned i = 0; i < kBucketKeys; ++i)
      places |= static_cast<unsigned>(bucket.keys[i] == key) << i;
    return places;
  }
  static size_t first(unsigned places) {
    return static_cast<size_t>(std::countr_zero(places));
  }

  /// The rotation spreads addresses, whose last four bits are mostly 0, as evenly as small numbers.
  uint64_t hash(uint64_t key) const {
    return std::rotr(key, 4) * multiplier_;
  }
  /// Buckets are in the order of the hashes, so that growing goes through the table in one
  /// direction.
  static size_t home(uint64_t hash, size_t buckets) {
    return (hash >> 32) * buckets >> 32;
  }
  size_t home(uint64_t hash) const {
    return home(hash, bucket_count_);
  }
  Bucket& next(const Bucket& bucket) const {
    const auto place = static_cast<size_t>(&bucket - buckets_.get()) + 1;
    return buckets_[place == bucket_count_ ? 0 : place];
  }
  unsigned part_shift(uint64_t key) const {
    return (hash(key) >> 29 & 7) * 4;
  }
  uint32_t gone_on(const Bucket& bucket, uint64_t key) const {
    return bucket.gone_on >> part_shift(key) & kMostCounted;
  }
  void count_gone_on(Bucket& bucket, uint64_t key, uint32_t by) const {
    if (gone_on(bucket, key) != kMostCounted) bucket.gone_on += by << part_shift(key);
  }
  static size_t limit(size_t buckets) {
    return buckets * kBucketKeys * 6 / 10;
  }

  // Used if the key's own bucket is not enough.
  [[gnu::noinline]] const uint32_t* find_beyond(const Bucket& home, uint64_t key) const;
  [[gnu::noinline]] uint32_t& claim_beyond(Bucket& home, uint64_t key, bool& added);
  [[gnu::noinline]] uint32_t take_beyond(Bucket& home, uint64_t key);
  uint32_t& add(uint64_t key, size_t& way);
  void grow();
  void spread_anew();

  uint64_t multiplier_ = UINT64_C(0x9e3779b97f4a7c15);
  size_t bucket_count_ = kFirstBuckets;
  size_t limit_ = limit(kFirstBuckets);
  size_t size_ = 0;
  ZeroedTable<Bucket> buckets_{kFirstBuckets};
};

}  // namespace gpupeak::collector
