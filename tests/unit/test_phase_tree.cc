#include <algorithm>
#include <random>
#include <vector>

#include "catch.h"
#include "collector/replay/phase_tree.h"

using namespace gpupeak::collector;

namespace {

PhaseMoment device(uint64_t ticks, uint64_t now, uint64_t max) {
  return {ticks, {now, 0}, {max, 0}};
}
PhaseMoment nothing(uint64_t ticks) {
  return device(ticks, 0, 0);
}
constexpr PhaseTrack kThread = of_thread(0);

}  // namespace

TEST_CASE("phase_tree: the peak of a phase includes what was live before it", "[collector]") {
  PhaseTree tree;
  const PhaseId outer = tree.push(kThread, {1, 1, 0}, device(10, 100, 100));
  const PhaseId inner = tree.push(kThread, {2, 1, 0}, device(20, 150, 180));
  tree.pop(kThread, {0, GPUPEAK_PHASE_AUTO, 0}, device(30, 120, 400));
  tree.pop(kThread, {0, GPUPEAK_PHASE_AUTO, 0}, device(40, 90, 120));
  tree.finish(device(50, 90, 90));
  const Phase& a = tree.phases()[outer];
  const Phase& b = tree.phases()[inner];
  CHECK(a.start_bytes[kDeviceSide] == 100);
  CHECK(a.peak_bytes[kDeviceSide] == 400);
  CHECK(a.end_bytes[kDeviceSide] == 90);
  CHECK(b.parent == outer);
  CHECK(b.start_bytes[kDeviceSide] == 150);
  CHECK(b.peak_bytes[kDeviceSide] == 400);
  CHECK(b.end_bytes[kDeviceSide] == 120);
  CHECK(b.open == 0);
}

TEST_CASE("phase_tree: thread phases lie on top of the process's", "[collector]") {
  PhaseTree tree;
  const PhaseId main = tree.push(kOfProcess, {1, 0, 0}, nothing(0));
  CHECK(tree.innermost(7) == main);
  const PhaseId work = tree.push(of_thread(7), {2, 1, 0}, nothing(1));
  CHECK(tree.innermost(7) == work);
  CHECK(tree.innermost(8) == main);
  CHECK(tree.phases()[work].parent == main);
  tree.end_thread(7, nothing(5));
  CHECK(tree.innermost(7) == main);
  CHECK(tree.phases()[work].end_ticks == 5);
}

TEST_CASE("phase_tree: a phase opened again is counted and keeps its largest peak", "[collector]") {
  PhaseTree tree;
  const PhaseId first = tree.push(kThread, {1, 1, 0}, device(0, 0, 0));
  tree.pop(kThread, {0, GPUPEAK_PHASE_AUTO, 0}, device(1, 0, 50));
  const PhaseId second = tree.push(kThread, {1, 1, 0}, device(2, 0, 500));
  tree.pop(kThread, {0, GPUPEAK_PHASE_AUTO, 0}, device(3, 10, 20));
  CHECK(first == second);
  CHECK(tree.phases()[first].count == 2);
  CHECK(tree.phases()[first].peak_bytes[kDeviceSide] == 50);
  CHECK(tree.phases()[first].begin_ticks == 0);
  CHECK(tree.phases()[first].end_ticks == 3);
}

TEST_CASE("phase_tree: unbalanced ends are counted, open phases stay open", "[collector]") {
  PhaseTree tree;
  tree.pop(kThread, {0, GPUPEAK_PHASE_AUTO, 0}, nothing(1));
  tree.pop(kOfProcess, {0, GPUPEAK_PHASE_AUTO, 0}, nothing(1));
  CHECK(tree.unbalanced_pops() == 2);
  const PhaseId open = tree.push(kThread, {1, 1, 0}, device(2, 5, 5));
  tree.finish(device(3, 6, 9));
  CHECK(tree.phases()[open].open == 1);
  CHECK(tree.phases()[open].peak_bytes[kDeviceSide] == 9);
}

TEST_CASE("phase_tree: a pop closes the innermost phase of its own source and instance",
          "[collector]") {
  PhaseTree tree;
  const PhaseId run = tree.push(kThread, {1, GPUPEAK_PHASE_ORT, 1}, device(0, 0, 0));
  const PhaseId range = tree.push(kThread, {2, GPUPEAK_PHASE_NVTX, 0}, device(1, 10, 10));
  tree.pop(kThread, {0, GPUPEAK_PHASE_API, 0}, device(2, 10, 10));
  tree.pop(kThread, {0, GPUPEAK_PHASE_ORT, 2}, device(2, 10, 10));
  CHECK(tree.unbalanced_pops() == 2);
  tree.pop(kThread, {0, GPUPEAK_PHASE_ORT, 1}, device(3, 20, 70));
  CHECK(tree.innermost(0) == range);  // it outlives the phase that it began in
  tree.pop(kThread, {0, GPUPEAK_PHASE_NVTX, 0}, device(4, 30, 90));
  CHECK(tree.innermost(0) == 0);
  CHECK(tree.phases()[run].peak_bytes[kDeviceSide] == 70);
  CHECK(tree.phases()[run].end_bytes[kDeviceSide] == 20);
  CHECK(tree.phases()[range].peak_bytes[kDeviceSide] == 90);
  CHECK(tree.phases()[range].open == 0);
}

