// ONNX Runtime's arena by its rules: how its regions grow, what a request gets during and outside
// of runs, whether a log's blocks lie where the rules put them, and what becomes of the run with
// less memory.
#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "catch.h"
#include "collector/fit/arena_model.h"
#include "collector/fit/arena_requests.h"
#include "collector/fit/need.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

using Extends = BfcArena::Extends;
constexpr uint64_t kGiB = 1 << 30;
constexpr uint64_t kAt = UINT64_C(1) << 40;  // where regions lie, 16 GiB apart
constexpr uint64_t kDriver = 503 * kMiB;

uint64_t region(uint64_t number) {
  return kAt + number * 16 * kGiB;
}
ArenaRequests history() {
  ArenaRequests history(std::make_unique<BfcArena>(Extends::kNextPowerOfTwo));
  history.others_have(0);
  history.driver_had(kDriver);
  return history;
}
void give_new(ArenaRequests& history, uint64_t number, uint64_t bytes, uint64_t region_bytes) {
  history.segment_taken(region(number), region_bytes);
  history.given(region(number), bytes);
}
void end(ArenaRequests& history) {
  history.driver_had(kDriver);
  history.finish(0);
}
const ArenaRequests::Step& step_of(const ArenaRequests& history, uint32_t block) {
  return *std::find_if(history.steps().begin(), history.steps().end(), [&](const auto& step) {
    return step.what == ArenaRequests::What::kGive && step.block == block;
  });
}
/// By which rules the regions of a run have grown.
std::unique_ptr<ArenaModel> learnt(std::initializer_list<std::pair<uint64_t, uint64_t>> regions) {
  BfcArena arena(Extends::kNextPowerOfTwo);
  for (const auto& [bytes, region] : regions) REQUIRE(arena.may_take(bytes, region));
  return arena.fresh();
}

}  // namespace

TEST_CASE("arena: regions double until the request fits, and up to 1 GiB if it does at once",
          "[collector]") {
  const auto arena = learnt({{512, kMiB}, {512, 2 * kMiB}, {300 * kMiB, 512 * kMiB}});
  CHECK(arena->segment_for(256) == kMiB);
  CHECK(arena->segment_for(256) == 2 * kMiB);
  CHECK(arena->segment_for(300 * kMiB) == 512 * kMiB);
  CHECK(arena->segment_for(300 * kMiB) == 512 * kMiB);
  CHECK(arena->segment_for(kMiB) == kGiB);
  CHECK(arena->segment_for(kMiB) == kGiB);
  CHECK(arena->segment_for(3 * kGiB) == 4 * kGiB);
  CHECK(arena->segment_for(3 * kGiB) == 4 * kGiB);
  CHECK(arena->segment_for(kMiB) == kGiB);
}

TEST_CASE("arena: a run shows how its regions grow", "[collector]") {
  // The older releases' have no bound.
  const auto older = learnt({{kGiB, kGiB}, {kMiB, kGiB}, {kMiB, 2 * kGiB}});
  CHECK(older->segment_for(kGiB) == kGiB);
  CHECK(older->segment_for(kMiB) == kGiB);
  CHECK(older->segment_for(kMiB) == 2 * kGiB);
  BfcArena arena(Extends::kNextPowerOfTwo);
  CHECK(!arena.may_take(512, 3 * kMiB));
  CHECK(arena.may_take(512, kMiB));  // as if it had not been asked
  CHECK(!arena.may_take(512, 512));
  CHECK(arena.segment_for(UINT64_MAX) > 0);
  BfcArena same(Extends::kSameAsRequested);
  CHECK(same.may_take(512, 512));
  CHECK(!same.may_take(512, kMiB));
  CHECK(same.segment_for(7 * kMiB) == 7 * kMiB);
  CHECK(same.least_for_whole(7 * kMiB, true) == 7 * kMiB);  // a region tells what was asked for
  CHECK(same.least_for_whole(7 * kMiB, false) < 7 * kMiB);
}

TEST_CASE("arena: a piece is given whole unless half of it or 128 MiB would be left",
          "[collector]") {
  const BfcArena arena(Extends::kNextPowerOfTwo);
  CHECK(arena.splits(512, 256));
  CHECK(!arena.splits(1024, 768));
  CHECK(arena.splits(kGiB, kGiB - 128 * kMiB));
  CHECK(!arena.splits(kGiB, kGiB - 128 * kMiB + 256));
  CHECK(arena.least_for_whole(256, false) == 256);
  CHECK(arena.least_for_whole(1024, false) == 768);
  CHECK(arena.least_for_whole(kGiB, false) == kGiB - 128 * kMiB + 256);
}

TEST_CASE("arena: what is refused is asked for again with a tenth less, down to the request",
          "[collector]") {
  BfcArena arena(Extends::kNextPowerOfTwo);
  CHECK(arena.after_refusal(kMiB, 10 * kMiB, 1) == 9 * kMiB);
  CHECK(arena.after_refusal(9 * kMiB + 256, 10 * kMiB, 1) == 0);
  CHECK(arena.after_refusal(256, 8 * kKiB, 9) == 0);
}

TEST_CASE("arena: what was a stream's is given to that stream alone, until the run ends",
          "[collector]") {
  ArenaRequests log = history();
  give_new(log, 0, 256, kMiB);
  log.begin_run();
  log.given(region(0) + 256, 512);
  log.taken(region(0) + 256);
  // It has not joined the rest of the region, and is the smallest piece that will do.
  log.given(region(0) + 256, 512);
  log.taken(region(0) + 256);
  log.given(region(0) + 768, 1024);
  log.taken(region(0) + 768);
  SECTION("the run goes on: two pieces of the stream's, side by side, are one") {
    log.given(region(0) + 256, 1536);
  }
  SECTION("the run has ended: all is one piece") {
    log.end_run();
    log.given(region(0) + 256, 2048);
  }
  end(log);
  CHECK(log.why_not() == "");
  CHECK(log.repeated() == log.requests());
}

