// PyTorch's arena by its rules: what a request gets, whether a log's blocks lie where the rules put
// them, and what becomes of the run with less memory.
#include <memory>
#include <optional>

#include "catch.h"
#include "collector/fit/arena_model.h"
#include "collector/fit/arena_requests.h"
#include "collector/fit/need.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kSegmentsAt = UINT64_C(1) << 40;  // where segments lie, 1 GiB apart

uint64_t segment(uint64_t number) {
  return kSegmentsAt + number * 1024 * kMiB;
}

/// With a context of 500 MiB.
ArenaRequests segment_history() {
  ArenaRequests history(std::make_unique<TorchCache>());
  history.others_have(0);
  history.driver_had(500 * kMiB);
  return history;
}
/// A request that took a segment, and lies at its begin.
void give_segment(ArenaRequests& history, uint64_t number, uint64_t bytes, uint64_t segment_bytes) {
  history.segment_taken(segment(number), segment_bytes);
  history.given(segment(number), bytes);
}
void end_requests(ArenaRequests& history, uint64_t driver = 500 * kMiB) {
  history.driver_had(driver);
  history.finish(3 * kMiB);
}

/// From where on it always goes well.
std::optional<uint64_t> enough_for(const ArenaRequests& history, uint64_t least, uint64_t most) {
  const auto fails = fails_for(history, least, most);
  if (!fails) return std::nullopt;
  REQUIRE(!fails->empty());
  CHECK(fails->front().begin == 0);
  return fails->back().end;
}

}  // namespace

TEST_CASE("torch pool: segments and what is split off go by the size of the request",
          "[collector]") {
  CHECK(TorchCache().segment_for(512) == 2 * kMiB);
  CHECK(TorchCache().segment_for(kMiB) == 2 * kMiB);
  CHECK(TorchCache().segment_for(kMiB + 512) == 20 * kMiB);
  CHECK(TorchCache().segment_for(10 * kMiB - 512) == 20 * kMiB);
  CHECK(TorchCache().segment_for(10 * kMiB) == 10 * kMiB);
  CHECK(TorchCache().segment_for(10 * kMiB + 512) == 12 * kMiB);
  CHECK(TorchCache().splits(kMiB, kMiB - 512));
  CHECK(!TorchCache().splits(30 * kMiB, 29 * kMiB));
  CHECK(TorchCache().splits(30 * kMiB, 29 * kMiB - 512));
}

TEST_CASE(
    "torch pool: a request gets the smallest piece that is large enough, of equal ones the "
    "lowest",
    "[collector]") {
  TorchCache cache;
  cache.pieces().add_segment(segment(3), 30 * kMiB, 0);
  cache.pieces().add_segment(segment(2), 20 * kMiB, 0);
  cache.pieces().add_segment(segment(1), 20 * kMiB, 0);
  cache.pieces().add_segment(segment(0), 2 * kMiB, 1);
  CHECK(cache.pieces().address_of(*cache.find({12 * kMiB})) == segment(1));
  CHECK(cache.pieces().address_of(*cache.find({21 * kMiB})) == segment(3));
  CHECK(cache.pieces().address_of(*cache.find({kMiB})) == segment(0));
  CHECK(!cache.find({31 * kMiB}));
  CHECK(cache.largest_below({21 * kMiB}) == 20 * kMiB);
  CHECK(cache.largest_below({20 * kMiB}) == 0);

  const TorchCache::Piece first = *cache.find({12 * kMiB});
  cache.take(first, {12 * kMiB});
  const TorchCache::Piece second = *cache.find({8 * kMiB});
  CHECK(cache.pieces().address_of(second) == segment(1) + 12 * kMiB);  // the rest
  cache.take(second, {8 * kMiB});
  CHECK(cache.pieces().reserved() == 72 * kMiB);
  CHECK(!cache.pieces().release(segment(1), 20 * kMiB));
  cache.pieces().release_idle();
  CHECK(cache.pieces().reserved() == 20 * kMiB);
  cache.pieces().put_back(first);
  cache.pieces().release_idle();
  CHECK(cache.pieces().reserved() == 20 * kMiB);  // a part is in use
  cache.pieces().put_back(second);
  CHECK(cache.pieces().bytes_of(*cache.find({20 * kMiB})) == 20 * kMiB);
  cache.pieces().release_idle();
  CHECK(cache.pieces().reserved() == 0);
}

