// Which block an address lies in, against a map of them: random blocks of all sizes come and go.
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>

#include "catch.h"
#include "track/address_index.h"

using gpupeak::preload::AddressIndex;

namespace {

constexpr uint64_t kMiB = 1 << 20, kBase = 0x7f0000000000;

struct Block {
  uint64_t bytes;
  uint32_t number;
};

/// Begin to block.
class Reference {
 public:
  bool add(uint64_t begin, Block block) {
    const auto after = blocks_.lower_bound(begin);
    if (after != blocks_.end() && after->first < begin + block.bytes) return false;
    if (after != blocks_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second.bytes > begin) return false;
    }
    blocks_[begin] = block;
    return true;
  }
  uint32_t find(uint64_t address) const {
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return 0;
    --after;
    return address < after->first + after->second.bytes ? after->second.number : 0;
  }
  std::map<uint64_t, Block>& blocks() { return blocks_; }

 private:
  std::map<uint64_t, Block> blocks_;
};

}  // namespace

TEST_CASE("address index: says of each address what a map of the blocks says", "[preload]") {
  const auto index = std::make_unique<AddressIndex>();
  Reference reference;
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  uint32_t number = 0;
  uint64_t refused = 0, found = 0;
  for (int step = 0; step < 60'000; ++step) {
    if (reference.blocks().size() < 400 || below(2) == 0) {
      // Small ones lie close together, so that pages have long lists; some begin at a page.
      const uint64_t bytes = below(8) == 0 ? (1 + below(20)) * kMiB : 512 * (1 + below(64));
      const uint64_t begin = kBase + (below(8) == 0 ? below(100) * 2 * kMiB
                                                    : below(4) == 0 ? 512 * below(100'000)
                                                                    : 512 * below(9'000));
      const bool fits = reference.add(begin, {bytes, ++number});
      REQUIRE(index->add(begin, bytes, number) == fits);
      refused += fits ? 0 : 1;
    } else {
      auto block = reference.blocks().lower_bound(kBase + below(200 * kMiB));
      if (block == reference.blocks().end()) block = reference.blocks().begin();
      index->remove(block->first, block->second.bytes, block->second.number);
      reference.blocks().erase(block);
    }
    for (int look = 0; look < 4; ++look) {
      const uint64_t address = kBase + below(look == 0 ? 220 * kMiB : 5 * kMiB);
      const uint32_t expected = reference.find(address);
      REQUIRE(index->find(address) == expected);
      if (expected != 0) {
        REQUIRE(index->may_hold(address));
        ++found;
      }
    }
  }
  CHECK(refused > 100);
  CHECK(found > 10'000);
}

TEST_CASE("address index: what is far from all blocks is in none", "[preload]") {
  const auto index = std::make_unique<AddressIndex>();
  CHECK(index->find(0) == 0);
  REQUIRE(index->add(kBase, 3 * kMiB, 1));
  CHECK(index->find(kBase + 3 * kMiB - 1) == 1);
  CHECK(index->find(kBase + 3 * kMiB) == 0);
  CHECK(index->find(kBase - 1) == 0);
  CHECK(!index->may_hold(4096));
  CHECK(!index->may_hold(UINT64_MAX));
  CHECK(!index->add(UINT64_MAX - 10, 100, 2));
  CHECK(!index->add(uint64_t{1} << 48, 100, 2));
  index->remove(kBase, 3 * kMiB, 1);
  CHECK(index->find(kBase) == 0);
  CHECK(!index->may_hold(kBase));
}
