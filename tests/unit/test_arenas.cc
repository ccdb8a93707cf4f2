#include "catch.h"
#include "collector/replay/arena_table.h"

using namespace gpupeak::collector;

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
  for (GroupId group = 0; group < table.holders().size(); ++group) {
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

constexpr uint64_t kMiB = 1 << 20;
constexpr int32_t kDevice = 0;
constexpr GroupId kSegments = 5;  // Replay's group of what the pool takes from the driver

/// A pool on a device with one segment of 20 MiB.
struct Pooled {
  ArenaTable table;
  uint64_t time = 0;
  Pooled() {
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
    for (GroupId group = 0; group < table.holders().size(); ++group) {
      if (table.holders()[group].what == what) bytes += table.peaks().at_peak(group, scope).bytes;
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("arenas: a driver's block is the pool's from its first part on", "[collector]") {
  Pooled pool;
  CHECK(pool.table.level(0).reserved == 0);  // somebody's, so far
  pool.give(100 * kMiB, 4 * kMiB);
  CHECK(pool.table.level(0).in_use == 4 * kMiB);
  CHECK(pool.table.level(0).idle() == 16 * kMiB);
  CHECK(pool.table.largest_idle(0) == 16 * kMiB);
  pool.give(110 * kMiB, 2 * kMiB);
  CHECK(pool.table.largest_idle(0) == 8 * kMiB);
  pool.take(100 * kMiB);
  CHECK(pool.table.level(0).idle() == 18 * kMiB);
  CHECK(pool.table.largest_idle(0) == 10 * kMiB);
  pool.table.device_freed(1, ++pool.time);
  CHECK(pool.table.level(0).reserved == 0);
  CHECK(pool.table.level(0).in_use == 0);
  CHECK(pool.table.arenas()[0].lost_bytes == 2 * kMiB);
  pool.table.finish();
}

TEST_CASE("arenas: the driver's peak is split into use, idle and others'", "[collector]") {
  Pooled pool;
  pool.give(100 * kMiB, 4 * kMiB);
  pool.table.device_allocated({9, GPUPEAK_KIND_LINEAR, kDevice, 900 * kMiB, 3 * kMiB, 6},
                              ++pool.time);
  pool.segment(2, 200 * kMiB, 20 * kMiB);  // the peak, made for the block that follows
  pool.give(200 * kMiB, 15 * kMiB);
  for (int i = 0; i < 3; ++i) {
    pool.give(105 * kMiB, kMiB);
    pool.take(105 * kMiB);
  }
  pool.take(200 * kMiB);
  pool.table.finish();
  const ScopeId driver = *pool.table.device_scope(kDevice);
  CHECK(pool.table.peaks().scope(driver).peak == 43 * kMiB);
  CHECK(pool.at_peak(driver, ArenaTable::What::kInUse) == 19 * kMiB);
  CHECK(pool.at_peak(driver, ArenaTable::What::kIdle) == 21 * kMiB);
  CHECK(pool.at_peak(driver, ArenaTable::What::kOutside) == 3 * kMiB);
  const ArenaTable::Arena& arena = pool.table.arenas()[0];
  CHECK(pool.table.peaks().scope(arena.scope).peak == 20 * kMiB);  // later than the driver's
  CHECK(arena.reserved_at_peak == 40 * kMiB);
  CHECK(arena.largest_idle_at_peak == 14 * kMiB);
  CHECK(pool.table.peaks().scope(*pool.table.pooled_scope(kDevice)).peak == 20 * kMiB);
}

TEST_CASE("arenas: a block may lie in several pieces that were mapped side by side",
          "[collector]") {
  Pooled pool;
  for (uint64_t id : {11, 12}) {
    pool.table.device_allocated({id, GPUPEAK_KIND_VMM, kDevice, 0xdead000, 2 * kMiB, kSegments}, 9);
    pool.table.device_mapped(500 * kMiB + (id - 11) * 2 * kMiB, 2 * kMiB, id, 9);
  }
  pool.give(500 * kMiB, kMiB);
  CHECK(pool.table.level(0).reserved == 2 * kMiB);
  pool.give(501 * kMiB, 2 * kMiB);
  CHECK(pool.table.level(0).reserved == 4 * kMiB);
  CHECK(pool.table.level(0).in_use == 3 * kMiB);
  pool.take(501 * kMiB);
  CHECK(pool.table.largest_idle(0) == 3 * kMiB);  // one hole over both
  pool.take(500 * kMiB);
  pool.table.device_unmapped(502 * kMiB, 2 * kMiB, 10);
  pool.table.device_freed(12, 10);
  CHECK(pool.table.level(0).reserved == 2 * kMiB);
  CHECK(pool.table.arenas()[0].lost_bytes == 0);
  pool.table.finish();
}

TEST_CASE("arenas: what overlaps or lies elsewhere is memory of its own", "[collector]") {
  Pooled pool;
  pool.give(100 * kMiB, 4 * kMiB);
  pool.give(102 * kMiB, 4 * kMiB);  // over the first one
  pool.give(119 * kMiB, 4 * kMiB);  // over the segment's end
  pool.give(700 * kMiB, kMiB);      // in nothing
  CHECK(pool.table.level(0).in_use == 13 * kMiB);
  CHECK(pool.table.level(0).reserved == 29 * kMiB);
  for (const uint64_t at : {100, 102, 119, 700}) pool.take(at * kMiB);
  CHECK(pool.table.level(0).reserved == 20 * kMiB);
  pool.table.finish();
}

TEST_CASE("arenas: in another one's block bytes do not count twice", "[collector]") {
  Pooled pool;
  pool.give(100 * kMiB, 8 * kMiB);
  pool.table.on_arena(event(2, GPUPEAK_ARENA_CREATED), kWeights, ++pool.time);
  pool.table.allocate(alloc(2, 101 * kMiB, kMiB), 8, ++pool.time);
  pool.table.finish();
  const ScopeId driver = *pool.table.device_scope(kDevice);
  CHECK(pool.at_peak(driver, ArenaTable::What::kInUse) == 8 * kMiB);
  CHECK(pool.at_peak(driver, ArenaTable::What::kIdle) == 12 * kMiB);
  CHECK(pool.table.level(1).in_use == kMiB);
}

TEST_CASE("arenas: memory that an arena declares is taken out of its holder's", "[collector]") {
  Pooled pool;
  ArenaEvent declared = event(2, GPUPEAK_ARENA_CREATED, 6 * kMiB);
  declared.address = 104 * kMiB;
  pool.table.on_arena(declared, kWeights, ++pool.time);
  pool.table.allocate(alloc(2, 105 * kMiB, kMiB), 8, ++pool.time);
  CHECK(pool.table.level(1).reserved == 6 * kMiB);
  CHECK(pool.table.level(1).idle() == 5 * kMiB);
  pool.table.finish();
  const ScopeId driver = *pool.table.device_scope(kDevice);
  CHECK(pool.table.peaks().scope(driver).peak == 20 * kMiB);
  pool.table.on_arena(event(2, GPUPEAK_ARENA_DESTROYED), 0, ++pool.time);
  CHECK(pool.table.level(1).reserved == 0);
  CHECK(pool.table.peaks().scope(driver).current == 20 * kMiB);
}

TEST_CASE("arenas: the allocator's own totals are compared", "[collector]") {
  Pooled pool;
  const auto told = [&](uint64_t address, uint64_t bytes, uint64_t in_use, uint64_t reserved) {
    ArenaAllocEvent given = alloc(1, address, bytes);
    given.in_use_plus_1 = in_use + 1;
    given.reserved_plus_1 = reserved + 1;
    pool.table.allocate(given, 7, ++pool.time);
  };
  told(100 * kMiB, kMiB, kMiB, 20 * kMiB);
  told(102 * kMiB, kMiB, 2 * kMiB, 20 * kMiB);
  CHECK(pool.table.arenas()[0].contradictions == 0);
  told(104 * kMiB, kMiB, 4 * kMiB, 20 * kMiB);
  told(106 * kMiB, kMiB, 4 * kMiB, 22 * kMiB);
  CHECK(pool.table.arenas()[0].contradictions == 2);
  CHECK(pool.table.arenas()[0].told == 4);
}

TEST_CASE("arenas: what is taken from below is not compared where that is not in the log",
          "[collector]") {
  Pooled pool;
  ArenaAllocEvent given = alloc(1, 900 * kMiB, kMiB);  // in nothing that was seen
  given.in_use_plus_1 = kMiB + 1;
  given.reserved_plus_1 = 8 * kMiB + 1;
  pool.table.allocate(given, 7, ++pool.time);
  CHECK(pool.table.arenas()[0].told == 1);
  CHECK(pool.table.arenas()[0].contradictions == 0);
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
