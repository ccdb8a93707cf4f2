// Curves through runs with different values of a parameter, and what they predict.
#include <cmath>
#include <random>

#include "catch.h"
#include "collector/summary/sweep.h"
#include "collector/text/error.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

SweepRun run_at(double x, double most, SweepStatus status = SweepStatus::kDone) {
  SweepRun run;
  run.values = {number_text(x)};
  run.status = status;
  if (status != SweepStatus::kDone) return run;
  run.peak_bytes = static_cast<uint64_t>(most);
  run.least_bytes = run.most_bytes = static_cast<uint64_t>(most);
  return run;
}

std::vector<const SweepRun*> pointers(const std::vector<SweepRun>& runs) {
  std::vector<const SweepRun*> all;
  for (const SweepRun& run : runs) all.push_back(&run);
  return all;
}

SweepCapacity of(double bytes) {
  const auto whole = static_cast<uint64_t>(bytes);
  return {whole, whole, "X"};
}

SweepPrediction predict(const std::vector<SweepRun>& runs, double step, double capacity) {
  return predict(pointers(runs), step, of(capacity));
}

}  // namespace

TEST_CASE("curve: a line and a parabola are found exactly", "[collector]") {
  std::vector<CurvePoint> line, parabola;
  for (const double x : {1.0, 2.0, 4.0, 8.0, 16.0}) {
    line.push_back({x, 300 * kMiB + 37 * kMiB * x});
    parabola.push_back({x, 300 * kMiB + 20 * kMiB * x + 3 * kMiB * x * x});
  }
  const Curve a = *Curve::through(line), b = *Curve::through(parabola);
  CHECK(!a.is_parabola());
  CHECK(a.constant() == Approx(300 * kMiB));
  CHECK(a.slope() == Approx(37 * kMiB));
  CHECK(a.upper(100) == Approx(4000 * kMiB));
  CHECK(b.is_parabola());
  CHECK(b.square() == Approx(3 * kMiB));
  CHECK(b.slope() == Approx(20 * kMiB));
  CHECK(b.at(100) == Approx(32300 * kMiB));
}

TEST_CASE("curve: of two points nobody knows how far off it is, of one there is none",
          "[collector]") {
  CHECK(!Curve::through({{1, 5}}));
  CHECK(!Curve::through({{1, 5}, {1, 6}}));
  const Curve two = *Curve::through({{1, 5}, {2, 6}});
  CHECK(two.at(3) == Approx(7));
  CHECK(std::isinf(two.upper(3)));
}

TEST_CASE("curve: the upper end holds for what is off a line by rounding, far beyond the points",
          "[collector]") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> rounding(0, 20 * kMiB);
  int above = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<CurvePoint> points;
    for (int x = 1; x <= 6; ++x) points.push_back({x * 1.0, 100 * kMiB * x + rounding(random)});
    const Curve curve = *Curve::through(points);
    const double x = 7 + trial % 20;
    above += 100 * kMiB * x + rounding(random) > curve.upper(x);
  }
  CHECK(above <= 10);
}

TEST_CASE("curve: a parabola through few points is not taken for a line", "[collector]") {
  for (const size_t count : {3u, 4u, 5u}) {
    std::vector<CurvePoint> points;
    for (size_t i = 1; i <= count; ++i) {
      const auto x = static_cast<double>(i);
      points.push_back({x, 200 * kMiB + 5 * kMiB * x + 4 * kMiB * x * x});
    }
    const Curve curve = *Curve::through(points);
    for (const double x : {6.0, 8.0, 10.0}) {
      INFO(count << " points, at " << x);
      CHECK(curve.upper(x) >= (200 + 5 * x + 4 * x * x) * kMiB * 0.999999);
    }
  }
}

TEST_CASE("sweep: the largest value is the last whose upper end fits", "[collector]") {
  const std::vector<SweepRun> runs{run_at(4, 1040 * kMiB), run_at(8, 1080 * kMiB),
                                   run_at(12, 1120 * kMiB)};
  CHECK(predict(runs, 4, 1400 * kMiB).largest == 40);
  CHECK(predict(runs, 4, 1439 * kMiB).largest == 40);
  CHECK(!predict(runs, 4, 1439 * kMiB).was_run);
  CHECK(predict(runs, 4, 1125 * kMiB).largest == 12);
  CHECK(predict(runs, 4, 1125 * kMiB).was_run);
  CHECK(predict(runs, 4, 1110 * kMiB).largest == 8);
  CHECK(predict(runs, 4, 1110 * kMiB).next_was_run);
  CHECK(!predict(runs, 4, 1000 * kMiB).largest);
  CHECK(!predict(runs, 0, 1400 * kMiB).largest);
}

