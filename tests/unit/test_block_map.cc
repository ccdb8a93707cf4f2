#include <random>
#include <unordered_map>

#include "catch.h"
#include "collector/replay/block_map.h"

using namespace gpupeak::collector;

TEST_CASE("block_map: agrees with a standard map on random use", "[collector]") {
  std::mt19937_64 random(1);
  BlockMap blocks;
  std::unordered_map<uint64_t, uint64_t> oracle;
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t address = 16 * (1 + random() % 20'000) + (random() % 8 == 0 ? 8 : 0);
    Block* found = blocks.find(address);
    const auto expected = oracle.find(address);
    REQUIRE((found != nullptr) == (expected != oracle.end()));
    if (found != nullptr) {
      REQUIRE(found->bytes == expected->second);
      blocks.erase(found);
      oracle.erase(expected);
    } else {
      bool added = false;
      Block& block = blocks.claim(address, added);
      REQUIRE(added);
      REQUIRE(block.address == address);
      block.bytes = oracle[address] = random();
      REQUIRE(blocks.claim(address, added).bytes == oracle[address]);
      REQUIRE(!added);
    }
    REQUIRE(blocks.size() == oracle.size());
  }
}

TEST_CASE("block_map: address 0 is never found", "[collector]") {
  BlockMap blocks;
  CHECK(blocks.find(0) == nullptr);
}
