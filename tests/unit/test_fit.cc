// Whether a run fits: the bounds of a log made by hand, and what they say of a capacity.
#include "catch.h"
#include "collector/fit/need.h"
#include "collector/rules/cards.h"
#include "collector/summary/fit.h"
#include "collector/text/error.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kSegment = 20 * kMiB;

/// A device with a context of 500 MiB; the driver itself has 3, another process 1000.
LogBuilder with_context() {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, std::string(16, '\1'), "NVIDIA H100");
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.driver_reading(0, 1, {.used = 1003 * kMiB, .others = 1000 * kMiB});
  log.device_event(0, 2, GPUPEAK_REC_CONTEXT, Fields().u(1).u(1).u(GPUPEAK_CONTEXT_CREATED));
  log.driver_reading(0, 3, {.used = 1503 * kMiB, .cause = GPUPEAK_LEDGER_CONTEXT});
  return log;
}

DeviceNeed need_of(LogBuilder& log, uint64_t peak) {
  log.counters().device_count = 1;
  log.counters().device[0].total.peak = peak;
  const TemporaryFile file;
  const LogNeeds needs = needs_of(log.save(file.path()), {});
  REQUIRE(needs.devices.size() == 1);
  return needs.devices[0];
}

void arena(LogBuilder& log, uint64_t time) {
  const uint32_t name = log.string("PyTorch");
  log.event(0, time, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name).u(0).u(0).s("").u(1));
}
void give(LogBuilder& log, uint32_t slot, uint64_t time, uint64_t at, uint64_t bytes) {
  log.event(slot, time, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0));
}
void take(LogBuilder& log, uint64_t time, uint64_t at, uint64_t bytes) {
  log.event(0, time, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at * kMiB).u(bytes).u(0).u(0));
}

DeviceNeed bounds(uint64_t least, uint64_t most, uint64_t beyond = 0) {
  DeviceNeed need;
  need.in_use_bytes = least - beyond;
  need.least_bytes = least;
  need.held_bytes = most - beyond;
  need.most_bytes = most;
  need.beyond_bytes = beyond;
  return need;
}

uint64_t enough_of(const DeviceNeed& need) {
  return need.fails.empty() ? 0 : need.fails.back().end;
}

}  // namespace

TEST_CASE("fit: what a pool gave beyond the request is no part of the lower bound", "[collector]") {
  const auto need_with = [](uint64_t asked) {
    LogBuilder log = with_context();
    log.event(0, 9, GPUPEAK_REC_ARENA,
              Fields().u(1).u(0).u(log.string("ONNX Runtime Cuda")).u(0).u(0).s("").u(1));
    log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
    const auto given = [&](uint64_t time, uint64_t at, uint64_t bytes, uint64_t wanted) {
      log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
                Fields().u(1).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0).u(wanted));
    };
    given(11, 1000, 80 * kMiB, asked);
    given(12, 1080, 5 * kMiB, 5 * kMiB);
    take(log, 13, 1000, 80 * kMiB);
    given(14, 1000, 40 * kMiB, 39 * kMiB);  // less than before, with less padding
    return need_of(log, 100 * kMiB);
  };
  const DeviceNeed whole = need_with(0), padded = need_with(60 * kMiB);
  CHECK(*whole.in_use_bytes == 85 * kMiB);
  CHECK(*whole.padding_bytes == 1 * kMiB);
  CHECK(*padded.in_use_bytes == 65 * kMiB);
  CHECK(*padded.least_bytes == *whole.least_bytes - 20 * kMiB);
  CHECK(*padded.padding_bytes == 20 * kMiB);
  CHECK(padded.most_bytes == whole.most_bytes);
  REQUIRE(padded.notes.size() == 1);
  CHECK(padded.notes[0].find("up to 20.0 MiB") == 0);
  CHECK(*need_with(90 * kMiB).in_use_bytes == 85 * kMiB);  // more than it has: a damaged log
}

