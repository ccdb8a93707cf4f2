// How the preloaded library writes numbers, against the plain way; and its table of blocks.
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <random>

#include "base/hash_tables.h"
#include "catch.h"
#include "log/log.h"

using namespace gpupeak::preload;

/// The library's own would bring its whole first room.
void* gpupeak::preload::map_pages(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}
void gpupeak::preload::unmap_pages(void* at, size_t bytes) {
  munmap(at, bytes);
}

TEST_CASE("a number is written without a branch as it is byte by byte", "[record]") {
  const auto same = [](uint64_t value) {
    uint8_t plain[16] = {}, wide[16] = {};
    const auto plain_bytes = put_varint(plain, value) - plain;
    REQUIRE(put_wide_varint(wide, value) - wide == plain_bytes);
    REQUIRE(memcmp(plain, wide, sizeof plain) == 0);  // zeros behind it: a reader ends there
  };
  same(0);
  same(~uint64_t{0});
  std::mt19937_64 random{7};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t value : {power - 1, power, power + 1, power | (power - 1)}) same(value);
    for (int i = 0; i < 1000; ++i) same(random() >> bit);
  }
}

TEST_CASE("a table of blocks is what a map would be", "[record]") {
  FlatMap<uint64_t> blocks;
  std::map<uint64_t, uint64_t> expected;
  std::mt19937_64 random{7};
  for (int i = 0; i < 200000; ++i) {
    const uint64_t key = 1 + random() % 3000;
    uint64_t* const known = blocks.find(key);
    REQUIRE((known != nullptr) == (expected.count(key) != 0));
    if (known == nullptr) {
      REQUIRE(blocks.insert(key, random()));
      expected[key] = *blocks.find(key);
    } else if (random() % 4 == 0) {
      REQUIRE(blocks.insert(key, i));
      expected[key] = static_cast<uint64_t>(i);
    } else {
      REQUIRE(*known == expected[key]);
      if (random() % 2 != 0) {
        blocks.erase(known);
      } else {
        blocks.erase(key);
      }
      expected.erase(key);
    }
    REQUIRE(blocks.size() == expected.size());
  }
  blocks.for_each([&](uint64_t key, uint64_t value) { REQUIRE(expected.at(key) == value); });
}
