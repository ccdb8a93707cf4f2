#include "hooks/xla_arena.h"

#include <cstring>

#include "base/environment.h"
#include "base/text.h"
#include "base/virtual_table.h"
#include "hooks/arena_tables.h"
#include "life/process.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {
namespace {

constinit ArenaMaker g_maker{"XLA", "pools.xla"};

/// std::optional<tsl::AllocatorStats>, as the function returns it. JAX 0.11.2's plugin writes this.
/// Published headers have one word of `reserved` less.
struct OptionalBytes {
  int64_t bytes;
  uint8_t known;
};
struct Statistics {
  int64_t requests, in_use, most_in_use, largest_request;
  OptionalBytes limit;
  int64_t reserved[3];  // what is set aside inside the arena, not what it took from below
  OptionalBytes most_reservable;
  int64_t largest_idle;
  OptionalBytes arena, most_pool;
  uint8_t known;
};
static_assert(sizeof(Statistics) == 136);

bool is_flag(uint8_t value) {
  return value <= 1;
}

ArenaTotals totals_of(uintptr_t statistics, uint64_t object) {
  struct Returned {
    Statistics told;
    uint8_t room[1024];  // for what later releases add
  };
  const Returned returned = reinterpret_cast<Returned (*)(uint64_t)>(statistics)(object);
  const Statistics& told = returned.told;
  if (told.known != 1 || told.arena.known != 1 || !is_flag(told.limit.known) || told.in_use < 0 ||
      told.in_use > told.arena.bytes || told.in_use > told.most_in_use) {
    return {-1, 0, 0, 0};
  }
  // The count of requests is not used, since ClearStats may set it to 0 at any time.
  return {0, told.in_use, told.arena.bytes, told.limit.known ? told.limit.bytes : 0};
}

/// Slots as tsl::Allocator declares them, and as found in JAX 0.11.2's plugin. Releases with
/// another number of functions declare them in another order.
constexpr size_t kFunctions = 21;
constexpr const char* kArena = "N3tsl12BFCAllocatorE";
constexpr ArenaClass kClass{.maker = &g_maker,
                            .slot = {/*AllocateRaw*/ 3, /*with attributes*/ 4, kNoSlot,
                                     /*DeallocateRaw*/ 7, /*destructors*/ 0, 1},
                            .size_at = 2,
                            .statistics = /*GetStats*/ 16,
                            .totals = &totals_of,
                            .block_size = /*AllocatedSize*/ 13};
/// Versions of the C API around 0.115, with which this was seen.
constexpr int kFirstMinor = 105, kLastMinor = 125;

void off(int minor, const char* why) {
  Text<256> text;
  text.add("XLA (PJRT 0.").add(static_cast<uint64_t>(minor)).add("): ").add(why);
  text.add("; XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each buffer");
  arenas_off(text.view());
}

}  // namespace

bool has_xla_arenas(const void* inside) {
  return find_virtual_table(inside, kArena).slots != nullptr;
}

void take_over_xla_arenas(const void* inside, int minor) {
  if (!environment().arenas || !may_record()) return;
  const VirtualTable arena = find_virtual_table(inside, kArena);
  if (arena.slots == nullptr) return;  // a plugin without arenas: another maker's, or for the CPU
  if (minor < kFirstMinor || minor > kLastMinor || arena.count != kFunctions ||
      strcmp(arena.base, "N3tsl9AllocatorE") != 0) {
    return off(minor, "its arenas are not those of a release that is known");
  }
  if (!take_over_arena_tables(kClass, &arena, 1))
    return off(minor, "its table of functions cannot be written");
  Text<32> version;
  version.add("PJRT 0.").add(static_cast<uint64_t>(minor));
  arenas_on(g_maker, version.view());
}

}  // namespace gpupeak::preload
