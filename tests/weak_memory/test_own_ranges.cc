// A thread looks how much memory is the preload's while others map and unmap.
#include <new>

#include "base/own_ranges.h"
#include "catch.h"
#include "explorer.h"

namespace gpupeak::preload {
namespace {

constexpr uintptr_t kLow = 0x1000, kHigh = 0x10000, kAlways = 0x100000;
constexpr uintptr_t kLowBytes = 0x100, kHighBytes = 0x2000, kAlwaysBytes = 0x4000;
OwnRanges g_ranges;

void look() {
  const uint64_t bytes = g_ranges.within(0, UINTPTR_MAX);
  weak::require(bytes >= kAlwaysBytes, "a range that stays is not seen");
  weak::require(bytes <= kAlwaysBytes + 2 * kHighBytes + 2 * kLowBytes, "more than mapped");
}

}  // namespace
}  // namespace gpupeak::preload

TEST_CASE("a look at our own memory takes no range's end for another's", "[weak]") {
  using namespace gpupeak::preload;
  const auto setup = [] {
    new (&g_ranges) OwnRanges();
    g_ranges.add(kHigh, kHighBytes);
    g_ranges.add(kAlways, kAlwaysBytes);
  };
  const auto change = [] {
    g_ranges.take(kHigh, kHighBytes), g_ranges.add(kLow, kLowBytes);
    g_ranges.take(kLow, kLowBytes), g_ranges.add(kHigh, kHighBytes);
  };
  const auto add = [] { g_ranges.add(kLow + kLowBytes, kLowBytes); };
  CHECK(weak::explore({{change, look}, setup}, 10000).failure == "");
  CHECK(weak::explore({{change, add, look}, setup}, 10000).failure == "");
}