TEST_CASE("arena: between runs what is a stream's is not given", "[collector]") {
  BfcArena arena(Extends::kNextPowerOfTwo);
  arena.pieces().add_segment(region(0), kMiB, 0);
  const ArenaModel::Request on_stream{kMiB, true};
  const BfcArena::Piece piece = *arena.find(on_stream);
  arena.take(piece, on_stream);
  arena.pieces().put_back(piece);
  CHECK(arena.find(on_stream));
  CHECK(!arena.find({256, false}));
  arena.pieces().forget_kinds();
  CHECK(arena.find({256, false}));
}

TEST_CASE("arena: a block that was reserved has memory of its own, and gives it back",
          "[collector]") {
  ArenaRequests log = history();
  give_new(log, 0, 256, kMiB);
  log.segment_taken(region(1), 700 * kMiB + 4);
  log.given(region(1), 700 * kMiB + 4);
  log.taken(region(1));
  log.segment_given_back(region(1), 700 * kMiB + 4);
  give_new(log, 2, 600 * kMiB, kGiB);
  end(log);
  REQUIRE(log.why_not() == "");
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    // 2 for the region of 1 MiB; the region of 1 GiB is asked for again with less.
    CHECK(hold(log, kDriver + 704 * kMiB, variant).fits);
    CHECK(!hold(log, kDriver + 704 * kMiB - 1, variant).fits);
    CHECK(hold(log, kDriver + 1026 * kMiB, variant).needed == kDriver + 1026 * kMiB);
  }
}

TEST_CASE("arena: what a request asked for is taken from the log, where it has it", "[collector]") {
  ArenaRequests log = history();
  give_new(log, 0, 256, kMiB);
  SECTION("of a piece that was given whole") {
    log.given(region(0) + 256, kMiB - 256, 600 * kKiB + 1);
    end(log);
    REQUIRE(log.why_not() == "");
    CHECK(log.knows_all_requests());
    CHECK(step_of(log, 1).bytes == 600 * kKiB + 256);
    CHECK(step_of(log, 1).slack == 0);
  }
  SECTION("without it the request may have been for little more than half of it") {
    log.given(region(0) + 256, kMiB - 256);
    end(log);
    REQUIRE(log.why_not() == "");
    CHECK(!log.knows_all_requests());
    CHECK(step_of(log, 1).slack == 512 * kKiB - 256);
  }
  SECTION("a request that would have left the rest idle got no whole piece by the rules") {
    log.given(region(0) + 256, kMiB - 256, 100 * kKiB);
    end(log);
    CHECK(log.why_not() != "");
  }
}

TEST_CASE("arena: with less memory its regions are smaller, and may leave too little",
          "[collector]") {
  ArenaRequests log = history();
  give_new(log, 0, 600 * kMiB, kGiB);
  give_new(log, 1, 600 * kMiB, kGiB);
  end(log);
  REQUIRE(log.why_not() == "");
  const auto fails = fails_for(log, kDriver, kDriver + 2 * kGiB);
  REQUIRE(fails);
  // The first region has 1 GiB. The second one is refused that, and 922, 830, 747 and 672 MiB.
  REQUIRE(fails->size() == 1);
  CHECK(fails->front().begin == 0);
  CHECK(fails->front().end == kDriver + 1630 * kMiB);
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    CHECK(hold(log, kDriver + 1630 * kMiB, variant).fits);
    CHECK(!hold(log, kDriver + 1630 * kMiB - 1, variant).fits);
    CHECK(!hold(log, kDriver + 1023 * kMiB, variant).fits);
  }
}

TEST_CASE("arena: the rules are ONNX Runtime's: every block of a real run lies where they put it",
          "[collector]") {
  ArenaRequests log = history();
  std::ifstream file(GPUPEAK_GOLDEN_FOLDER "/onnxruntime_vgg19.txt");
  std::string line;
  size_t given = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string what;
    uint64_t address = 0, bytes = 0;
    words >> what >> std::hex >> address >> std::dec >> bytes;
    if (what == "segment") log.segment_taken(address, bytes);
    if (what == "freed") log.segment_given_back(address, bytes);
    if (what == "give") log.given(address, bytes);
    if (what == "take") log.taken(address);
    if (what == "run") log.begin_run();
    if (what == "end") log.end_run();
    given += what == "give" ? 1 : 0;
  }
  end(log);
  CHECK(given == 88);
  CHECK(log.why_not() == "");
  CHECK(log.repeated() == given);
}

TEST_CASE("arena: anything else than the rules is given up", "[collector]") {
  ArenaRequests log = history();
  give_new(log, 0, 256, kMiB);
  SECTION("a region of another size") {
    give_new(log, 1, 3 * kMiB, 5 * kMiB);
  }
  SECTION("a block elsewhere") {
    log.given(region(0) + 512, 256);
  }
  SECTION("a request that the idle rest would have served: another stream") {
    give_new(log, 1, 1024, 2 * kMiB);
  }
  SECTION("two runs at once") {
    log.begin_run();
    log.begin_run();
  }
  SECTION("one idle region goes back, another one does not: the first is never given back") {
    log.taken(region(0));
    give_new(log, 1, 3 * kMiB, 4 * kMiB);
    log.taken(region(1));
    log.segment_given_back(region(1), 4 * kMiB);
    log.given(region(0), 256);
  }
  end(log);
  CHECK(log.why_not() != "");
}
