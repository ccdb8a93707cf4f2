#include <array>
#include <map>
#include <random>

#include "catch.h"
#include "collector/replay/replay.h"
#include "gpupeak/log_format.h"

using namespace gpupeak::collector;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kReadWrite = 3;
constexpr uint8_t kAnon = GPUPEAK_KIND_MMAP_ANON;

/// Adds the changes up as PeakFinder would.
struct Sums {
  std::map<GroupId, int64_t> bytes;
  std::map<GroupId, int64_t> counts;
  MappingTable::Changes changes;
  void take() {
    for (const auto& change : changes) {
      bytes[change.group] += change.bytes;
      counts[change.group] += change.count;
    }
    changes.clear();
  }
};

}  // namespace

TEST_CASE("mapping_table: a partial unmap splits", "[collector]") {
  MappingTable table;
  Sums sums;
  table.map(0x10000, 10 * kPage, kReadWrite, kAnon, GroupId(0), sums.changes);
  table.unmap(0x10000 + 4 * kPage, 2 * kPage, sums.changes);
  sums.take();
  CHECK(table.size() == 2);
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(8 * kPage));
  CHECK(sums.counts[GroupId(0)] == 2);
}

TEST_CASE("mapping_table: mapping over a mapping replaces it", "[collector]") {
  MappingTable table;
  Sums sums;
  table.map(0x10000, 4 * kPage, kReadWrite, kAnon, GroupId(0), sums.changes);
  table.map(0x10000 + kPage, kPage, kReadWrite, kAnon, GroupId(1), sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(3 * kPage));
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(kPage));
}

TEST_CASE("mapping_table: memory that may not be touched is addresses only", "[collector]") {
  MappingTable table;
  Sums sums;
  table.map(0x10000, 100 * kPage, 0, kAnon, GroupId(0), sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == 0);
  for (uint64_t i = 0; i < 10; ++i) {  // commits step by step, as allocators do
    table.protect(0x10000 + i * kPage, kPage, kReadWrite, sums.changes);
  }
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(10 * kPage));
  CHECK(table.size() == 2);
  table.protect(0x10000, 100 * kPage, 0, sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == 0);
  CHECK(sums.counts[GroupId(0)] == 0);
  CHECK(table.size() == 2);  // what may have been written keeps its pages
}

TEST_CASE("mapping_table: remap moves, grows and keeps the kind", "[collector]") {
  MappingTable table;
  Sums sums;
  table.map(0x10000, 4 * kPage, kReadWrite, kAnon, GroupId(0), sums.changes);
  table.remap(
      0, {0x10000, 4 * kPage, 0x90000, 8 * kPage},
      [](uint8_t kind) {
        CHECK(kind == kAnon);
        return GroupId{1};
      },
      sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == 0);
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(8 * kPage));
}

TEST_CASE("mapping_table: what moves is safe from who is given its addresses", "[collector]") {
  MappingTable table;
  Sums sums;
  const auto mover = [](uint8_t) { return GroupId{1}; };
  table.map(0x10000, 4 * kPage, kReadWrite, kAnon, GroupId(0), sums.changes);
  table.remap_begins(7, 0x10000, 4 * kPage, sums.changes);
  table.map(0x10000, 2 * kPage, kReadWrite, kAnon, GroupId(2), sums.changes);  // another thread's
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(4 * kPage));
  table.remap(7, {0x10000, 4 * kPage, 0x90000, 4 * kPage}, mover, sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == 0);
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(4 * kPage));
  CHECK(sums.bytes[GroupId(2)] == static_cast<int64_t>(2 * kPage));
  table.remap_begins(7, 0x90000, 4 * kPage, sums.changes);
  table.take_back(7, 0x90000, 4 * kPage, sums.changes);
  table.unmap(0x90000, kPage, sums.changes);
  table.remap(7, {0x10000, 0, 0xa0000, kPage}, mover, sums.changes);  // the old one stays
  sums.take();
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(4 * kPage));
  CHECK(sums.bytes[GroupId(2)] == static_cast<int64_t>(2 * kPage));
}

