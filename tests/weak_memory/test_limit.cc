// Calls that pass by the budget of a smaller card while another thread asks the driver anew.
#include "catch.h"
#include "explorer.h"
#include "track/limit.cc"

namespace gpupeak::preload {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30, kBlock = 256 << 20;
Environment g_environment;
/// The card: the driver has locks of its own. Not compiled for the explorer.
uint64_t g_used, g_ballast, g_most_used, g_now;

void __attribute__((no_sanitize("thread"))) use(uint64_t bytes) {
  if (g_used + g_ballast + bytes > 8 * kGiB) return;
  g_used += bytes;
  if (g_used > g_most_used) g_most_used = g_used;
}

void begin() {
  forget_limits();
  g_environment.limit.bytes = 2 * kGiB;
  g_used = 2 * kGiB - 3 * kBlock;
  g_ballast = g_most_used = 0;
  g_now = 1'000'000'000;
}

void allocate(uint64_t bytes) {
  weak::ignore(&t_flags, sizeof t_flags);
  LimitScope limit(0, bytes);
  if (!limit.refuses()) use(bytes);
}

void within() {
  weak::require(g_most_used <= 2 * kGiB, "more than the limit is in use");
}

}  // namespace

const Environment& environment() {
  return g_environment;
}
uint64_t __attribute__((no_sanitize("thread"))) monotonic_ns() {
  return g_now += kFreshNs / 3;
}
uint64_t real_device_total(int) {
  return 8 * kGiB;
}
bool is_integrated(int) {
  return false;
}
int current_device() {
  return 0;
}
bool __attribute__((no_sanitize("thread")))
real_memory_info(uint64_t& free_bytes, uint64_t& total) {
  total = 8 * kGiB;
  free_bytes = total - g_used - g_ballast;
  return true;
}
bool __attribute__((no_sanitize("thread")))
take_physical_memory(int, uint64_t bytes, CUmemGenericAllocationHandle&) {
  if (g_used + g_ballast + bytes > 8 * kGiB) return false;
  g_ballast += bytes;
  return true;
}
void __attribute__((no_sanitize("thread"))) give_physical_memory(CUmemGenericAllocationHandle) {
  g_ballast = 0;
}
void* nvml_handle(int) {
  return nullptr;
}
bool memory_of_card(int, NvmlMemory&) {
  return false;
}

}  // namespace gpupeak::preload

TEST_CASE("calls that pass by the budget stay below the limit", "[weak]") {
  using namespace gpupeak::preload;
  const auto calls = [] { allocate(kBlock), allocate(kBlock); };
  CHECK(weak::explore({{calls, calls, calls}, begin, within}, 20000).failure == "");
}
