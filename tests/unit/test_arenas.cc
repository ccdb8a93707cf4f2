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
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED, 1000), kPool);
  table.on_arena(event(2, GPUPEAK_ARENA_CREATED, 500), kPool);
  table.allocate(alloc(1, 0x10, 300, kWeights), 0, 1);
  table.allocate(alloc(2, 0x10, 200), 7, 2);  // the same address: another arena's
  table.free(freed(1, 0x10));
  table.on_arena(event(2, GPUPEAK_ARENA_DESTROYED), 0);
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
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool);
  table.allocate(alloc(1, 0x10, 100), 7, 1);
  table.allocate(alloc(1, 0x10, 40), 8, 2);
  CHECK(scope(table).current == 40);
  table.allocate(alloc(1, 0x10, 60, kWeights), 9, 3);
  CHECK(scope(table).current == 60);
  CHECK(scope(table).peak == 100);
  table.on_arena(event(1, GPUPEAK_ARENA_RESET), 0);
  CHECK(scope(table).current == 0);
  table.allocate(alloc(1, 0x20, 10), 7, 4);
  CHECK(scope(table).current == 10);
  table.finish();
  CHECK(table.arenas()[0].alloc_count == 2);
}

TEST_CASE("arenas: what matches nothing is counted and changes nothing", "[collector]") {
  ArenaTable table;
  table.allocate(alloc(1, 0x10, 100), 0, 1);
  table.on_arena(event(1, GPUPEAK_ARENA_RESET), 0);
  table.free(freed(1, 0x10));
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kPool);
  table.free(freed(1, 0x10));
  table.on_arena(event(1, GPUPEAK_ARENA_CREATED), kWeights);  // its number is taken
  table.finish();
  CHECK(table.unmatched() == 4);
  CHECK(scope(table).peak == 0);
}
