#include "catch.h"
#include "collector/replay/phase_tree.h"

using namespace gpupeak::collector;

namespace {

/// One instance that retains and rises so much on the device, and so much on the host.
FoldRow instance(uint64_t number, int64_t retained, int64_t rise, int64_t host_rise = 0) {
  FoldRow row;
  row.first = row.last = number;
  row.count = 1;
  row.begin_ticks = number * 10;
  row.end_ticks = number * 10 + 5;
  row.open_ticks = 5;
  FoldSide& device = row.sides[kDeviceSide];
  device.start_bytes = 1000;
  device.peak_bytes = 1000 + static_cast<uint64_t>(rise);
  device.end_bytes = 1000 + static_cast<uint64_t>(retained);
  device.kept_bytes = device.least_retained = device.most_retained = retained;
  device.least_rise = device.most_rise = rise;
  device.alloc_count = 2;
  FoldSide& host = row.sides[kHostSide];
  host.least_rise = host.most_rise = host_rise;
  return row;
}

}  // namespace

TEST_CASE("phase_fold: instances that are alike share a row, odd ones have their own",
          "[collector]") {
  PhaseFold fold;
  fold.add(instance(1, 500, 900));
  for (uint64_t i = 2; i <= 100; ++i) fold.add(instance(i, i == 50 ? 64 : 0, 300));
  const std::vector<FoldRow> rows = fold.rows();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].last == 1);
  CHECK(rows[1].first == 2);
  CHECK(rows[1].last == 49);
  CHECK(rows[2].first == 50);
  CHECK(rows[2].last == 50);
  CHECK(rows[2].sides[kDeviceSide].kept_bytes == 64);
  CHECK(rows[3].first == 51);
  CHECK(rows[3].last == 100);
  CHECK(rows[3].count == 50);
  CHECK(rows[3].open_ticks == 250);
  CHECK(rows[3].sides[kDeviceSide].alloc_count == 100);
  CHECK(rows[3].sides[kDeviceSide].peak_bytes == 1300);
  for (const FoldRow& row : rows) CHECK(row.is_alike());
}

TEST_CASE("phase_fold: a little more of the heap is no difference, of the device it is",
          "[collector]") {
  PhaseFold host;
  for (uint64_t i = 1; i <= 10; ++i) {
    host.add(instance(i, 0, 0, 1'000'000 + static_cast<int64_t>(i)));
  }
  CHECK(host.rows().size() == 1);
  PhaseFold device;
  for (uint64_t i = 1; i <= 10; ++i)
    device.add(instance(i, 0, 1'000'000 + static_cast<int64_t>(i)));
  CHECK(device.rows().size() == 10);
}

TEST_CASE("phase_fold: slow growth of the heap does not hide in one row", "[collector]") {
  PhaseFold fold;
  for (uint64_t i = 1; i <= 12; ++i) fold.add(instance(i, 0, 0, 40'000 * static_cast<int64_t>(i)));
  const std::vector<FoldRow> rows = fold.rows();
  CHECK(rows.size() > 1);
  for (const FoldRow& row : rows) CHECK(row.is_alike());
}

TEST_CASE("phase_fold: a hundred thousand instances of two sorts take a bounded number of rows",
          "[collector]") {
  PhaseFold fold;
  constexpr uint64_t kRuns = 100'000;
  for (uint64_t i = 1; i <= kRuns; ++i) {
    fold.add(instance(i, i == 70'000 ? 1 << 30 : 0, i % 2 == 0 ? 100 : 200));
  }
  const std::vector<FoldRow> rows = fold.rows();
  CHECK(rows.size() <= PhaseFold::kMaxRows);
  uint64_t count = 0;
  bool odd_one_alone = false;
  uint64_t next = 1;
  for (const FoldRow& row : rows) {
    CHECK(row.first == next);
    next = row.last + 1;
    count += row.count;
    odd_one_alone |= row.first == 70'000 && row.last == 70'000;
  }
  CHECK(count == kRuns);
  CHECK(odd_one_alone);
}

TEST_CASE("phase_fold: however different, no more rows than the limit, and none is lost",
          "[collector]") {
  PhaseFold fold;
  for (uint64_t i = 1; i <= 1000; ++i) fold.add(instance(i, 0, static_cast<int64_t>(i * i)));
  const std::vector<FoldRow> rows = fold.rows();
  CHECK(rows.size() <= PhaseFold::kMaxRows);
  uint64_t count = 0;
  for (const FoldRow& row : rows) count += row.count;
  CHECK(count == 1000);
  CHECK(rows.back().sides[kDeviceSide].peak_bytes == 1'001'000);
}

TEST_CASE("phase_fold: rows are in the order of begins, whichever instance ends first",
          "[collector]") {
  PhaseFold fold;
  fold.add(instance(2, 500, 900));
  FoldRow first = instance(1, 0, 300);
  first.sides[kDeviceSide].start_bytes = 7;
  fold.add(instance(3, 0, 300));
  fold.add(first);
  const std::vector<FoldRow> rows = fold.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].first == 1);
  CHECK(rows[0].last == 3);
  CHECK(rows[0].sides[kDeviceSide].start_bytes == 7);
  CHECK(rows[1].first == 2);
}

TEST_CASE("phase_fold: figures that only a damaged log has are as far apart as they are",
          "[collector]") {
  PhaseFold fold;
  fold.add(instance(1, INT64_MAX, 0));
  fold.add(instance(2, INT64_MIN + 1, 0));
  fold.add(instance(3, INT64_MAX, 0));
  CHECK(fold.rows().size() == 3);
  for (uint64_t i = 4; i <= 3 * PhaseFold::kMaxRows; ++i) {
    fold.add(instance(i, i % 2 == 0 ? INT64_MIN + 1 : INT64_MAX, INT64_MAX));
  }
  CHECK(fold.rows().size() <= PhaseFold::kMaxRows);
}