TEST_CASE("phase_tree: instances of one name are different phases", "[collector]") {
  PhaseTree tree;
  const PhaseId one = tree.push(kThread, {1, GPUPEAK_PHASE_ORT, 1}, nothing(0));
  tree.pop(kThread, {0, GPUPEAK_PHASE_ORT, 1}, nothing(1));
  const PhaseId two = tree.push(kThread, {1, GPUPEAK_PHASE_ORT, 2}, nothing(2));
  CHECK(one != two);
  CHECK(tree.phases()[two].instance == 2);
}

TEST_CASE("phase_tree: ranges overlap freely and own no allocations", "[collector]") {
  PhaseTree tree;
  const PhaseId main = tree.push(kOfProcess, {1, GPUPEAK_PHASE_AUTO, 0}, device(0, 0, 0));
  const PhaseId a = tree.begin_range(7, {2, GPUPEAK_PHASE_NVTX, 0}, device(1, 10, 10));
  const PhaseId b = tree.begin_range(8, {3, GPUPEAK_PHASE_NVTX, 0}, device(2, 20, 25));
  CHECK(tree.innermost(5) == main);
  tree.end_range(7, device(3, 30, 80));
  tree.end_range(8, device(4, 40, 60));
  tree.end_range(8, device(5, 40, 40));
  CHECK(tree.unbalanced_pops() == 1);
  tree.finish(device(6, 40, 500));
  CHECK(tree.phases()[a].parent == main);
  CHECK(tree.phases()[a].start_bytes[kDeviceSide] == 10);
  CHECK(tree.phases()[a].peak_bytes[kDeviceSide] == 80);
  CHECK(tree.phases()[a].end_bytes[kDeviceSide] == 30);
  CHECK(tree.phases()[b].peak_bytes[kDeviceSide] == 80);
  CHECK(tree.phases()[b].end_bytes[kDeviceSide] == 40);
  CHECK(tree.phases()[main].peak_bytes[kDeviceSide] == 500);
}

TEST_CASE("phase_tree: what was largest since a point is found as by looking at all",
          "[collector]") {
  std::mt19937 random(1);
  for (const uint32_t values : {1U, 5U, 1000U}) {
    MaximumSince maxima;
    std::vector<uint64_t> all;
    CHECK(maxima.since(0) == 0);
    for (int i = 0; i < 300; ++i) {
      CHECK(maxima.now() == all.size());
      all.push_back(random() % values);
      maxima.add(all.back());
      const size_t point = random() % (all.size() + 1);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(point);
      CHECK(maxima.since(point) == (first == all.end() ? 0 : *std::max_element(first, all.end())));
    }
  }
}

TEST_CASE(
    "phase_tree: ranges end by their number, in any order, with the peak while they were open",
    "[collector]") {
  PhaseTree tree;
  const PhaseId first = tree.begin_range(1, {1, 1, 0}, device(10, 10, 10));
  const PhaseId second = tree.begin_range(2, {2, 1, 0}, device(20, 20, 50));
  const PhaseId same = tree.begin_range(2, {3, 1, 0}, device(30, 30, 40));
  tree.end_range(1, device(40, 5, 30));
  tree.end_range(2, device(50, 5, 35));
  tree.end_range(2, device(60, 5, 60));
  tree.end_range(2, device(70, 5, 70));
  const PhaseId left = tree.begin_range(3, {4, 1, 0}, device(80, 5, 90));
  tree.finish(device(90, 5, 6));
  CHECK(tree.unbalanced_pops() == 1);
  const auto peak = [&](PhaseId id) { return tree.phases()[id].peak_bytes[kDeviceSide]; };
  CHECK(peak(first) == 50);
  CHECK(peak(same) == 35);
  CHECK(peak(second) == 60);
  CHECK(peak(left) == 6);
  CHECK(tree.phases()[left].open == 1);
}

TEST_CASE("phase_tree: many that are open end by what their end says, as few do", "[collector]") {
  for (const uint64_t count : {UINT64_C(10), UINT64_C(300)}) {
    PhaseTree tree;
    uint64_t time = 0;
    for (uint64_t turn = 0; turn < 3; ++turn) {
      std::vector<PhaseId> opened;
      for (uint64_t i = 1; i <= count; ++i) {
        opened.push_back(
            tree.push(kThread, {static_cast<uint32_t>(i), GPUPEAK_PHASE_ORT, i}, nothing(++time)));
      }
      for (uint64_t i = 1; i <= count; ++i) {  // the outermost first
        tree.pop(kThread, {0, GPUPEAK_PHASE_ORT, i}, nothing(++time));
        CHECK(tree.phases()[opened[i - 1]].end_ticks == time);
        CHECK(tree.innermost(0) == (i == count ? 0 : opened.back()));
      }
    }
    CHECK(tree.unbalanced_pops() == 0);
    CHECK(tree.phases().size() == 1 + count);
    CHECK(tree.phases()[1].count == 3);
  }
}

TEST_CASE("phase_tree: a name is known among many open ones until its last has ended",
          "[collector]") {
  for (const uint64_t count : {UINT64_C(3), UINT64_C(100)}) {
    PhaseTree tree;
    for (uint64_t i = 0; i < count; ++i) tree.push(kThread, {7, GPUPEAK_PHASE_API, 0}, nothing(i));
    tree.set_rule(0, {7}, nothing(count));  // the program has said so itself
    CHECK(tree.phases().size() == 1 + count);
    for (uint64_t i = 0; i < count; ++i)
      tree.pop(kThread, {0, GPUPEAK_PHASE_API, 0}, nothing(count + i));
    tree.set_rule(0, {7}, nothing(3 * count));
    CHECK(tree.phases().size() == 2 + count);
  }
}
