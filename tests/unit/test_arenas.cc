#include <iterator>
#include <map>
#include <vector>

#include "catch.h"
#include "collector/replay/arena_table.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint32_t kPool = 1, kWeights = 2;

ArenaEvent event(uint64_t arena, gpupeak_arena_event what, uint64_t bytes = 0) {
  ArenaEvent result{};
  result.arena = arena;
  result.event = what;
  result.bytes = bytes;
  return result;
}
ArenaAllocEvent alloc(uint64_t arena, uint64_t address, uint64_t bytes, uint32_t name = 0) {
  ArenaAllocEvent result{};
  result.arena = arena;
  result.address = address;
  result.bytes = bytes;
  result.name = name;
  return result;
}
ArenaFreeEvent freed(uint64_t arena, uint64_t address) {
  ArenaFreeEvent result{};
  result.arena = arena;
  result.address = address;
  return result;
}
const PeakFinder::Scope& scope(const ArenaTable& table) {
  return table.peaks().scope(table.arenas().at(0).scope);
}

}  // namespace

TEST_CASE("arenas: those of one name add up, their holders to the peak", "[collector]") {
  ArenaTable table;
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED, 1000), kPool, 0);
  table.on_arena(event(2, GPUPEAK_ARENA_CREATED, 500), kPool, 0);
  table.allocate(alloc(1, 0x10, 300, kWeights), 0, 1);
  table.allocate(alloc(2, 0x10, 200), 7, 2);  // the same address: another arena's
  table.free(freed(1, 0x10), 0);
  table.on_arena(event(2, GPUPEAK_ARENA_DESTROYED), 0, 0);
  table.finish();
  REQUIRE(table.arenas().size() == 1);
  CHECK(table.arenas()[0].count == 2);
  CHECK(table.arenas()[0].largest_capacity_bytes == 1500);
  CHECK(table.arenas()[0].alloc_count == 2);
  CHECK(scope(table).peak == 500);
  CHECK(scope(table).peak_ticks == 2);
  CHECK(scope(table).current == 0);
  uint64_t held = 0;
  for (GroupId group{0}; group < table.holders().size(); ++group) {
    held += table.peaks().at_peak(group, table.arenas()[0].scope).bytes;
  }
  CHECK(held == 500);
  CHECK(table.holders()[0].name == kWeights);
  CHECK(table.holders()[1].stack == 7);
  CHECK(table.unmatched() == 0);
}

TEST_CASE("arenas: an address in use gets a new size and name, a reset empties", "[collector]") {
  ArenaTable table;
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool, 0);
  table.allocate(alloc(1, 0x10, 100), 7, 1);
  table.allocate(alloc(1, 0x10, 40), 8, 2);
  CHECK(scope(table).current == 40);
  table.allocate(alloc(1, 0x10, 60, kWeights), 9, 3);
  CHECK(scope(table).current == 60);
  CHECK(scope(table).peak == 100);
  table.on_arena(event(1, GPUPEAK_ARENA_RESET), 0, 0);
  CHECK(scope(table).current == 0);
  table.allocate(alloc(1, 0x20, 10), 7, 4);
  CHECK(scope(table).current == 10);
  table.finish();
  CHECK(table.arenas()[0].alloc_count == 2);
}

TEST_CASE("arenas: what matches nothing is counted and changes nothing", "[collector]") {
  ArenaTable table;
  table.allocate(alloc(1, 0x10, 100), 0, 1);
  table.on_arena(event(1, GPUPEAK_ARENA_RESET), 0, 0);
  table.free(freed(1, 0x10), 0);
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool, 0);
  table.free(freed(1, 0x10), 0);
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kWeights, 0);  // its number is taken
  table.finish();
  CHECK(table.unmatched() == 4);
  CHECK(scope(table).peak == 0);
}

