#include <array>
#include <random>
#include <unordered_map>

#include "catch.h"
#include "collector/replay/live_blocks.h"

using namespace gpupeak::collector;

namespace {

constexpr ContextId kFirst{1}, kSecond{2}, kThird{3}, kFourth{4}, kFifth{5};

/// Of every size: some fit into an entry, some do not, and some just do.
Block random_block(std::mt19937_64& random, uint64_t address) {
  const std::array<uint64_t, 6> sizes{
      random(), random() % 4096, random() % (UINT64_C(2) << 20), (1 << 20) - 1, 1 << 20, 0};
  const std::array<int32_t, 6> slacks{static_cast<int32_t>(random()), 0, 8, 4094, 4095, 4096};
  return {address, sizes[random() % sizes.size()], slacks[random() % slacks.size()],
          ContextId(random())};
}

bool same(const Block& a, const Block& b) {
  return a.address == b.address && a.bytes == b.bytes && a.slack == b.slack &&
         a.context == b.context;
}

}  // namespace

TEST_CASE("live_blocks: a block of any size is what was set last", "[collector]") {
  std::mt19937_64 random(1);
  constexpr BlockNumber kBlocks{2000};
  LiveBlocks blocks;
  std::unordered_map<BlockNumber, Block> oracle;
  for (BlockNumber i{}; i < kBlocks; ++i) blocks.set(i, oracle[i] = random_block(random, i + 1));
  for (int i = 0; i < 100'000; ++i) {
    const auto number = static_cast<BlockNumber>(random() % kBlocks);
    const auto expected = oracle.find(number);
    if (expected != oracle.end()) REQUIRE(same(blocks.block(number), expected->second));
    if (expected != oracle.end() && random() % 4 != 0) {
      blocks.erase(number);
      oracle.erase(expected);
    } else {
      blocks.set(number, oracle[number] = random_block(random, 16 * (1 + random() % 20'000)));
    }
  }
}

TEST_CASE("live_blocks: an address within a block leads to it, wherever it lies", "[collector]") {
  LiveBlocks blocks;
  const Block small{0x1000, 100, 12, kFirst}, large{0x100000, UINT64_C(8) << 20, 0, kSecond};
  const Block empty{0x3000, 0, 0, kThird}, inside{0x200000, 64, 0, kFourth},
      also{0x300000, 64, 0, kFifth};
  BlockNumber number{};
  for (const Block& block : {inside, small, large, empty, also}) {
    blocks.set(number, block);
    ++number;
  }
  for (const Block& block : {small, large}) {
    CHECK(same(blocks.around(block.address).value(), block));
    CHECK(same(blocks.around(block.address + block.bytes - 1).value(), block));
    CHECK(!blocks.around(block.address + block.bytes));
  }
  CHECK(same(blocks.around(empty.address).value(), empty));
  CHECK(!blocks.around(empty.address + 1));
  CHECK(!blocks.around(small.address - 1));
  for (const Block& block : {inside, also})  // the one that begins last
    CHECK(same(blocks.around(block.address + 63).value(), block));
  CHECK(same(blocks.around(inside.address + 64).value(), large));
}

TEST_CASE("live_blocks: what has ended or is away lies nowhere", "[collector]") {
  LiveBlocks blocks;
  const Block small{0x1000, 100, 12, kFirst}, large{0x100000, UINT64_C(8) << 20, 0, kSecond};
  constexpr BlockNumber kSmall{0}, kLarge{1};
  blocks.set(kSmall, small);
  blocks.set(kLarge, large);
  for (const BlockNumber number : {kSmall, kLarge}) {
    const Block block = blocks.block(number);
    blocks.move_away(number);
    CHECK(!blocks.around(block.address));
    CHECK(blocks.block(number).bytes == block.bytes);
    blocks.move_back(number, block.address);
    CHECK(same(blocks.around(block.address + 1).value(), block));
    blocks.erase(number);
    CHECK(!blocks.around(block.address));
  }
}