TEST_CASE("fit: where no pool tells what it was asked for, nothing is said of it", "[collector]") {
  LogBuilder log = with_context();
  arena(log, 9);
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  give(log, 0, 11, 1000, 80 * kMiB);
  const DeviceNeed need = need_of(log, 100 * kMiB);
  CHECK(!need.padding_bytes);
  CHECK(*need.in_use_bytes == 80 * kMiB);
}

TEST_CASE("fit: of managed memory it says how much is left out, and who holds it", "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  log.device_alloc(0, 11, 2000, GPUPEAK_KIND_MANAGED, 0, 30 * kMiB, 0, log.node(0, 0x100));
  log.device_alloc(0, 12, 3000, GPUPEAK_KIND_MANAGED, 0, 70 * kMiB, 0, log.node(0, 0x200));
  log.device_free(0, 13, 3000);
  log.device_alloc(0, 14, 4000, GPUPEAK_KIND_MANAGED, 0, 15 * kMiB, 0, log.node(0, 0x300));
  const DeviceNeed need = need_of(log, 100 * kMiB);
  CHECK(need.least_bytes == 600 * kMiB);
  REQUIRE(need.left_out.size() == 1);
  const LeftOut& left_out = need.left_out[0];
  CHECK(left_out.kind == "managed");
  CHECK(left_out.bytes == 100 * kMiB);
  REQUIRE(left_out.holders.size() == 2);
  CHECK(left_out.holders[0].title == "0x200");
  CHECK(left_out.holders[0].bytes == 70 * kMiB);
  CHECK(left_out.holders[1].bytes == 30 * kMiB);
  CHECK(left_out.other_bytes == 0);
  CHECK(together({need, need}).left_out.size() == 2);
}

TEST_CASE("fit: without pools both bounds are what was held, with the driver's own",
          "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  log.driver_reading(0, 11, {.used = 1603 * kMiB});
  log.device_free(0, 12, 1000);
  // Code comes where less is held: the two are never there together.
  log.driver_reading(0, 13, {.used = 1503 * kMiB});
  log.driver_reading(0, 14, {.used = 1533 * kMiB, .cause = GPUPEAK_LEDGER_CODE});
  log.device_alloc(0, 15, 2000, GPUPEAK_KIND_LINEAR, 0, 50 * kMiB);
  log.driver_reading(0, 16, {.used = 1583 * kMiB});
  const DeviceNeed need = need_of(log, 100 * kMiB);
  CHECK(need.no_most.empty());
  CHECK(need.least_bytes == 600 * kMiB);
  CHECK(need.most_bytes == 603 * kMiB);  // of the other process's 1000 nothing
  CHECK(need.in_use_bytes == 100 * kMiB);
  CHECK(need.beyond_bytes == 533 * kMiB);
}

TEST_CASE("fit: what NVML said of the process belongs to the reading that asked it",
          "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 700 * kMiB);
  log.driver_reading(0, 11, {.used = 2203 * kMiB, .own = 1200 * kMiB, .others = 1000 * kMiB});
  log.device_free(0, 12, 1000);
  log.driver_reading(0, 13, {.used = 1503 * kMiB});  // it was not asked again
  const DeviceNeed need = need_of(log, 700 * kMiB);
  CHECK(need.most_bytes == 1203 * kMiB);
  CHECK(need.beyond_bytes == 503 * kMiB);
}

TEST_CASE("fit: what is needed is the largest sum, not the sum at the largest reserve",
          "[collector]") {
  LogBuilder log = with_context();
  arena(log, 4);
  // Three segments, of which little is in use; two of them go back; then two full ones outside.
  for (uint64_t i = 0; i < 3; ++i) {
    log.device_alloc(0, 10 + 2 * i, 1000 + 100 * i, GPUPEAK_KIND_LINEAR, 0, kSegment);
    give(log, 0, 11 + 2 * i, 1000 + 100 * i, 2 * kMiB);
  }
  take(log, 20, 1000, 2 * kMiB);
  take(log, 21, 1100, 2 * kMiB);
  log.device_free(0, 22, 1000);
  log.device_free(0, 23, 1100);
  log.device_alloc(0, 24, 3000, GPUPEAK_KIND_LINEAR, 0, 30 * kMiB);
  log.driver_reading(0, 25, {.used = 1553 * kMiB});
  const DeviceNeed need = need_of(log, 60 * kMiB);
  CHECK(need.held_bytes == 60 * kMiB);
  CHECK(need.in_use_bytes == 32 * kMiB);
  CHECK(need.most_bytes == 563 * kMiB);
  CHECK(need.least_bytes == 532 * kMiB);
}

