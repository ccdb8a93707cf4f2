// What the memory of rows is used for: what kernels may do by their signatures, and which blocks
// count.
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/analyze/attribution.h"
#include "collector/summary/site_title.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

TEST_CASE("roles: a kernel's signature says what it may do with an argument", "[collector]") {
  const auto access = [](std::string_view function, size_t parameter) {
    return access_of(function, parameter);
  };
  const auto kScale = "void scale<float, (int)3>(float const*, Pair<int, long>, float*, int)";
  CHECK(access(kScale, 0) == KernelAccess::kRead);
  CHECK(access(kScale, 1) == KernelAccess::kGiven);
  CHECK(access(kScale, 2) == KernelAccess::kWritten);
  CHECK(access(kScale, 3) == std::nullopt);  // a number
  CHECK(access(kScale, 4) == KernelAccess::kGiven);
  CHECK(access("k(unsigned long long, double)", 0) == std::nullopt);
  CHECK(access("k(float const* __restrict__)", 0) == KernelAccess::kRead);
  CHECK(access("k(float* const*)", 0) == KernelAccess::kRead);
  CHECK(access("k(float const**)", 0) == KernelAccess::kWritten);
  CHECK(access("a::k<a::{lambda(int)#1}>(int (*)(int, int), char*)", 1) == KernelAccess::kWritten);
  CHECK(access("ampere_sgemm_128x64_nn", 0) == KernelAccess::kGiven);
  CHECK(access("k()", 0) == KernelAccess::kGiven);
  CHECK(access(")", 0) == KernelAccess::kGiven);
}

TEST_CASE("roles: of a row are those of its blocks at the peak", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.fact("roles", "on");
  const uint32_t api = log.string("cuMemAlloc"), name = log.string("_Z1kPKfPf");
  const auto role = [&](uint64_t time, uint64_t id, uint64_t kernel, uint64_t place,
                        uint64_t count) {
    log.event(0, time, GPUPEAK_REC_ROLE, Fields().u(0).u(id).u(kernel).u(place).u(count));
  };
  log.event(0, 1, GPUPEAK_REC_KERNEL, Fields().u(1).u(name).u(0));
  log.device_alloc(0, 2, 1, GPUPEAK_KIND_LINEAR, 0, kMiB, api);
  role(3, 1, 0, GPUPEAK_ROLE_FILLED, 1);
  log.device_free(0, 4, 1);  // before the peak
  log.device_alloc(0, 5, 2, GPUPEAK_KIND_LINEAR, 0, 2 * kMiB, api);
  log.device_alloc(0, 6, 3, GPUPEAK_KIND_LINEAR, 0, kMiB, api);  // the peak; never used
  role(7, 2, 0, GPUPEAK_ROLE_COPIED_IN, 1);
  role(8, 2, 1, 0, 1);
  role(9, 2, 1, 2, 0);
  role(10, 2, 1, 0, 5);
  log.device_free(0, 11, 2);
  log.device_alloc(0, 12, 4, GPUPEAK_KIND_LINEAR, 0, kMiB, api);  // after the peak
  role(13, 4, 0, GPUPEAK_ROLE_COPIED_OUT, 1);
  const TemporaryFile file;
  log.save(file.path());
  const Summary summary = analyze(file.path());
  const Peak* peak = summary.find_peak("device:0");
  REQUIRE(peak != nullptr);
  REQUIRE(peak->holders.size() == 1);
  REQUIRE(peak->holders.front().role);
  const BufferRole& seen = *peak->holders.front().role;
  CHECK(seen.filled == 0);
  CHECK(seen.copied_in == 1);
  CHECK(seen.copied_out == 0);
  CHECK(seen.unused_bytes == kMiB);
  REQUIRE(seen.kernels.size() == 2);
  CHECK(seen.kernels[0].name == "k(float const*, float*)");
  CHECK(seen.kernels[0].access == KernelAccess::kRead);
  CHECK(seen.kernels[0].launches == 5);
  CHECK(seen.kernels[1].access == KernelAccess::kWritten);
  CHECK(seen.kernels[1].arguments == std::vector<uint32_t>{1});
  CHECK(seen.kernels[1].launches == 5);
  CHECK_FALSE(seen.first_use_ns);  // the log ends before it says when
  CHECK(seen.allocated_ns == 5);
  CHECK_FALSE(seen.freed_ns);  // one block lives on
  REQUIRE(seen.alike.size() == 2);
  CHECK(seen.alike[0].bytes == 2 * kMiB);
  CHECK(seen.alike[0].role.copied_in == 1);
  CHECK(seen.alike[0].role.kernels.size() == 2);
  CHECK(seen.alike[0].role.unused_bytes == 0);
  CHECK(seen.alike[1].count == 1);
  CHECK_FALSE(seen.alike[1].role.was_seen_used());
  CHECK(role_text(peak->holders.front(), 3, TextStyle()) ==
        "1 × 2.00 MiB copied in · read and written by k; 1 × 1.00 MiB never seen used");
  const std::vector<RoleUse> uses = role_uses(seen);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].verb == "copied in");
  CHECK(uses[1].verb == "read and written by");
  CHECK(uses[1].kernel == "k");
  CHECK(uses[1].count == 5);
}

TEST_CASE("roles: blocks of a loop that are used alike are not told one by one", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.fact("roles", "on");
  const uint32_t api = log.string("cuMemAlloc");
  for (uint64_t id = 1; id <= 3; ++id) {
    log.device_alloc(0, id, id, GPUPEAK_KIND_LINEAR, 0, 1 << 20, api);
    log.event(0, 10 + id, GPUPEAK_REC_ROLE, Fields().u(0).u(id).u(0).u(GPUPEAK_ROLE_FILLED).u(id));
  }
  const TemporaryFile file;
  log.save(file.path());
  const Summary summary = analyze(file.path());
  const Holder& row = summary.find_peak("device:0")->holders.at(0);
  CHECK(row.role->alike.empty());
  CHECK(role_text(row, 3, TextStyle()) == "filled");
  Holder sizes = row;
  sizes.role->alike = {{2 << 20, 2, *row.role}, {1 << 20, 1, *row.role}};
  CHECK(role_text(sizes, 3, TextStyle()) == "filled");
}

TEST_CASE("roles: kernels of a library are one use, with the launches of each", "[collector]") {
  BufferRole role;
  role.kernels = {{"sgemm", "cuBLAS", KernelAccess::kGiven, {0}, 4},
                  {"scale(float*)", "cuBLAS", KernelAccess::kWritten, {0}, 2},
                  {"add(float const*, float*)", "", KernelAccess::kRead, {0}, 1}};
  const std::vector<RoleUse> uses = role_uses(role);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].verb == "written by");
  CHECK(uses[0].kernel == "cuBLAS");
  CHECK(uses[0].count == 6);
  CHECK(uses[1].kernel == "add");
}
