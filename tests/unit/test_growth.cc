// What grows at each step of a program without phases, from logs made by hand.
#include <string>
#include <vector>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/summary/gate.h"
#include "collector/summary/run_text.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kWeights = 900 * kMiB;

/// A program on one device, or with heap blocks alone. Each number of a site is a call of its own.
class Program {
 public:
  explicit Program(bool on_host = false) : on_host_(on_host) {
    if (!on_host) log_.device(0, 80'000 * kMiB, "", "NVIDIA H100");
  }

  /// Another way to name a site: below a line of a Python program.
  void run_python() {
    log_.python_frame(log_.string("train"), log_.string("train.py"), 7);
    stacks_ = {log_.node(log_.node(0, GPUPEAK_PYTHON_IP + 1), 0x1000)};
  }
  uint64_t take(uint32_t site, uint64_t bytes) {
    while (stacks_.size() <= site) stacks_.push_back(log_.node(0, 0x1000 + 0x100 * stacks_.size()));
    ++id_;
    if (on_host_)
      log_.alloc(0, time_ += 1000, id_ << 32, bytes, stacks_[site]);
    else
      log_.device_alloc(0, time_ += 1000, id_, GPUPEAK_KIND_VMM, 0, bytes, 0, stacks_[site]);
    return id_;
  }
  void give(uint64_t id) {
    if (on_host_)
      log_.free(0, time_ += 1000, id << 32);
    else
      log_.device_free(0, time_ += 1000, id);
  }
  void use_and_give(uint32_t site, uint64_t bytes) { give(take(site, bytes)); }
  /// From here on the log has a sample of the heap's blocks.
  void sample(uint64_t mean_bytes) {
    log_.event(0, time_ += 1000, GPUPEAK_REC_SAMPLING, Fields().u(mean_bytes));
  }

  Summary summary() {
    const TemporaryFile file;
    return analyze(log_.save(file.path()), Options());
  }
  std::vector<GrowthSummary> growth() { return summary().growth; }

 private:
  const bool on_host_;
  LogBuilder log_;
  std::vector<uint32_t> stacks_;
  uint64_t time_ = 1000, id_ = 0;
};

}  // namespace

TEST_CASE("growth: a block that stays of each step grows, however the program ends",
          "[collector]") {
  const uint64_t steps = GENERATE(10, 11, 60, 1000);
  const uint64_t each = GENERATE(1, 20) * 10 * kMiB;
  const bool gives_back = GENERATE(false, true), on_host = GENERATE(false, true);
  Program program(on_host);
  program.take(0, kWeights);
  std::vector<uint64_t> kept;
  for (uint64_t step = 0; step < steps; ++step) {
    program.use_and_give(1, 30 * kMiB);
    kept.push_back(program.take(2, each));
    program.use_and_give(3, 50 * kMiB);
  }
  if (gives_back) {
    for (const uint64_t id : kept) program.give(id);
  }
  const std::vector<GrowthSummary> growth = program.growth();
  REQUIRE(growth.size() == 1);
  CHECK(growth[0].phase == "step");
  CHECK(growth[0].side == (on_host ? "host" : "device"));
  CHECK(growth[0].bytes_each() == each);
  CHECK(growth[0].same_each_time);
  CHECK(growth[0].blocks_each == 1);
  CHECK(growth[0].steps() <= steps);
  CHECK(growth[0].steps() >= steps - 1 - steps / 4);
}

TEST_CASE("growth: a limit on it is broken, and names the site", "[collector]") {
  Program program;
  for (int step = 0; step < 20; ++step) {
    program.take(0, 8 * kMiB);
    program.use_and_give(1, 5 * kMiB);
  }
  const Summary summary = program.summary();
  const auto check = [&](const std::string& limit) {
    return check_gates({parse_max("device.step_growth_bytes=" + limit)}, summary, nullptr).at(0);
  };
  CHECK(check("8MiB").passed);
  CHECK_FALSE(check("0").passed);
  REQUIRE(check("0").reasons.size() == 1);
  CHECK(check("0").reasons[0].starts_with("+8.00 MiB at each step, 20 times, 160 MiB in all: "));
}