TEST_CASE("fit: a segment that is still to be shared out is as idle as one that is",
          "[collector]") {
  LogBuilder log = with_context();
  arena(log, 4);
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  // Before the arena has shared out its first block another thread's event comes in between.
  log.device_alloc(1, 11, 5000, GPUPEAK_KIND_LINEAR, 0, 2 * kMiB);
  log.device_free(1, 12, 5000);
  give(log, 0, 13, 1000, 4 * kMiB);
  log.driver_reading(0, 14, {.used = 1603 * kMiB});
  const DeviceNeed need = need_of(log, 102 * kMiB);
  CHECK(need.in_use_bytes == 4 * kMiB);
  CHECK(need.held_bytes == 102 * kMiB);
}

TEST_CASE("fit: what PyTorch's pool gives back is not needed, as long as its rules are known",
          "[collector]") {
  LogBuilder log = with_context();
  arena(log, 4);
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  give(log, 0, 11, 1000, 40 * kMiB);
  take(log, 12, 1000, 40 * kMiB);
  log.device_alloc(0, 13, 2000, GPUPEAK_KIND_LINEAR, 0, 80 * kMiB);
  SECTION("the first segment, when there is no room for the second") {
    give(log, 0, 14, 2000, 80 * kMiB);
    log.driver_reading(0, 15, {.used = 1623 * kMiB});
    const DeviceNeed need = need_of(log, 120 * kMiB);
    CHECK(need.most_bytes == 623 * kMiB);
    CHECK(enough_of(need) == 583 * kMiB);
    CHECK(need.no_simulation == "");
    CHECK(need.arena_requests == 2);
    CHECK(need.arena_repeated == 2);
    CHECK(fit_on(need, 583 * kMiB + kSameCardMargin).fit == Fit::kFits);
    CHECK(fit_on(need, 583 * kMiB + kSameCardMargin - 1).fit == Fit::kMayFit);
  }
  SECTION("the driver may have had all along what the next reading shows") {
    give(log, 0, 14, 2000, 80 * kMiB);
    log.driver_reading(0, 15, {.used = 1635 * kMiB});
    CHECK(enough_of(need_of(log, 120 * kMiB)) == 595 * kMiB);
  }
  SECTION("what is more than the driver takes is another process's, whose start is not known") {
    give(log, 0, 14, 2000, 80 * kMiB);
    log.driver_reading(0, 15, {.used = 1653 * kMiB});
    CHECK(enough_of(need_of(log, 120 * kMiB)) == 1613 * kMiB);
  }
  SECTION("a library's block needs room at once: 613 MiB would do, and 640 would not") {
    give(log, 0, 14, 2000, 80 * kMiB);
    take(log, 15, 2000, 80 * kMiB);
    log.device_alloc(0, 16, 3000, GPUPEAK_KIND_LINEAR, 0, 30 * kMiB);
    log.driver_reading(0, 17, {.used = 1653 * kMiB});
    CHECK(enough_of(need_of(log, 150 * kMiB)) == 653 * kMiB);
  }
  SECTION("nothing is simulated by other rules than the run's") {
    give(log, 0, 14, 2001, 79 * kMiB);
    log.driver_reading(0, 15, {.used = 1623 * kMiB});
    const DeviceNeed need = need_of(log, 120 * kMiB);
    CHECK(need.fails.empty());
    CHECK(need.no_simulation != "");
    CHECK(need.arena_repeated == 1);
    CHECK(fit_on(need, 623 * kMiB + kSameCardMargin - 1).fit == Fit::kMayFit);
  }
  SECTION("nor where another pool shares out memory of the device") {
    give(log, 0, 14, 2000, 80 * kMiB);
    const uint32_t name = log.string("ONNX Runtime, Cuda");
    log.event(0, 15, GPUPEAK_REC_ARENA, Fields().u(2).u(0).u(name).u(0).u(0).s("").u(1));
    log.device_alloc(0, 16, 3000, GPUPEAK_KIND_LINEAR, 0, 2 * kMiB);
    log.event(0, 17, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(2).u(3000 * kMiB).u(kMiB).u(0).u(0).u(0).u(0));
    log.driver_reading(0, 18, {.used = 1625 * kMiB});
    CHECK(need_of(log, 122 * kMiB).fails.empty());
  }
}