TEST_CASE("torch pool: a piece between two idle ones joins both", "[collector]") {
  TorchCache cache;
  cache.pieces().add_segment(segment(0), 20 * kMiB, 0);
  TorchCache::Piece pieces[3];
  for (TorchCache::Piece& piece : pieces) {
    piece = *cache.find({5 * kMiB});
    cache.take(piece, {5 * kMiB});
  }
  cache.pieces().put_back(pieces[0]);
  cache.pieces().put_back(pieces[2]);
  CHECK(!cache.find({11 * kMiB}));
  cache.pieces().put_back(pieces[1]);
  CHECK(cache.pieces().address_of(*cache.find({20 * kMiB})) == segment(0));
}

TEST_CASE("torch history: blocks that lie where the rules put them are repeated", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 6 * kMiB, 20 * kMiB);
  log.given(segment(0) + 6 * kMiB, 7 * kMiB);
  log.taken(segment(0));
  log.given(segment(0), 6 * kMiB);
  log.given(segment(0) + 13 * kMiB, 7 * kMiB);  // all of the rest
  give_segment(log, 1, 50 * kMiB, 50 * kMiB);
  end_requests(log);
  CHECK(log.why_not() == "");
  CHECK(log.requests() == 5);
  CHECK(log.repeated() == 5);
  CHECK(log.reserved() == 70 * kMiB);
  // What was asked for is known of what was split; else up to 1 MiB less may have been.
  uint64_t slack[5], i = 0;
  for (const ArenaRequests::Step& step : log.steps()) {
    if (step.what == ArenaRequests::What::kGive) slack[i++] = step.slack;
  }
  CHECK(slack[0] == 0);
  CHECK(slack[1] == 0);
  CHECK(slack[2] == kMiB);
  CHECK(slack[3] == kMiB);
  CHECK(slack[4] == kMiB);
}

TEST_CASE("torch history: less was not asked for than a smaller idle piece had", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 6 * kMiB, 20 * kMiB);
  log.given(segment(0) + 6 * kMiB, 13 * kMiB + 512 * kKiB);
  // 512 KiB are left; of the large ones, so that no request gets them.
  CHECK(log.why_not() != "");
  log = segment_history();
  give_segment(log, 0, 49 * kMiB + 512 * kKiB, 50 * kMiB);
  CHECK(log.why_not() != "");  // not split: the block has 50 MiB
  log = segment_history();
  give_segment(log, 0, 30 * kMiB, 30 * kMiB);
  give_segment(log, 1, 30 * kMiB + 512 * kKiB, 32 * kMiB);
  log.given(segment(1) + 30 * kMiB + 512 * kKiB, kMiB + 512 * kKiB);
  log.taken(segment(0));
  log.taken(segment(1) + 30 * kMiB + 512 * kKiB);
  log.taken(segment(1));
  log.given(segment(1), 32 * kMiB);  // 30 MiB were not enough
  end_requests(log);
  REQUIRE(log.why_not() == "");
  uint32_t slack = 0;
  for (const ArenaRequests::Step& step : log.steps()) {
    if (step.what == ArenaRequests::What::kGive) slack = step.slack;
  }
  CHECK(slack == kMiB);  // 31 of 32
}

TEST_CASE("torch history: anything else than the rules is given up", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 20 * kMiB, 20 * kMiB);
  SECTION("a new segment where an idle piece would do: another stream") {
    log.taken(segment(0));
    give_segment(log, 1, 15 * kMiB, 16 * kMiB);
  }
  SECTION("a piece that is not the best") {
    give_segment(log, 1, 30 * kMiB, 30 * kMiB);
    log.taken(segment(0));
    log.taken(segment(1));
    log.given(segment(1), 12 * kMiB);
  }
  SECTION("a segment of another size") {
    give_segment(log, 1, 6 * kMiB, 6 * kMiB);
  }
  SECTION("a block that is no multiple of 512 bytes") {
    give_segment(log, 1, 15 * kMiB + 100, 16 * kMiB);
  }
  SECTION("a block that is not in the segment that was taken for it") {
    log.segment_taken(segment(1), 16 * kMiB);
    log.given(segment(2), 15 * kMiB);
  }
  SECTION("a block that comes back twice") {
    log.taken(segment(0));
    log.taken(segment(0));
  }
  SECTION("a segment that goes back while it is in use") {
    log.segment_given_back(segment(0), 20 * kMiB);
  }
  SECTION("one idle segment goes back, another one does not") {
    give_segment(log, 1, 30 * kMiB, 30 * kMiB);
    log.taken(segment(0));
    log.taken(segment(1));
    log.segment_given_back(segment(0), 20 * kMiB);
    log.given(segment(1), 12 * kMiB);
  }
  SECTION("a segment that it never shares out") {
    log.segment_taken(segment(1), 16 * kMiB);
  }
  end_requests(log);
  CHECK(log.why_not() != "");
  CHECK(log.steps().empty());
}