TEST_CASE("growth: several blocks of a step by one call are of one step", "[collector]") {
  Program program(GENERATE(false, true));
  program.take(0, kWeights);
  for (int step = 0; step < 30; ++step) {
    program.take(1, 8 * kMiB);
    const uint64_t not_kept = program.take(2, 8 * kMiB);
    for (int layer = 0; layer < 7; ++layer) {
      program.use_and_give(3, 20 * kMiB);
      program.take(2, 8 * kMiB);
    }
    program.give(not_kept);
  }
  const std::vector<GrowthSummary> growth = program.growth();
  REQUIRE(growth.size() == 2);
  CHECK(growth[0].blocks_each == 7);
  CHECK(growth[0].bytes_each() == 56 * kMiB);
  CHECK(growth[0].steps() >= 28);
  const std::string text = steps_text(growth, growth[0].device, 80'000 * kMiB, 4000 * kMiB, {});
  CHECK(text.starts_with("it grows by 64.0 MiB a step, "));
  CHECK(text.ends_with(", none freed; the card has room for 1 187 more at most"));
}

TEST_CASE("growth: a step is what most calls come as often as, also where it keeps now and then",
          "[collector]") {
  Program program(GENERATE(false, true));
  program.take(0, kWeights);
  for (int step = 0; step < 60; ++step) {
    for (uint32_t call = 2; call < 6; ++call) program.use_and_give(call, 30 * kMiB);
    for (int layer = 0; layer < 8; ++layer) program.use_and_give(6, 20 * kMiB);
    for (int turn = 0; turn < 31; ++turn) program.use_and_give(7, 10 * kMiB);
    if (step % 2 == 0) program.take(1, 8 * kMiB);
  }
  const std::vector<GrowthSummary> growth = program.growth();
  REQUIRE(growth.size() == 1);
  CHECK(growth[0].steps() == (growth[0].device ? 60 : 58));  // on the host from the second on
  CHECK(growth[0].bytes_each() == 4 * kMiB);
}

TEST_CASE("growth: what grows at each instance of a phase is said as a whole and by its parts",
          "[collector]") {
  const auto row = [](const char* phase, const char* title, uint64_t each) {
    GrowthSummary growth;
    growth.phase = phase;
    growth.title = title;
    growth.device = 0;
    growth.first = 1;
    growth.last = 61;
    growth.grown_bytes = each * 60;
    growth.same_each_time = true;
    return growth;
  };
  std::vector<GrowthSummary> growth{row("train", "take ← keep leak.py:11", 20 * kMiB),
                                    row("epoch", "take ← log leak.py:30", 7 * kMiB),
                                    row("train", "main leak.py:16", 3 * kMiB)};
  CHECK(steps_text(growth, 0, 0, 2000 * kMiB, {}) ==
        "it grows by 23.0 MiB at each train, 60 times: 20.0 MiB by keep leak.py:11 (take), "
        "3.00 MiB by main leak.py:16");
  CHECK(steps_text(growth, 1, 0, 2000 * kMiB, {}).empty());
  CHECK(steps_text(growth, std::nullopt, 0, 2000 * kMiB, {}).empty());
  CHECK(steps_text(growth, 0, 0, 20'000 * kMiB, {}).empty());  // too little of what is held
  growth.resize(1);
  growth[0].grown_bytes = 59;  // less than a byte each
  CHECK(steps_text(growth, 0, 100, 10, {}).empty());
}

TEST_CASE("growth: gradients of layers, which no line of a Python program asks for, are no steps",
          "[collector]") {
  Program program;
  program.run_python();
  program.take(4, kWeights);
  const uint32_t kept_by = GENERATE(0, 2);
  for (int layer = 0; layer < 30; ++layer) {
    program.use_and_give(1, 30 * kMiB);
    program.take(kept_by, 16 * kMiB);
    program.use_and_give(3, 50 * kMiB);
  }
  CHECK(program.growth().size() == (kept_by == 0 ? 1 : 0));
}

TEST_CASE("growth: how many steps came is known of a sample, with its error", "[collector]") {
  constexpr uint64_t kEach = 8000, kMean = 64 << 10;
  const bool goes_on = GENERATE(false, true);
  Program program(true);
  for (int step = 0; step < 60; ++step) {
    program.use_and_give(1, kEach);
    program.take(2, kEach);
  }
  program.sample(kMean);
  for (int block = 0; block < 200; ++block) {
    program.use_and_give(1, kEach);
    if (goes_on) program.take(2, kEach);
  }
  const std::vector<GrowthSummary> growth = program.growth();
  REQUIRE(growth.size() == (goes_on ? 1 : 0));
  if (!goes_on) return;
  CHECK(growth[0].bytes_each() == kEach);
  // A block of the sample stands for 8.7 blocks.
  CHECK(growth[0].steps() > 1750);
  CHECK(growth[0].steps() < 1850);
  REQUIRE(growth[0].error_bytes.has_value());
  CHECK(*growth[0].error_bytes > 25 * kMean);
  CHECK(*growth[0].error_bytes < 35 * kMean);
  CHECK(growth_text(growth[0], {}).starts_with("about +7.81 KiB at each step, 1 7"));
}

TEST_CASE("growth: what comes by no step of the program's is none of the host's", "[collector]") {
  const bool has_steps = GENERATE(false, true);
  Program program(true);
  for (int slab = 0; slab < 40; ++slab) {
    program.take(0, 64 << 10);
    for (int object = 0; object < (has_steps ? 4 : 1000 + slab); ++object)
      program.use_and_give(1, 100);
  }
  CHECK(program.growth().size() == (has_steps ? 1 : 0));
}

TEST_CASE("growth: what is loaded, fills up or falls is none", "[collector]") {
  Program program(GENERATE(false, true));
  SECTION("73 tensors, then steps") {
    for (uint64_t i = 0; i < 73; ++i) {
      program.use_and_give(1, 4 * kMiB);
      program.take(0, (8 + i % 5) * kMiB);
    }
    const int steps = GENERATE(3, 50);
    for (int step = 0; step < steps; ++step) {
      for (uint32_t call = 2; call < 12; ++call) program.use_and_give(call, 5 * kMiB);
    }
  }
  SECTION("73 tensors, and nothing else") {
    for (uint64_t i = 0; i < 73; ++i) program.take(0, 8 * kMiB);
  }
  SECTION("a cache that fills") {
    for (int step = 0; step < 100; ++step) {
      program.use_and_give(1, 5 * kMiB);
      if (step < 40) program.take(0, 8 * kMiB);
    }
  }
  SECTION("a cache that fills more and more slowly") {
    for (int step = 1, next = 1; step < 2000; ++step) {
      program.use_and_give(1, 5 * kMiB);
      if (step == next) {
        program.take(0, 8 * kMiB);
        next = next * 6 / 5 + 1;
      }
    }
  }
  SECTION("rise and fall") {
    for (int step = 0; step < 7; ++step) {
      std::vector<uint64_t> layers;
      for (int layer = 0; layer < 20; ++layer) {
        program.use_and_give(1, 5 * kMiB);
        layers.push_back(program.take(0, 8 * kMiB));
      }
      for (const uint64_t layer : layers) {
        program.use_and_give(2, 5 * kMiB);
        program.give(layer);
      }
    }
  }
  SECTION("a list that is replaced at each step") {
    std::vector<uint64_t> kept;
    for (int step = 0; step < 60; ++step) {
      program.use_and_give(1, 5 * kMiB);
      kept.push_back(program.take(0, 8 * kMiB));
      if (kept.size() > 10) {
        program.give(kept.front());
        kept.erase(kept.begin());
      }
    }
  }
  CHECK(program.growth().empty());
}