TEST_CASE("fit: where cuDNN plans convolutions the largest block is no part of the lower bound",
          "[collector]") {
  for (const bool with_cudnn : {false, true}) {
    LogBuilder log = with_context();
    if (with_cudnn) log.module("/usr/lib/libcudnn_engines_precompiled.so.9", "", 0, 0x1000, 0x1000);
    arena(log, 4);
    log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
    give(log, 0, 11, 1000, 4 * kMiB);
    give(log, 0, 12, 1010, 50 * kMiB);
    take(log, 13, 1010, 50 * kMiB);
    give(log, 0, 14, 1010, 6 * kMiB);
    log.driver_reading(0, 15, {.used = 1603 * kMiB});
    const DeviceNeed need = need_of(log, 100 * kMiB);
    CHECK(need.in_use_bytes == (with_cudnn ? 4 : 54) * kMiB);
    CHECK(need.least_bytes == (with_cudnn ? 504 : 554) * kMiB);
    CHECK(need.most_bytes == 603 * kMiB);
  }
}

TEST_CASE("fit: what another thread takes while the driver is asked is in the upper bound",
          "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  log.driver_reading(0, 11, {.used = 1703 * kMiB, .uncertain = true});
  const DeviceNeed need = need_of(log, 100 * kMiB);
  CHECK(need.most_bytes >= 700 * kMiB);
  CHECK(need.least_bytes == 600 * kMiB);
}

TEST_CASE("fit: a run that was cut short has no upper bound, a damaged log has none",
          "[collector]") {
  LogBuilder log = with_context();
  log.device_alloc(0, 10, 1000, GPUPEAK_KIND_LINEAR, 0, 100 * kMiB);
  log.driver_reading(0, 11, {.used = 1603 * kMiB});
  SECTION("exit code") {
    log.counters().exit_code = 1;
    const DeviceNeed need = need_of(log, 100 * kMiB);
    CHECK(!need.most_bytes);
    CHECK(need.least_bytes == 600 * kMiB);
    CHECK(fit_on(need, 4000 * kMiB).fit == Fit::kMayFit);
    CHECK(fit_on(need, 599 * kMiB).fit == Fit::kDoesNotFit);
  }
  SECTION("no end") {
    log.counters().ended = 0;
    log.counters().exit_kind = GPUPEAK_EXIT_UNKNOWN;
    CHECK(!need_of(log, 100 * kMiB).most_bytes);
  }
  SECTION("lost events") {
    log.counters().dropped_events = 1;
    const DeviceNeed need = need_of(log, 100 * kMiB);
    CHECK(!need.most_bytes);
    CHECK(!need.least_bytes);
    CHECK(fit_on(need, 4000 * kMiB).fit == Fit::kUnknown);
  }
  SECTION("the counters say otherwise") {
    CHECK(!need_of(log, 200 * kMiB).most_bytes);
  }
  SECTION("refused, and asked for nothing after that") {
    log.counters().exit_code = 1;
    log.device_event(
        0, 12, GPUPEAK_REC_DEVICE_FAILED,
        Fields().u(GPUPEAK_KIND_LINEAR).u(1).u(50 * kMiB).u(2).u(100 * kMiB).u(0).u(0).u(0).u(0));
    const DeviceNeed need = need_of(log, 100 * kMiB);
    CHECK(need.refused_bytes == 650 * kMiB);
    CHECK(fit_on(need, 649 * kMiB).fit == Fit::kDoesNotFit);
    CHECK(fit_on(need, 650 * kMiB).fit == Fit::kMayFit);
  }
}

