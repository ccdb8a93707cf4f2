#include "collector/replay/key_table.h"

#include <utility>

namespace gpupeak::collector {

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
  const bool full = size_++ == limit_;
  if (full) grow();
  return add(full ? buckets_[this->home(hash(key))] : home, key);
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

/// One that is not there; some place is free.
uint32_t& KeyTable::add(Bucket& home, uint64_t key) {
  Bucket* at = &home;
  unsigned free;
  while ((free = places(*at, kFree)) == 0) {
    count_gone_on(*at, key, 1);
    at = &next(*at);
  }
  at->keys[first(free)] = key;
  return at->numbers[first(free)];
}

/// By half: keys are copied in their order, which costs little, while what stays empty takes cache.
void KeyTable::grow() {
  const size_t old_count = bucket_count_;
  bucket_count_ += bucket_count_ / 2;
  limit_ = limit(bucket_count_);
  const ZeroedTable<Bucket> old = std::exchange(buckets_, ZeroedTable<Bucket>(bucket_count_));
  for (size_t from = 0; from < old_count; ++from) {
    const Bucket& bucket = old[from];
    for (size_t i = 0; i < kBucketKeys; ++i) {
      const uint64_t key = bucket.keys[i];
      if (key != kFree) add(buckets_[home(hash(key))], key) = bucket.numbers[i];
    }
  }
}

}  // namespace gpupeak::collector
