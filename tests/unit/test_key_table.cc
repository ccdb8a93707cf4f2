#include <bit>
#include <random>
#include <unordered_map>
#include <vector>

#include "catch.h"
#include "collector/replay/big_arrays.h"

using namespace gpupeak::collector;

namespace {

void check_number(const KeyTable& table, const std::unordered_map<uint64_t, uint32_t>& oracle,
                  uint64_t key) {
  const uint32_t* found = table.find(key);
  const auto expected = oracle.find(key);
  REQUIRE((found != nullptr) == (expected != oracle.end()));
  if (found != nullptr) REQUIRE(*found == expected->second);
}

/// Puts random ones of `keys` in and takes them out, as many of them at a time as `fill` of 100.
void check_random_use(const std::vector<uint64_t>& keys, unsigned fill, int uses) {
  std::mt19937_64 random(1);
  KeyTable table;
  std::unordered_map<uint64_t, uint32_t> oracle;
  for (int i = 0; i < uses; ++i) {
    const uint64_t key = keys[random() % keys.size()];
    check_number(table, oracle, key);
    if (random() % 100 < fill) {
      bool added = false;
      uint32_t& number = table.claim(key, added);
      const auto [expected, is_new] = oracle.try_emplace(key, static_cast<uint32_t>(i));
      REQUIRE(added == is_new);
      if (added) number = expected->second;
      REQUIRE(number == expected->second);
    } else {
      const uint32_t taken = table.take(key);
      const auto expected = oracle.find(key);
      REQUIRE(taken == (expected == oracle.end() ? KeyTable::kNone : expected->second));
      if (expected != oracle.end()) oracle.erase(expected);
    }
    REQUIRE(table.size() == oracle.size());
  }
  for (const uint64_t key : keys) check_number(table, oracle, key);
}

}  // namespace

TEST_CASE("key_table: agrees with a standard map on random use", "[collector]") {
  std::mt19937_64 random(1);
  std::vector<uint64_t> addresses, any;
  for (uint64_t i = 1; i <= 20'000; ++i) {
    addresses.push_back(16 * i + (random() % 8 == 0 ? 8 : 0));
    any.push_back(random() | 1);
  }
  for (const unsigned fill : {50, 90}) {
    check_random_use(addresses, fill, 200'000);
    check_random_use(any, fill, 200'000);
  }
}

TEST_CASE("key_table: keys that belong to few buckets find room in others", "[collector]") {
  // The same hash but for its lowest bits, by the inverse of how it is made. The highest hashes
  // belong to the last bucket, behind which the first one comes.
  constexpr uint64_t kInverse = UINT64_C(0xf1de83e19937733d);
  static_assert(kInverse * UINT64_C(0x9e3779b97f4a7c15) == 1);
  for (const uint64_t hash : {UINT64_C(1) << 40, UINT64_MAX - 1000}) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 300; ++i) keys.push_back(std::rotl((hash + i) * kInverse, 4));
    for (const unsigned fill : {20, 50, 90}) check_random_use(keys, fill, 20'000);
  }
}

TEST_CASE("key_table: all keys are there after it grew, wherever they lie", "[collector]") {
  // Spread, all of a few buckets in the middle, and of the last one, behind which the first comes.
  constexpr uint64_t kInverse = UINT64_C(0xf1de83e19937733d);
  for (const uint64_t first : {UINT64_C(0), UINT64_C(1) << 63, UINT64_MAX - 20'000}) {
    KeyTable table;
    std::unordered_map<uint64_t, uint32_t> oracle;
    std::vector<uint64_t> keys;
    const uint64_t count = first == 0 ? 20'000 : 4'000;
    for (uint64_t i = 1; i <= count; ++i)
      keys.push_back(first == 0 ? 16 * i : std::rotl((first + i) * kInverse, 4));
    for (size_t i = 0; i < keys.size(); ++i) {
      bool added = false;
      table.claim(keys[i], added) = oracle[keys[i]] = static_cast<uint32_t>(i);
      REQUIRE(added);
      if (std::has_single_bit(i)) {
        for (const uint64_t key : keys) check_number(table, oracle, key);
      }
    }
    for (const uint64_t key : keys) check_number(table, oracle, key);
  }
}