TEST_CASE("fit: the three answers, to the byte", "[collector]") {
  const DeviceNeed need = bounds(1000 * kMiB, 1500 * kMiB, 400 * kMiB);
  const uint64_t fits = 1500 * kMiB + kSameCardMargin;
  CHECK(fit_on(need, fits).fit == Fit::kFits);
  CHECK(fit_on(need, fits + 5).left == 5);
  CHECK(fit_on(need, fits - 1).fit == Fit::kMayFit);
  CHECK(fit_on(need, fits - 7).missing == 7);
  CHECK(fit_on(need, 1000 * kMiB).fit == Fit::kMayFit);
  CHECK(fit_on(need, 1000 * kMiB - 3).fit == Fit::kDoesNotFit);
  CHECK(fit_on(need, 1000 * kMiB - 3).missing == 3);
  // Usable and missing are what is needed at least, also of a card that has more or less.
  const FitAnswer lacks = fit_into(fit_bounds(need, true), 900 * kMiB, 950 * kMiB);
  CHECK(lacks.fit == Fit::kDoesNotFit);
  CHECK(lacks.capacity + lacks.missing == 1000 * kMiB);
  CHECK(worse(Fit::kFits, Fit::kMayFit) == Fit::kMayFit);
  CHECK(worse(Fit::kDoesNotFit, Fit::kUnknown) == Fit::kDoesNotFit);
}

TEST_CASE("fit: between the bounds it fits where nothing fails down to the margin", "[collector]") {
  DeviceNeed need = bounds(1000 * kMiB, 1500 * kMiB, 400 * kMiB);
  need.fails = {{0, 1050 * kMiB}, {1200 * kMiB, 1210 * kMiB}, {1260 * kMiB, 1261 * kMiB}};
  const auto verdict = [&](uint64_t capacity) { return fit_on(need, capacity); };
  CHECK(verdict(1050 * kMiB + kSameCardMargin).fit == Fit::kFits);
  CHECK(verdict(1050 * kMiB + kSameCardMargin - 1).fit == Fit::kMayFit);
  CHECK(verdict(1050 * kMiB + kSameCardMargin - 1).missing == 1);
  CHECK(verdict(1200 * kMiB - 1).fit == Fit::kFits);
  CHECK(verdict(1200 * kMiB - 1).left == 150 * kMiB - kSameCardMargin - 1);
  CHECK(verdict(1200 * kMiB).fit == Fit::kMayFit);
  // The margin below reaches into the next failure, or over it.
  CHECK(verdict(1265 * kMiB).fit == Fit::kMayFit);
  CHECK(verdict(1261 * kMiB + kSameCardMargin - 1).fit == Fit::kMayFit);
  CHECK(verdict(1261 * kMiB + kSameCardMargin).fit == Fit::kFits);
  CHECK(enough(fit_bounds(need, true)) == 1261 * kMiB + kSameCardMargin);
  // A card whose total is known between two figures has to fit with each of them.
  const FitBounds of = fit_bounds(need, true);
  CHECK(fit_into(of, 1150 * kMiB, 1199 * kMiB).fit == Fit::kFits);
  CHECK(fit_into(of, 1150 * kMiB, 1200 * kMiB).fit == Fit::kMayFit);
  CHECK(fit_into(of, 990 * kMiB, 1199 * kMiB).fit == Fit::kMayFit);
  CHECK(joined({{5, 7}, {1, 3}, {3, 4}, {6, 9}, {2, 2}}).size() == 2);
}