namespace {

constexpr int32_t kDevice = 0;
constexpr GroupId kSegments{5};  // Replay's group of what the arena takes from the driver

/// An arena on a device with one segment of 20 MiB.
struct ArenaOnDevice {
  ArenaTable table;
  uint64_t time = 0;
  ArenaOnDevice() {
    ArenaEvent created = event(1, GPUPEAK_ARENA_CREATED);
    created.device = kDevice;
    table.on_arena(created, kPool, ++time);
    segment(1, 100 * kMiB, 20 * kMiB);
  }
  void segment(uint64_t id, uint64_t address, uint64_t bytes) {
    table.device_allocated({id, GPUPEAK_KIND_LINEAR, kDevice, address, bytes, kSegments}, ++time);
  }
  void give(uint64_t address, uint64_t bytes, uint32_t stack = 7) {
    table.allocate(alloc(1, address, bytes), stack, ++time);
  }
  void take(uint64_t address) { table.free(freed(1, address), ++time); }
  uint64_t at_peak(ScopeId scope, ArenaTable::What what) const {
    uint64_t bytes = 0;
    for (GroupId group{0}; group < table.holders().size(); ++group) {
      if (table.holders()[group].what == what) bytes += table.peaks().at_peak(group, scope).bytes;
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("arenas: a driver's block is the pool's from its first part on", "[collector]") {
  ArenaOnDevice arena;
  CHECK(arena.table.level(0).reserved == 0);  // somebody's, so far
  arena.give(100 * kMiB, 4 * kMiB);
  CHECK(arena.table.level(0).in_use == 4 * kMiB);
  CHECK(arena.table.level(0).idle() == 16 * kMiB);
  CHECK(arena.table.largest_idle(0) == 16 * kMiB);
  arena.give(110 * kMiB, 2 * kMiB);
  CHECK(arena.table.largest_idle(0) == 8 * kMiB);
  arena.take(100 * kMiB);
  CHECK(arena.table.level(0).idle() == 18 * kMiB);
  CHECK(arena.table.largest_idle(0) == 10 * kMiB);
  arena.table.device_freed(1, ++arena.time);
  CHECK(arena.table.level(0).reserved == 0);
  CHECK(arena.table.level(0).in_use == 0);
  CHECK(arena.table.arenas()[0].lost_bytes == 2 * kMiB);
  arena.table.finish();
}

TEST_CASE("arenas: the driver's peak is split into use, idle and others'", "[collector]") {
  ArenaOnDevice arena;
  arena.give(100 * kMiB, 4 * kMiB);
  arena.table.device_allocated({9, GPUPEAK_KIND_LINEAR, kDevice, 900 * kMiB, 3 * kMiB, GroupId{6}},
                               ++arena.time);
  arena.segment(2, 200 * kMiB, 20 * kMiB);  // the peak, made for the block that follows
  arena.give(200 * kMiB, 15 * kMiB);
  for (int i = 0; i < 3; ++i) {
    arena.give(105 * kMiB, kMiB);
    arena.take(105 * kMiB);
  }
  arena.take(200 * kMiB);
  arena.table.finish();
  const ScopeId driver = *arena.table.device_scope(kDevice);
  CHECK(arena.table.peaks().scope(driver).peak == 43 * kMiB);
  CHECK(arena.at_peak(driver, ArenaTable::What::kInUse) == 19 * kMiB);
  CHECK(arena.at_peak(driver, ArenaTable::What::kIdle) == 21 * kMiB);
  CHECK(arena.at_peak(driver, ArenaTable::What::kOutside) == 3 * kMiB);
  const ArenaTable::Arena& row = arena.table.arenas()[0];
  CHECK(arena.table.peaks().scope(row.scope).peak == 20 * kMiB);  // later than the driver's
  CHECK(row.reserved_at_peak == 40 * kMiB);
  CHECK(row.largest_idle_at_peak == 14 * kMiB);
  CHECK(arena.table.peaks().scope(*arena.table.in_arenas_scope(kDevice)).peak == 20 * kMiB);
}

TEST_CASE("arenas: a block may lie in several pieces that were mapped side by side",
          "[collector]") {
  ArenaOnDevice arena;
  for (uint64_t id : {11, 12}) {
    arena.table.device_allocated({id, GPUPEAK_KIND_VMM, kDevice, 0xdead000, 2 * kMiB, kSegments},
                                 9);
    arena.table.device_mapped(500 * kMiB + (id - 11) * 2 * kMiB, 2 * kMiB, id, 9);
  }
  arena.give(500 * kMiB, kMiB);
  CHECK(arena.table.level(0).reserved == 2 * kMiB);
  arena.give(501 * kMiB, 2 * kMiB);
  CHECK(arena.table.level(0).reserved == 4 * kMiB);
  CHECK(arena.table.level(0).in_use == 3 * kMiB);
  arena.take(501 * kMiB);
  CHECK(arena.table.largest_idle(0) == 3 * kMiB);  // one hole over both
  arena.take(500 * kMiB);
  arena.table.device_unmapped(502 * kMiB, 2 * kMiB, 10);
  arena.table.device_freed(12, 10);
  CHECK(arena.table.level(0).reserved == 2 * kMiB);
  CHECK(arena.table.arenas()[0].lost_bytes == 0);
  arena.table.finish();
}

TEST_CASE("arenas: what overlaps or lies elsewhere is memory of its own", "[collector]") {
  ArenaOnDevice arena;
  arena.give(100 * kMiB, 4 * kMiB);
  arena.give(102 * kMiB, 4 * kMiB);  // over the first one
  arena.give(119 * kMiB, 4 * kMiB);  // over the segment's end
  arena.give(700 * kMiB, kMiB);      // in nothing
  CHECK(arena.table.level(0).in_use == 13 * kMiB);
  CHECK(arena.table.level(0).reserved == 29 * kMiB);
  for (const uint64_t at : {100, 102, 119, 700}) arena.take(at * kMiB);
  CHECK(arena.table.level(0).reserved == 20 * kMiB);
  arena.table.finish();
}

TEST_CASE("arenas: in another one's block bytes do not count twice", "[collector]") {
  ArenaOnDevice arena;
  arena.give(100 * kMiB, 8 * kMiB);
  arena.table.on_arena(event(2, GPUPEAK_ARENA_CREATED), kWeights, ++arena.time);
  arena.table.allocate(alloc(2, 101 * kMiB, kMiB), 8, ++arena.time);
  arena.table.finish();
  const ScopeId driver = *arena.table.device_scope(kDevice);
  CHECK(arena.at_peak(driver, ArenaTable::What::kInUse) == 8 * kMiB);
  CHECK(arena.at_peak(driver, ArenaTable::What::kIdle) == 12 * kMiB);
  CHECK(arena.table.level(1).in_use == kMiB);
}

TEST_CASE("arenas: memory that an arena declares is taken out of its holder's", "[collector]") {
  ArenaOnDevice arena;
  ArenaEvent declared = event(2, GPUPEAK_ARENA_CREATED, 6 * kMiB);
  declared.address = 104 * kMiB;
  arena.table.on_arena(declared, kWeights, ++arena.time);
  arena.table.allocate(alloc(2, 105 * kMiB, kMiB), 8, ++arena.time);
  CHECK(arena.table.level(1).reserved == 6 * kMiB);
  CHECK(arena.table.level(1).idle() == 5 * kMiB);
  arena.table.finish();
  const ScopeId driver = *arena.table.device_scope(kDevice);
  CHECK(arena.table.peaks().scope(driver).peak == 20 * kMiB);
  arena.table.on_arena(event(2, GPUPEAK_ARENA_DESTROYED), 0, ++arena.time);
  CHECK(arena.table.level(1).reserved == 0);
  CHECK(arena.table.peaks().scope(driver).current == 20 * kMiB);
}

TEST_CASE("arenas: the allocator's own totals are compared", "[collector]") {
  ArenaOnDevice arena;
  const auto told = [&](uint64_t address, uint64_t bytes, uint64_t in_use, uint64_t reserved) {
    ArenaAllocEvent given = alloc(1, address, bytes);
    given.in_use_plus_1 = in_use + 1;
    given.reserved_plus_1 = reserved + 1;
    arena.table.allocate(given, 7, ++arena.time);
  };
  told(100 * kMiB, kMiB, kMiB, 20 * kMiB);
  told(102 * kMiB, kMiB, 2 * kMiB, 20 * kMiB);
  CHECK(arena.table.arenas()[0].contradictions == 0);
  told(104 * kMiB, kMiB, 4 * kMiB, 20 * kMiB);
  told(106 * kMiB, kMiB, 4 * kMiB, 22 * kMiB);
  CHECK(arena.table.arenas()[0].contradictions == 2);
  CHECK(arena.table.arenas()[0].told == 4);
}

TEST_CASE("arenas: what is taken from below is not compared where that is not in the log",
          "[collector]") {
  ArenaOnDevice arena;
  ArenaAllocEvent given = alloc(1, 900 * kMiB, kMiB);  // in nothing that was seen
  given.in_use_plus_1 = kMiB + 1;
  given.reserved_plus_1 = 8 * kMiB + 1;
  arena.table.allocate(given, 7, ++arena.time);
  CHECK(arena.table.arenas()[0].told == 1);
  CHECK(arena.table.arenas()[0].contradictions == 0);
}

TEST_CASE("arenas: in the heap there may be more than an arena says, never less", "[collector]") {
  ArenaTable table;
  table.use_heap([&](uint64_t, uint64_t& begin, uint64_t& bytes) {
    begin = 0x10000;
    bytes = 64;
    return true;
  });
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool, 1);
  ArenaAllocEvent given = alloc(1, 0x10000, 16);
  given.in_use_plus_1 = 16 + 1;
  for (const uint64_t reserved : {64, 16, 65}) {
    given.reserved_plus_1 = reserved + 1;
    table.allocate(given, 7, 2);
  }
  CHECK(table.arenas()[0].told == 3);
  CHECK(table.arenas()[0].contradictions == 1);
}

TEST_CASE("arenas: one that follows another on the host is in the same row", "[collector]") {
  ArenaTable table;
  table.use_heap([&](uint64_t, uint64_t& begin, uint64_t& bytes) {
    begin = 0x10000;
    bytes = 0x10000;
    return true;
  });
  for (uint64_t arena = 1; arena <= 3; ++arena) {
    table.on_arena(event(arena, GPUPEAK_ARENA_CREATED), kPool, 1);
    table.allocate(alloc(arena, 0x11000, 0x1000), 7, 2);
    table.on_arena(event(arena, GPUPEAK_ARENA_DESTROYED), kPool, 3);
  }
  REQUIRE(table.arenas().size() == 1);
  CHECK(table.arenas()[0].count == 3);
  CHECK(table.arenas()[0].alloc_count == 3);
  table.finish();
}

TEST_CASE("arenas: on the host they lie in the heap's blocks", "[collector]") {
  ArenaTable table;
  unsigned asked = 0;
  table.use_heap([&](uint64_t address, uint64_t& begin, uint64_t& bytes) {
    ++asked;
    if (address < 0x10000 || address >= 0x20000) return false;
    begin = 0x10000;
    bytes = 0x10000;
    return true;
  });
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool, 1);
  table.allocate(alloc(1, 0x11000, 0x1000), 7, 2);
  table.allocate(alloc(1, 0x13000, 0x1000), 7, 3);
  CHECK(asked == 1);
  CHECK(table.arenas()[0].place == ArenaAccounts::kHost);
  CHECK(table.level(0).reserved == 0x10000);
  CHECK(table.level(0).in_use == 0x2000);
  REQUIRE(table.has_heap_blocks());
  table.free(freed(1, 0x11000), 4);
  table.free(freed(1, 0x13000), 5);
  table.heap_freed(0x10000, 6);
  CHECK(table.level(0).reserved == 0);
  CHECK(!table.has_heap_blocks());
  table.finish();
}

namespace {

/// Of row 0 all of whose causes live: what they add up to at the row's largest.
uint64_t causes_at_largest(const ArenaTable& table) {
  uint64_t bytes = 0;
  for (GroupId group{0}; group < table.causes().causes().size(); ++group) {
    if (table.causes().causes()[group].arena == 0) bytes += table.causes().at_largest(group).bytes;
  }
  return bytes;
}

uint64_t never_used_at_peak(const ArenaOnDevice& arena, ScopeId scope) {
  uint64_t bytes = 0;
  for (GroupId group{0}; group < arena.table.holders().size(); ++group) {
    if (arena.table.holders()[group].never_used)
      bytes += arena.table.peaks().at_peak(group, scope).bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("arenas: what they have reserved is the sum of the requests that made them take it",
          "[collector]") {
  ArenaOnDevice arena;
  const auto same = [&] {
    CHECK(arena.table.causes().reserved(0) == arena.table.level(0).reserved);
  };
  arena.give(100 * kMiB, 4 * kMiB);
  same();
  arena.segment(2, 200 * kMiB, 30 * kMiB);
  same();  // nobody's yet
  arena.give(200 * kMiB, 30 * kMiB);
  same();
  arena.take(100 * kMiB);
  arena.table.device_freed(1, ++arena.time);
  same();
  arena.segment(3, 300 * kMiB, 50 * kMiB);
  arena.give(310 * kMiB, 1 * kMiB);
  same();
  arena.table.device_freed(2, ++arena.time);  // under its block
  same();
  arena.table.finish();

  const ArenaTable& table = arena.table;
  CHECK(causes_at_largest(table) == 80 * kMiB);
  CHECK(table.peaks().scope(table.arenas()[0].reserved_scope).peak == 80 * kMiB);
  const std::vector<ArenaCauses::Growth>& growths = table.causes().growths(0);
  REQUIRE(growths.size() == 1);  // all of one cause, in a row
  CHECK(growths[0].bytes == 80 * kMiB);
  CHECK(growths[0].in_use_bytes == 0);
  CHECK(growths[0].asked_bytes == 35 * kMiB);
  CHECK(growths[0].reserved_bytes == 80 * kMiB);
  CHECK(table.causes().causes()[0].largest.bytes == 50 * kMiB);
  CHECK(table.causes().causes()[0].largest.asked_bytes == 1 * kMiB);
  CHECK(table.causes().causes()[0].in_use_bytes == 30 * kMiB);
}

TEST_CASE("arenas: each request that made one larger than ever is told apart", "[collector]") {
  ArenaOnDevice arena;
  arena.give(100 * kMiB, 4 * kMiB);
  arena.table.device_allocated(
      {2, GPUPEAK_KIND_LINEAR, kDevice, 200 * kMiB, 10 * kMiB, GroupId(kSegments + 1)},
      ++arena.time);
  arena.give(200 * kMiB, 10 * kMiB);
  arena.table.device_freed(1, ++arena.time);
  arena.segment(3, 300 * kMiB, 25 * kMiB);
  arena.give(300 * kMiB, 3 * kMiB);
  arena.table.finish();
  const std::vector<ArenaCauses::Growth>& growths = arena.table.causes().growths(0);
  REQUIRE(growths.size() == 3);
  CHECK(growths[1].taken_by == kSegments + 1);
  CHECK(growths[1].bytes == 10 * kMiB);
  CHECK(growths[1].in_use_bytes == 4 * kMiB);
  CHECK(growths[2].bytes == 5 * kMiB);  // 20 had been given back
  CHECK(growths[2].reserved_bytes == 35 * kMiB);
  CHECK(causes_at_largest(arena.table) == 35 * kMiB);
}

TEST_CASE("arenas: what is idle has been used before or never", "[collector]") {
  ArenaOnDevice arena;
  arena.give(100 * kMiB, 4 * kMiB);
  arena.take(100 * kMiB);
  arena.give(102 * kMiB, 4 * kMiB);  // two of it again, two for the first time
  arena.segment(2, 200 * kMiB, 8 * kMiB);
  arena.give(200 * kMiB, 1 * kMiB);  // the device's peak: 5 in use, 2 used before
  arena.table.device_freed(2, ++arena.time);
  arena.segment(2, 200 * kMiB, 2 * kMiB);
  arena.give(200 * kMiB, 1 * kMiB);
  arena.table.finish();
  const ScopeId device = *arena.table.device_scope(kDevice);
  CHECK(arena.at_peak(device, ArenaTable::What::kInUse) == 5 * kMiB);
  CHECK(arena.at_peak(device, ArenaTable::What::kIdle) == 23 * kMiB);
  CHECK(never_used_at_peak(arena, device) == 21 * kMiB);
}

TEST_CASE("used ranges: bytes are counted once, also across ranges", "[collector]") {
  UsedRanges used;
  CHECK(used.add(10, 20) == 10);
  CHECK(used.add(30, 40) == 10);
  CHECK(used.add(15, 35) == 10);
  CHECK(used.add(10, 40) == 0);
  CHECK(used.remove(12, 14) == 2);
  CHECK(used.remove(0, 100) == 28);
  CHECK(used.remove(0, 100) == 0);
  CHECK(used.add(5, 5) == 0);
}

TEST_CASE("arenas: the causes add up at each instant, as does what was never used", "[collector]") {
  // A ledger of its own, byte by byte in units: which of them are reserved, which were ever used.
  constexpr uint64_t kUnit = 1 << 10, kSegmentUnits = 64;
  struct OwnSegment {
    uint64_t id = 0;
    bool claimed = false;
    std::vector<bool> in_use = std::vector<bool>(kSegmentUnits), used = in_use;
  };
  ArenaOnDevice arena;
  arena.table.device_freed(1, ++arena.time);
  std::map<uint64_t, OwnSegment> segments;  // by address
  std::map<uint64_t, uint64_t> blocks;      // address, units
  uint64_t seed = 7, next_id = 100;
  const auto random = [&](uint64_t below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % below;
  };
  const auto drop = [&](uint64_t begin, uint64_t units, bool in_use) {
    OwnSegment& of = std::prev(segments.upper_bound(begin))->second;
    const uint64_t first = (begin - std::prev(segments.upper_bound(begin))->first) / kUnit;
    for (uint64_t i = first; i < first + units; ++i) {
      of.in_use[i] = in_use;
      if (in_use) of.used[i] = true;
    }
  };
  for (int step = 0; step < 3000; ++step) {
    const uint64_t what = random(10);
    if (what == 0 || segments.empty()) {
      const uint64_t address = (1000 + random(20)) * kMiB;
      if (segments.contains(address)) continue;
      segments[address].id = next_id;
      arena.table.device_allocated(
          {next_id++, GPUPEAK_KIND_LINEAR, kDevice, address, kSegmentUnits * kUnit,
           static_cast<GroupId>(kSegments + random(3))},
          ++arena.time);
    } else if (what == 1) {
      auto segment = std::next(segments.begin(), static_cast<long>(random(segments.size())));
      for (auto block = blocks.lower_bound(segment->first);
           block != blocks.end() && block->first < segment->first + kSegmentUnits * kUnit;)
        block = blocks.erase(block);  // it goes under its blocks
      arena.table.device_freed(segment->second.id, ++arena.time);
      segments.erase(segment);
    } else if (what < 7) {
      auto segment = std::next(segments.begin(), static_cast<long>(random(segments.size())));
      const uint64_t first = random(kSegmentUnits), units = 1 + random(kSegmentUnits - first);
      bool free = true;
      for (uint64_t i = first; i < first + units; ++i) free &= !segment->second.in_use[i];
      if (!free) continue;
      segment->second.claimed = true;
      blocks[segment->first + first * kUnit] = units;
      drop(segment->first + first * kUnit, units, true);
      arena.give(segment->first + first * kUnit, units * kUnit);
    } else if (!blocks.empty()) {
      const auto block = std::next(blocks.begin(), static_cast<long>(random(blocks.size())));
      drop(block->first, block->second, false);
      arena.take(block->first);
      blocks.erase(block);
    }
    uint64_t reserved = 0, never_used = 0;
    for (const auto& [address, segment] : segments) {
      if (!segment.claimed) continue;
      reserved += kSegmentUnits * kUnit;
      for (const bool used : segment.used) never_used += used ? 0 : kUnit;
    }
    uint64_t told_never_used = 0;
    for (GroupId group{0}; group < arena.table.holders().size(); ++group) {
      if (arena.table.holders()[group].never_used)
        told_never_used += arena.table.peaks().group(group).live_bytes;
    }
    REQUIRE(arena.table.causes().reserved(0) == reserved);
    REQUIRE(arena.table.level(0).reserved == reserved);
    REQUIRE(told_never_used == never_used);
  }
  arena.table.finish();
  CHECK(causes_at_largest(arena.table) ==
        arena.table.peaks().scope(arena.table.arenas()[0].reserved_scope).peak);
  uint64_t grown = 0;
  for (const ArenaCauses::Growth& growth : arena.table.causes().growths(0)) grown += growth.bytes;
  CHECK(grown == causes_at_largest(arena.table));
}
