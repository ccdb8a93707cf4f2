// What a summary asks of all groups.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "catch.h"
#include "collector/analyze/attribution.h"
#include "collector/log/kinds.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

TEST_CASE("group_totals: many groups add up, in the order of the groups", "[collector]") {
  constexpr uint32_t kSites = 150'000;
  constexpr uint64_t kBlock = 64;
  LogBuilder log;
  uint64_t time = 0, bytes = 0, kept_bytes = 0;
  size_t kept = 0, freed_at_once = 0;
  for (uint32_t i = 0; i < kSites; ++i) {
    const uint32_t stack = log.node(0, 0x1000 + uint64_t{16} * i);
    // Equal ones: the first of them is the largest.
    const uint64_t size = i == 65'537 || i == 131'073 ? 4096 : 16 + i % 32;
    const uint64_t address = 0x10000000 + i * kBlock * 64;
    log.alloc(0, ++time, address, size, stack);
    bytes += size;
    if (i % 3 == 0) {
      log.free(0, ++time, address);
      ++freed_at_once;
    } else {
      ++kept;
      kept_bytes += size;
    }
  }
  const TemporaryFile file;
  log.save(file.path());
  const LogReader reader(file.path());
  Replay replay(reader);
  replay.run({});
  const GroupTotals totals(replay);

  const auto heap =
      std::find_if(replay.sites().contexts().begin(), replay.sites().contexts().end(),
                   [](const SiteContext& context) { return context.kind == GPUPEAK_KIND_HEAP; });
  REQUIRE(heap != replay.sites().contexts().end());
  const GroupTotals::OfContext& of =
      totals.contexts[static_cast<size_t>(heap - replay.sites().contexts().begin())];
  CHECK(of.alloc_count == kSites);
  CHECK(of.alloc_bytes == bytes);
  CHECK(of.biggest_bytes == 4096);
  CHECK(replay.sites().info(of.biggest).stack == 65'538);
  REQUIRE(totals.live.size() == kept);
  CHECK(totals.temporaries.size() == freed_at_once);
  uint64_t live_bytes = 0;
  for (const Contribution& held : totals.live) live_bytes += held.bytes;
  CHECK(live_bytes == kept_bytes);
  const auto by_group = [](const Contribution& a, const Contribution& b) {
    return a.group < b.group;
  };
  CHECK(std::is_sorted(totals.live.begin(), totals.live.end(), by_group));
  CHECK(std::is_sorted(totals.temporaries.begin(), totals.temporaries.end(), by_group));
}