TEST_CASE("sweep: what a simulated pool needs beyond the lower bound is taken from the worst run",
          "[collector]") {
  // 1000 MiB + 100 × n at least; 4, 12, 6 and 10 % more: such scatter says little of n = 9.
  std::vector<SweepRun> runs;
  const double parts[] = {1.04, 1.12, 1.06, 1.10};
  for (int i = 0; i < 4; ++i) {
    const double least = 1000 * kMiB + 100 * kMiB * (i + 1);
    runs.push_back(run_at(i + 1, least * parts[i]));
    runs.back().least_bytes = static_cast<uint64_t>(least);
  }
  // 15 % more is counted with: 1.15 × 1700 = 1955 MiB.
  CHECK(predict(runs, 1, 1956 * kMiB).largest == 4.0);
  for (SweepRun& run : runs) run.unsure = {{0, *run.most_bytes}};
  CHECK(predict(runs, 1, 1956 * kMiB).largest == 7.0);
  CHECK(predict(runs, 1, 1954 * kMiB).largest == 6.0);
  // One that was not simulated may have much more idle than the others.
  runs[2].unsure.clear();
  CHECK(predict(runs, 1, 1956 * kMiB).largest == 4.0);
  // A value that was run counts as it was: where the simulation goes well, or not.
  const uint64_t mib = 1 << 20;
  runs[2].unsure = {{0, 1350 * mib}, {1370 * mib, *runs[2].most_bytes}};
  CHECK(predict({runs[0], runs[2]}, 1, 1360 * kMiB).largest == 3.0);
  CHECK(predict({runs[0], runs[2]}, 1, 1371 * kMiB).largest == 1.0);
}

TEST_CASE("sweep: nothing is predicted beyond two runs, nor where it does not grow",
          "[collector]") {
  const std::vector<SweepRun> two{run_at(4, 1040), run_at(8, 1080)};
  CHECK(predict(two, 4, 5000).largest == 8);
  CHECK(!predict(two, 4, 5000).why.empty());
  const std::vector<SweepRun> flat{run_at(1, 1000), run_at(2, 1000), run_at(3, 1000)};
  CHECK(predict(flat, 1, 5000).beyond);
  CHECK(predict(flat, 1, 5000).largest == 3);
  // A slope that is no more than what the points are off it by.
  const std::vector<SweepRun> rounded{run_at(8, 1000 * kMiB), run_at(16, 1003 * kMiB),
                                      run_at(24, 1001 * kMiB), run_at(32, 1004 * kMiB)};
  CHECK(predict(rounded, 8, 5000 * kMiB).beyond);
  CHECK(predict(rounded, 8, 5000 * kMiB).largest == 32);
}

TEST_CASE("sweep: what ran out of memory is a limit of no larger card", "[collector]") {
  std::vector<SweepRun> runs{run_at(4, 1040 * kMiB), run_at(8, 1080 * kMiB),
                             run_at(12, 1120 * kMiB), run_at(16, 0, SweepStatus::kOutOfMemory)};
  for (SweepRun& run : runs) run.card_bytes = 1150u << 20;
  CHECK(predict(runs, 4, 1150 * kMiB).largest == 12);
  CHECK(predict(runs, 4, 1150 * kMiB).next_was_run);
  CHECK(predict(runs, 4, 2000 * kMiB).largest == 100);
  // A run that failed for another reason says nothing.
  runs[3].status = SweepStatus::kFailed;
  CHECK(predict(runs, 4, 1200 * kMiB).largest == 20);
}

TEST_CASE("sweep: values, combinations and commands", "[collector]") {
  CHECK(parse_parameter("batch=1,2,4").values == std::vector<std::string>{"1", "2", "4"});
  CHECK(parse_parameter("batch=1,2,4").step == 1);
  CHECK(parse_parameter("batch=8:32:8").values == std::vector<std::string>{"8", "16", "24", "32"});
  CHECK(parse_parameter("x=1:3").values.size() == 3);
  CHECK(parse_parameter("lr=0.1:0.3:0.1").values.back() == "0.3");
  CHECK(parse_parameter("type=fp16,fp32").step == 0);
  for (const char* wrong :
       {"batch", "batch=", "=1", "b=1,,2", "b=1,1", "b=4:1", "b=1:4:0", "b=1:1000000", "a{b=1"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_parameter(wrong), UsageError);
  }
  const std::vector<SweepParameter> both{parse_parameter("n=1,2"), parse_parameter("t=a,b,c")};
  CHECK(combinations(both).size() == 6);
  CHECK(combinations(both)[1] == SweepValues{"1", "b"});
  CHECK(command_for({"p", "--n={n}", "{t}{t}"}, both, {"2", "a"}) ==
        std::vector<std::string>{"p", "--n=2", "aa"});
  CHECK_THROWS_AS(command_for({"p", "{n}"}, both, {"2", "a"}), UsageError);
  CHECK(is_no_smaller({"4", "a"}, {"2", "a"}));
  CHECK(!is_no_smaller({"4", "a"}, {"2", "b"}));
  CHECK(!is_no_smaller({"10"}, {"9.5e1"}));
}
