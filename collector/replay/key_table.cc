#include "collector/replay/key_table.h"

#include <utility>
#include <vector>

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

/// By half: while it is gone through little is waited for, and what stays empty takes cache. In its
/// own memory, from the last bucket to the first, since keys move towards the end. One that gets a
/// place in a bucket which is still to be emptied gets it again when that is; those for which their
/// bucket has no room come last.
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
  for (const auto& [key, number] : last) add(buckets_[home(hash(key))], key) = number;
}

}  // namespace gpupeak::collector
