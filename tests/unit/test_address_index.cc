// Which block an address lies in, against a map of them: random blocks of all sizes come and go.
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "catch.h"
#include "track/address_index.h"

using gpupeak::preload::AddressIndex;
using gpupeak::preload::Use;

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
  constexpr uint32_t kSteps = 60'000;
  const auto index = std::make_unique<AddressIndex>();
  std::vector<Use> uses(kSteps + 1);
  index->begin(uses.data());
  Reference reference;
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  uint32_t number = 0;
  uint64_t refused = 0, found = 0;
  for (uint32_t step = 0; step < kSteps; ++step) {
    if (reference.blocks().size() < 400 || below(2) == 0) {
      // Small ones lie close together, so that pages have many; some begin at a page, some
      // anywhere.
      const uint64_t unit = below(4) == 0 ? 48 : 512;
      const uint64_t bytes = below(8) == 0 ? (1 + below(20)) * kMiB : unit * (1 + below(64));
      const uint64_t begin = kBase + (below(8) == 0   ? below(100) * 2 * kMiB
                                      : below(4) == 0 ? unit * below(100'000)
                                                      : unit * below(9'000));
      const bool fits = reference.add(begin, {bytes, ++number});
      uses[number].begin = begin;
      uses[number].end = begin + bytes;
      REQUIRE(index->add(uses[number]) == fits);
      refused += fits ? 0 : 1;
    } else {
      auto block = reference.blocks().lower_bound(kBase + below(200 * kMiB));
      if (block == reference.blocks().end()) block = reference.blocks().begin();
      index->remove(uses[block->second.number]);
      reference.blocks().erase(block);
    }
    for (int look = 0; look < 4; ++look) {
      const uint64_t address = kBase + below(look == 0 ? 220 * kMiB : 5 * kMiB);
      const uint32_t expected = reference.find(address);
      REQUIRE(index->find(address) == (expected != 0 ? &uses[expected] : nullptr));
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
  std::vector<Use> uses(4);
  index->begin(uses.data());
  const auto place = [&](uint32_t number, uint64_t begin, uint64_t bytes) -> Use& {
    uses[number].begin = begin;
    uses[number].end = begin + bytes;
    return uses[number];
  };
  CHECK(index->find(0) == nullptr);
  Use& block = place(1, kBase, 3 * kMiB);
  REQUIRE(index->add(block));
  CHECK(index->find(kBase + 3 * kMiB - 1) == &block);
  CHECK(index->find(kBase + 3 * kMiB) == nullptr);
  CHECK(index->find(kBase - 1) == nullptr);
  CHECK(!index->may_hold(4096));
  volatile uint64_t highest = UINT64_MAX;  // else the compiler warns of what the bounds forbid
  CHECK(!index->may_hold(highest));
  CHECK(!index->add(place(2, UINT64_MAX - 10, 100)));
  CHECK(!index->add(place(3, uint64_t{1} << 48, 100)));
  index->remove(block);
  CHECK(index->find(kBase) == nullptr);
  CHECK(!index->may_hold(kBase));
}
