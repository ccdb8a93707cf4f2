// Why memory ran out: a cause is named only if its figures prove it.
#include "catch.h"
#include "collector/summary/run_text.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// 1,000 MiB, of which 100 are free and the rest is this process's; nobody else is there.
OutOfMemory refused(uint64_t mib) {
  OutOfMemory oom;
  oom.api = "cuMemAlloc_v2";
  oom.device = 0;
  oom.result = "CUDA_ERROR_OUT_OF_MEMORY";
  oom.requested_bytes = mib * kMiB;
  oom.driver_free_bytes = 100 * kMiB;
  oom.driver_total_bytes = 1000 * kMiB;
  oom.live_bytes = 900 * kMiB;
  oom.ledger = LedgerView{};
  return oom;
}

ArenaSnapshot arena(uint64_t idle_mib, uint64_t largest_mib, uint64_t graph_mib = 0) {
  ArenaSnapshot then;
  then.name = "PyTorch";
  then.reserved_bytes = 800 * kMiB;
  then.in_use_bytes = (800 - idle_mib - graph_mib) * kMiB;
  then.largest_idle_bytes = largest_mib * kMiB;
  then.idle_pieces = 7;
  then.graph_idle_bytes = graph_mib * kMiB;
  return then;
}

/// The driver was asked twice before.
OutOfMemory refused_by_arena(uint64_t mib, const ArenaSnapshot& then) {
  OutOfMemory oom = refused(mib);
  oom.refused_by = then;
  oom.driver_refusals = 2;
  oom.driver_asked_bytes = oom.requested_bytes;
  return oom;
}

void others_hold(OutOfMemory& oom, uint64_t mib) {
  oom.ledger->rows.push_back({"start", static_cast<int64_t>(mib * kMiB)});
  oom.live_bytes -= mib * kMiB;
}

std::string cause_of(OutOfMemory oom) {
  find_causes(oom);
  return oom.causes.empty() ? "" : std::string(cause_name(oom.causes.front().cause));
}

}  // namespace

TEST_CASE("failure cause: each is named by what it alone would have freed", "[collector]") {
  CHECK(cause_of(refused(2000)) == "larger_than_card");
  CHECK(cause_of(refused(200)) == "full");
  CHECK(cause_of(refused_by_arena(200, arena(300, 40))) == "fragmented");
  CHECK(cause_of(refused_by_arena(200, arena(300, 250))) == "set_apart");
  CHECK(cause_of(refused_by_arena(200, arena(0, 0, 300))) == "graph_pool");
  CHECK(cause_of(refused_by_arena(200, arena(10, 5))) == "full");
  OutOfMemory others = refused(300);
  others_hold(others, 400);
  CHECK(cause_of(others) == "other_process");
  OutOfMemory past = refused(300);
  past.arenas = {arena(250, 250)};
  CHECK(cause_of(past) == "idle_in_pool");
  OutOfMemory pages = refused(300);
  pages.page_slack_bytes = 250 * kMiB;
  CHECK(cause_of(pages) == "pages_of_small_blocks");
  OutOfMemory growing = refused(300);
  growing.growth = GrowthSummary{};
  growing.growth->last = 10;
  growing.growth->grown_bytes = 500 * kMiB;
  CHECK(cause_of(growing) == "growth");
}

TEST_CASE("failure cause: not enough by a page is not enough", "[collector]") {
  // 100 MiB are free: 100 more are needed, and what is idle are 99 or 100.
  CHECK(cause_of(refused_by_arena(200, arena(99, 10))) == "full");
  CHECK(cause_of(refused_by_arena(200, arena(100, 10))) == "fragmented");
  OutOfMemory less = refused(300);
  others_hold(less, 199);
  CHECK(cause_of(less) == "full");
}

TEST_CASE("failure cause: a pool that did not ask the driver has a limit of its own",
          "[collector]") {
  OutOfMemory oom = refused_by_arena(80, arena(0, 0));
  oom.driver_refusals = 0;
  CHECK(cause_of(oom) == "own_limit");
  find_causes(oom);
  CHECK(why_text(oom, {}).find("not the card's") != std::string::npos);
  // One that tells its limit, and is far from it.
  oom.limit_bytes = 1000 * kMiB;
  CHECK(cause_of(oom).empty());
  oom.limit_bytes = 850 * kMiB;
  CHECK(cause_of(oom) == "own_limit");
  oom.limit_bytes = std::nullopt;
  // One that maps behind what it has may have come to the end of its addresses.
  oom.refused_by->grows_in_place = true;
  oom.unmapped_address_bytes = 79 * kMiB;
  CHECK(cause_of(oom).empty());
  oom.unmapped_address_bytes = 80 * kMiB;
  CHECK(cause_of(oom) == "own_limit");
  oom.refused_by->grows_in_place = false;
  // Where the card had no room either, the limit alone is not why.
  oom.requested_bytes = 200 * kMiB;
  CHECK(cause_of(oom).empty());
  // What the driver has is not known: that it was not asked is.
  oom.driver_free_bytes = std::nullopt;
  CHECK(cause_of(oom) == "own_limit");
}

TEST_CASE("failure cause: where nothing is proved none is named", "[collector]") {
  CHECK(cause_of(refused(50)).empty());  // as much was free
  OutOfMemory unknown = refused(300);    // 400 are others' or the driver's: nobody told them apart
  unknown.live_bytes = 500 * kMiB;
  unknown.ledger = std::nullopt;
  CHECK(cause_of(unknown).empty());
  find_causes(unknown);
  CHECK(why_text(unknown, {}).starts_with("the cause is not known"));
  CHECK(help_text(unknown, {}).empty());
  unknown.requested_bytes = 600 * kMiB;  // not even with all of that
  CHECK(cause_of(unknown) == "full");
  OutOfMemory silent = refused(200);
  silent.driver_free_bytes = std::nullopt;
  CHECK(cause_of(silent).empty());
  OutOfMemory host = refused(200);
  host.on_host = true;
  CHECK(cause_of(host).empty());
  OutOfMemory other_error = refused(200);
  other_error.result = "CUDA_ERROR_INVALID_VALUE";
  CHECK(cause_of(other_error).empty());
  CHECK(why_text(other_error, {}).empty());
}

TEST_CASE("failure cause: the largest of several comes first, small ones only add up",
          "[collector]") {
  OutOfMemory oom = refused_by_arena(200, arena(150, 10));
  others_hold(oom, 500);
  find_causes(oom);
  REQUIRE(oom.causes.size() == 2);
  CHECK(oom.causes[0].cause == FailureCause::kOtherProcess);
  CHECK(oom.causes[0].bytes == 500 * kMiB);
  CHECK(oom.causes[1].cause == FailureCause::kFragmented);
  CHECK(why_text(oom, {}).find("also enough by itself: 150 MiB idle in pieces") !=
        std::string::npos);
  OutOfMemory both = refused_by_arena(300, arena(150, 10));
  others_hold(both, 120);
  find_causes(both);
  REQUIRE(both.causes.size() == 1);
  CHECK(both.causes[0].cause == FailureCause::kTogether);
  CHECK(both.parts.size() == 2);
}