TEST_CASE("fit: another kind of card has a larger margin above and nothing of the driver's below",
          "[collector]") {
  DeviceNeed need = bounds(1000 * kMiB, 1500 * kMiB, 400 * kMiB);
  CHECK(fit_bounds(need, false).least == 600 * kMiB);
  CHECK(fit_bounds(need, false).most == 1500 * kMiB + kSameCardMargin + kOtherCardMargin);
  // What it asked for in vain it needs on every card.
  need.refused_bytes = 90'000 * kMiB;
  CHECK(fit_bounds(need, false).least == 89'600 * kMiB);
  for (const char* card : {"A100 80GB", "H100 80GB"})
    CHECK(fit_on(need, find_card(card)).fit == Fit::kDoesNotFit);
  need.refused_bytes = {};
  need.beyond_bytes = 2000 * kMiB;
  need.local_memory_bytes = 10 * kMiB;
  CHECK(fit_bounds(need, false).margin == kSameCardMargin + 995 * kMiB + 70 * kMiB);
}

TEST_CASE("fit: processes together need no less than the largest and no more than all",
          "[collector]") {
  const std::vector<DeviceNeed> needs{bounds(100, 200, 10), bounds(150, 180, 20)};
  CHECK(together(needs).least_bytes == 150);
  CHECK(together(needs).most_bytes == 380);
  CHECK(together(needs).beyond_bytes == 30);
  CHECK(in_turn(needs).most_bytes == 200);
  CHECK(in_turn(needs).least_bytes == 150);
  // What one gives back the other one may take; of programs in turn each has all of it.
  std::vector<DeviceNeed> arenas = needs;
  arenas[0].fails = {{0, 160}};
  CHECK(enough_of(in_turn(arenas)) == 180);
  CHECK(together(arenas).fails.empty());
  CHECK(fit_on(together(arenas), 380 + kSameCardMargin - 1).fit == Fit::kMayFit);
  CHECK(enough_of(together({arenas[0]})) == 160);
  DeviceNeed unknown;
  unknown.no_most = {"why"};
  CHECK(!together({needs[0], unknown}).most_bytes);
  CHECK(together({needs[0], unknown}).least_bytes == 100);
  CHECK(together({needs[0], unknown}).no_most.size() == 1);
}

TEST_CASE("fit: every card has its figures and where they are from", "[collector]") {
  for (const Card& card : builtin_cards()) {
    INFO(card.name);
    CHECK(card.least_bytes > 4096 * kMiB);
    CHECK(card.least_bytes < card.most_bytes);
    const size_t size = card.name.rfind("GB");  // no more can be had than there is
    if (size != std::string::npos) {
      const size_t begin = card.name.find_last_not_of("0123456789", size - 1) + 1;
      CHECK(card.most_bytes <= std::stoull(card.name.substr(begin, size - begin)) << 30);
    }
    CHECK(card.note.find("20") != std::string::npos);
  }
  CHECK(find_card("rtx4090").name == "RTX 4090");
  CHECK(find_card("A10G").name == "A10, A10G");
  CHECK(find_card("NVIDIA H100 80GB HBM3").name == "H100 80GB");
  CHECK(is_card(find_card("A100 40GB"), "NVIDIA A100-SXM4-40GB"));
  CHECK(!is_card(find_card("A100 40GB"), "NVIDIA A100-SXM4-80GB"));
  CHECK(!is_card(find_card("RTX 4080"), "NVIDIA GeForce RTX 4080 Laptop GPU"));
  CHECK_THROWS_AS(find_card("Voodoo 2"), UsageError);
  for (const char* wrong :
       {"[[card]]\nname = \"X\"\n", "[[card]]\nname = \"X\"\ndevice = \"X\"\nusable_gib = 8\n",
        "[[card]]\nname = \"X\"\ndevice = \"X\"\nusable_gib = -8\nsource = \"s\"\ndate = "
        "2026-01-01\n",
        "[[card]]\nname = \"X\"\ndevice = \"X\"\nusable_gib = 8\nsource = \"s\"\ndate = \"now\"\n",
        "[[card]]\nspeed = 3\n", "[card]\n", "x = 1\n", "["}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_cards(wrong, "cards"), UsageError);
  }
}
