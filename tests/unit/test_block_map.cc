#include <array>
#include <random>
#include <unordered_map>

#include "catch.h"
#include "collector/replay/block_map.h"

using namespace gpupeak::collector;

namespace {

/// Of every size: some fit into an entry, some do not, and some just do.
Block random_block(std::mt19937_64& random, uint64_t address) {
  const std::array<uint64_t, 6> sizes{
      random(), random() % 4096, random() % (UINT64_C(2) << 20), (1 << 20) - 1, 1 << 20, 0};
  const std::array<int32_t, 6> slacks{static_cast<int32_t>(random()), 0, 8, 4094, 4095, 4096};
  return {address, sizes[random() % sizes.size()], slacks[random() % slacks.size()],
          static_cast<uint32_t>(random())};
}

bool same(const Block& a, const Block& b) {
  return a.address == b.address && a.bytes == b.bytes && a.slack == b.slack && a.group == b.group;
}

}  // namespace

TEST_CASE("block_map: agrees with a standard map on random use", "[collector]") {
  std::mt19937_64 random(1);
  BlockMap blocks;
  std::unordered_map<uint64_t, Block> oracle;
  for (int i = 0; i < 300'000; ++i) {
    const uint64_t address = 16 * (1 + random() % 20'000) + (random() % 8 == 0 ? 8 : 0);
    BlockMap::Entry* found = blocks.find(address);
    const auto expected = oracle.find(address);
    REQUIRE((found != nullptr) == (expected != oracle.end()));
    if (found != nullptr) REQUIRE(same(blocks.block(*found), expected->second));
    if (found != nullptr && random() % 4 != 0) {
      blocks.erase(*found);
      oracle.erase(expected);
    } else {
      bool added = false;
      BlockMap::Entry& entry = blocks.claim(address, added);
      REQUIRE(added == (found == nullptr));
      blocks.set(entry, oracle[address] = random_block(random, address));
      REQUIRE(same(blocks.block(blocks.claim(address, added)), oracle[address]));
      REQUIRE(!added);
    }
    REQUIRE(blocks.size() == oracle.size());
  }
}

TEST_CASE("block_map: an address within a block leads to it", "[collector]") {
  BlockMap blocks;
  bool added = false;
  const Block small{0x1000, 100, 12, 1}, large{0x100000, UINT64_C(8) << 20, 0, 2};
  for (const Block& block : {small, large}) blocks.set(blocks.claim(block.address, added), block);
  for (const Block& block : {small, large}) {
    CHECK(same(blocks.around(block.address).value(), block));
    CHECK(same(blocks.around(block.address + block.bytes - 1).value(), block));
    CHECK(!blocks.around(block.address + block.bytes));
  }
}

TEST_CASE("block_map: address 0 is never found", "[collector]") {
  BlockMap blocks;
  CHECK(blocks.find(0) == nullptr);
}