TEST_CASE("held run: idle segments make room, pieces in use do not", "[collector]") {
  ArenaRequests log = segment_history();
  // 40 MiB, idle; 30 MiB, of which 12 are in use; then 80.
  give_segment(log, 0, 40 * kMiB, 40 * kMiB);
  give_segment(log, 1, 30 * kMiB, 30 * kMiB);
  log.taken(segment(1));
  log.given(segment(1), 12 * kMiB);
  log.taken(segment(0));
  give_segment(log, 2, 80 * kMiB, 80 * kMiB);
  end_requests(log);
  REQUIRE(log.why_not() == "");
  const uint64_t driver = 503 * kMiB;
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    INFO(variant);
    CHECK(hold(log, driver + 150 * kMiB, variant).fits);
    CHECK(hold(log, driver + 150 * kMiB, variant).needed == driver + 150 * kMiB);
    // The first one goes back; with 110 MiB nothing else changes.
    CHECK(hold(log, driver + 150 * kMiB - 1, variant).fits);
    CHECK(hold(log, driver + 150 * kMiB - 1, variant).needed == driver + 110 * kMiB);
    CHECK(!hold(log, driver + 110 * kMiB - 1, variant).fits);
  }
  CHECK(enough_for(log, driver, driver + 150 * kMiB) == driver + 110 * kMiB);
  CHECK(enough_for(log, driver + 120 * kMiB, driver + 150 * kMiB) == driver + 120 * kMiB);
  CHECK(!enough_for(log, driver, driver + 100 * kMiB));  // the log contradicts itself
}

TEST_CASE("held run: what others and the driver take is not made room for", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 40 * kMiB, 40 * kMiB);
  log.taken(segment(0));
  SECTION("a library's block") {
    log.others_have(30 * kMiB);
    log.others_have(0);
    end_requests(log);
  }
  SECTION("the driver's own") {
    end_requests(log, 530 * kMiB);  // it was no more than that since the last reading
  }
  SECTION("what another thread was about to take") {
    log.at_once(530 * kMiB);
    end_requests(log);
  }
  REQUIRE(log.why_not() == "");
  CHECK(enough_for(log, 0, 573 * kMiB) == 573 * kMiB);
}

TEST_CASE("held run: what the program itself gave back is no part of it", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 40 * kMiB, 40 * kMiB);
  log.taken(segment(0));
  log.segment_given_back(segment(0), 40 * kMiB);
  log.others_have(100 * kMiB);
  end_requests(log);
  REQUIRE(log.why_not() == "");
  CHECK(enough_for(log, 0, 603 * kMiB) == 603 * kMiB);
  CHECK(hold(log, 603 * kMiB, 0).needed == 603 * kMiB);
}

TEST_CASE("held run: with less memory it may go well where with more it fails", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 40 * kMiB, 40 * kMiB);
  log.taken(segment(0));
  give_segment(log, 1, 80 * kMiB, 80 * kMiB);
  log.taken(segment(1));
  log.others_have(30 *
                  kMiB);  // with 120 MiB in the arena, or with the 80 of an arena that was refused
  end_requests(log);
  REQUIRE(log.why_not() == "");
  const uint64_t driver = 503 * kMiB;
  const auto fails = fails_for(log, driver, driver + 150 * kMiB);
  REQUIRE(fails);
  REQUIRE(fails->size() == 2);
  CHECK(fails->at(0).end == driver + 110 * kMiB);
  CHECK(fails->at(1).begin == driver + 120 * kMiB);
  CHECK(fails->at(1).end == driver + 150 * kMiB);
}

TEST_CASE("held run: what a log does not tell of a request is tried both ways", "[collector]") {
  ArenaRequests log = segment_history();
  give_segment(log, 0, 34 * kMiB, 34 * kMiB);
  give_segment(log, 1, 50 * kMiB, 50 * kMiB);
  log.taken(segment(0));
  log.taken(segment(1));
  give_segment(log, 2, 60 * kMiB, 60 * kMiB);
  // With less than 144 MiB both have gone by now. Of the 13 MiB 12 may have been asked for.
  log.given(segment(0), 21 * kMiB);
  log.given(segment(0) + 21 * kMiB, 13 * kMiB);
  end_requests(log);
  REQUIRE(log.why_not() == "");
  const uint64_t driver = 503 * kMiB;
  bool fits[2] = {false, false};
  for (unsigned variant = 0; variant < kHeldRunVariants; ++variant) {
    fits[hold(log, driver + 95 * kMiB, variant).fits] = true;
  }
  CHECK(fits[0]);
  CHECK(fits[1]);
  CHECK(enough_for(log, driver, driver + 144 * kMiB) == driver + 96 * kMiB);
}