TEST_CASE("mapping_table: what the kernel refused to unmap lies there again", "[collector]") {
  MappingTable table;
  Sums sums;
  table.map(0x10000, 4 * kPage, kReadWrite, kAnon, GroupId(0), sums.changes);
  table.map(0x10000 + 4 * kPage, 4 * kPage, kReadWrite, kAnon, GroupId(1), sums.changes);
  table.unmap(7, 0x10000 + 2 * kPage, 4 * kPage, sums.changes);
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(2 * kPage));
  table.take_back(8, 0x10000 + 2 * kPage, 4 * kPage, sums.changes);  // another slot's
  table.take_back(7, 0x10000, 4 * kPage, sums.changes);              // another range's
  sums.take();
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(2 * kPage));
  table.take_back(7, 0x10000 + 2 * kPage, 4 * kPage, sums.changes);
  table.take_back(7, 0x10000 + 2 * kPage, 4 * kPage, sums.changes);  // once
  sums.take();
  CHECK(sums.bytes[GroupId(0)] == static_cast<int64_t>(4 * kPage));
  CHECK(sums.bytes[GroupId(1)] == static_cast<int64_t>(4 * kPage));
}

TEST_CASE("mapping_table: agrees with a table of pages on random use", "[collector]") {
  constexpr size_t kPages = 64;
  constexpr uint64_t kBase = 0x7f0000000000;
  struct Page {
    bool mapped = false;
    uint32_t prot = 0;
    uint8_t kind = 0;
    GroupId group{};
  };
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    MappingTable table;
    Sums sums;
    std::array<Page, kPages> pages{};
    for (int step = 0; step < 300; ++step) {
      const size_t begin = random() % kPages;
      const size_t count = 1 + random() % (kPages - begin);
      const uint32_t prot = random() % 3 == 0 ? 0 : kReadWrite;
      const auto group = static_cast<GroupId>(random() % 4);
      const uint64_t address = kBase + begin * kPage;
      const uint64_t bytes = count * kPage - random() % kPage;  // the kernel rounds up
      switch (random() % 4) {
        case 0: {
          const uint8_t kind = random() % 3 == 0 ? uint8_t{GPUPEAK_KIND_MMAP_FILE} : kAnon;
          table.map(address, bytes, prot, kind, group, sums.changes);
          for (size_t i = begin; i < begin + count; ++i) pages[i] = {true, prot, kind, group};
          break;
        }
        case 1:
          table.unmap(address, bytes, sums.changes);
          for (size_t i = begin; i < begin + count; ++i) pages[i] = {};
          break;
        case 2:
          table.protect(address, bytes, prot, sums.changes);
          for (size_t i = begin; i < begin + count; ++i) pages[i].prot = prot;
          break;
        default: {
          const size_t target = random() % kPages;
          const size_t target_count = 1 + random() % (kPages - target);
          const bool overlaps = target < begin + count && begin < target + target_count;
          if (overlaps || !pages[begin].mapped) break;  // the kernel refuses
          const Page first = pages[begin];
          if (random() % 2 == 0) table.remap_begins(1, address, bytes, sums.changes);
          if (random() % 8 == 0) {
            table.take_back(1, address, bytes, sums.changes);
            break;
          }
          table.remap(
              1, {address, bytes, kBase + target * kPage, target_count * kPage},
              [&](uint8_t) { return group; }, sums.changes);
          for (size_t i = begin; i < begin + count; ++i) pages[i] = {};
          for (size_t i = target; i < target + target_count; ++i) {
            pages[i] = {true, first.prot, first.kind, group};
          }
          break;
        }
      }
      sums.take();
      std::map<GroupId, int64_t> expected;
      for (const Page& page : pages) {
        const bool counts = page.mapped && page.prot != 0;
        expected[page.group] += counts ? static_cast<int64_t>(kPage) : 0;
      }
      for (GroupId id{0}; id < 4; ++id) {
        INFO("seed " << seed << " step " << step << " group " << id);
        REQUIRE(sums.bytes[id] == expected[id]);
        REQUIRE(sums.counts[id] >= 0);
      }
    }
  }
}
