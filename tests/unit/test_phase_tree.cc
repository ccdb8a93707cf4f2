#include "catch.h"
#include "collector/replay/phase_tree.h"

using namespace gpupeak::collector;

namespace {

PhaseGauges device(uint64_t now, uint64_t max) {
  return {{now, 0}, {max, 0}};
}

}  // namespace

TEST_CASE("phase_tree: the peak of a phase includes what was live before it", "[collector]") {
  PhaseTree tree;
  const PhaseId outer = tree.push(false, 0, 1, 1, 10, device(100, 100));
  const PhaseId inner = tree.push(false, 0, 1, 2, 20, device(150, 180));
  tree.pop(false, 0, 30, device(120, 400));
  tree.pop(false, 0, 40, device(90, 120));
  tree.finish(50, device(90, 90));
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
  const PhaseId main = tree.push(true, 0, 0, 1, 0, {});
  CHECK(tree.innermost(7) == main);
  const PhaseId work = tree.push(false, 7, 1, 2, 1, {});
  CHECK(tree.innermost(7) == work);
  CHECK(tree.innermost(8) == main);
  CHECK(tree.phases()[work].parent == main);
  tree.end_thread(7, 5, {});
  CHECK(tree.innermost(7) == main);
  CHECK(tree.phases()[work].end_ticks == 5);
}

TEST_CASE("phase_tree: a phase opened again is counted and keeps its largest peak", "[collector]") {
  PhaseTree tree;
  const PhaseId first = tree.push(false, 0, 1, 1, 0, device(0, 0));
  tree.pop(false, 0, 1, device(0, 50));
  const PhaseId second = tree.push(false, 0, 1, 1, 2, device(0, 500));
  tree.pop(false, 0, 3, device(10, 20));
  CHECK(first == second);
  CHECK(tree.phases()[first].count == 2);
  CHECK(tree.phases()[first].peak_bytes[kDeviceSide] == 50);
  CHECK(tree.phases()[first].begin_ticks == 0);
  CHECK(tree.phases()[first].end_ticks == 3);
}

TEST_CASE("phase_tree: unbalanced ends are counted, open phases stay open", "[collector]") {
  PhaseTree tree;
  tree.pop(false, 0, 1, {});
  tree.pop(true, 0, 1, {});
  CHECK(tree.unbalanced_pops() == 2);
  const PhaseId open = tree.push(false, 0, 1, 1, 2, device(5, 5));
  tree.finish(3, device(6, 9));
  CHECK(tree.phases()[open].open == 1);
  CHECK(tree.phases()[open].peak_bytes[kDeviceSide] == 9);
}

TEST_CASE("phase_tree: a pop closes the innermost phase of its own source and instance",
          "[collector]") {
  PhaseTree tree;
  const PhaseId run = tree.push(false, 0, GPUPEAK_PHASE_ORT, 1, 0, device(0, 0), 1);
  const PhaseId range = tree.push(false, 0, GPUPEAK_PHASE_NVTX, 2, 1, device(10, 10));
  tree.pop(false, 0, 2, device(10, 10), GPUPEAK_PHASE_API);
  tree.pop(false, 0, 2, device(10, 10), GPUPEAK_PHASE_ORT, 2);
  CHECK(tree.unbalanced_pops() == 2);
  tree.pop(false, 0, 3, device(20, 70), GPUPEAK_PHASE_ORT, 1);
  CHECK(tree.innermost(0) == range);  // it outlives the phase that it began in
  tree.pop(false, 0, 4, device(30, 90), GPUPEAK_PHASE_NVTX);
  CHECK(tree.innermost(0) == 0);
  CHECK(tree.phases()[run].peak_bytes[kDeviceSide] == 70);
  CHECK(tree.phases()[run].end_bytes[kDeviceSide] == 20);
  CHECK(tree.phases()[range].peak_bytes[kDeviceSide] == 90);
  CHECK(tree.phases()[range].open == 0);
}

TEST_CASE("phase_tree: instances of one name are different phases", "[collector]") {
  PhaseTree tree;
  const PhaseId one = tree.push(false, 0, GPUPEAK_PHASE_ORT, 1, 0, {}, 1);
  tree.pop(false, 0, 1, {}, GPUPEAK_PHASE_ORT, 1);
  const PhaseId two = tree.push(false, 0, GPUPEAK_PHASE_ORT, 1, 2, {}, 2);
  CHECK(one != two);
  CHECK(tree.phases()[two].instance == 2);
}

TEST_CASE("phase_tree: ranges overlap freely and own no allocations", "[collector]") {
  PhaseTree tree;
  const PhaseId main = tree.push(true, 0, GPUPEAK_PHASE_AUTO, 1, 0, device(0, 0));
  const PhaseId a = tree.begin_range(7, GPUPEAK_PHASE_NVTX, 2, 1, device(10, 10));
  const PhaseId b = tree.begin_range(8, GPUPEAK_PHASE_NVTX, 3, 2, device(20, 25));
  CHECK(tree.innermost(5) == main);
  tree.end_range(7, 3, device(30, 80));
  tree.end_range(8, 4, device(40, 60));
  tree.end_range(8, 5, device(40, 40));
  CHECK(tree.unbalanced_pops() == 1);
  tree.finish(6, device(40, 500));
  CHECK(tree.phases()[a].parent == main);
  CHECK(tree.phases()[a].start_bytes[kDeviceSide] == 10);
  CHECK(tree.phases()[a].peak_bytes[kDeviceSide] == 80);
  CHECK(tree.phases()[a].end_bytes[kDeviceSide] == 30);
  CHECK(tree.phases()[b].peak_bytes[kDeviceSide] == 80);
  CHECK(tree.phases()[b].end_bytes[kDeviceSide] == 40);
  CHECK(tree.phases()[main].peak_bytes[kDeviceSide] == 500);
}
