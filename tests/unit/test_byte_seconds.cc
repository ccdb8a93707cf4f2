// What sites held, times for how long: against the lives of the blocks that the log was made of.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kEnd = 40 * kOneSecond;

/// Blocks with known lives, of two devices, the heap, and a pool on device 0.
class Lives {
 public:
  Lives() {
    for (const uint64_t device : {0, 1})
      log_.device(device, 80'000 * kMiB, std::string(16, static_cast<char>('1' + device)), "GPU");
    const uint32_t name = log_.string("PyTorch");
    log_.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name).u(0).u(0).s("").u(1));
    std::mt19937_64 random(7);
    const auto pick = [&](uint64_t least, uint64_t most) {
      return std::uniform_int_distribution<uint64_t>(least, most)(random);
    };
    for (uint64_t id = 1; id <= 200; ++id) {
      const uint64_t begin = pick(2, kEnd - 3), end = pick(begin + 1, kEnd + kEnd / 4);
      const uint64_t where = pick(0, 2), site = pick(0, 4);
      if (where == 2) {
        host(id, begin, end, pick(1, 1 << 20), site);
      } else {
        device(id * 100, begin, end, pick(1, 50) * kMiB, static_cast<int>(where), site);
      }
    }
    // A segment of the pool: 20 MiB, of which a block has 8 for ten seconds, and again for five.
    device(90'000, 3 * kOneSecond, 33 * kOneSecond, 20 * kMiB, 0, 5);
    in_pool(5 * kOneSecond, 15 * kOneSecond);
    in_pool(20 * kOneSecond, 25 * kOneSecond);
    at(kEnd,
       [this] { log_.event(0, kEnd, GPUPEAK_REC_MARK, Fields().u(2).u(mark_).u(0).u(0).s("")); });
    mark_ = log_.string("end");
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, step] : steps_) step();
  }

  LogBuilder& log() { return log_; }
  /// In byte-seconds, by scope and site.
  std::map<std::string, std::map<std::string, double>> held;

 private:
  using Step = std::function<void()>;
  void at(uint64_t time, Step step) { steps_.emplace_back(time, std::move(step)); }
  uint32_t stack(uint64_t site) { return log_.node(0, (site + 1) * 0x100); }
  static std::string title(uint64_t site) {
    constexpr const char* kTitles[] = {"0x100", "0x200", "0x300", "0x400", "0x500", "0x600"};
    return kTitles[site];
  }
  void count(const std::string& scope, const std::string& row, uint64_t begin, uint64_t end,
             uint64_t bytes) {
    held[scope][row] +=
        static_cast<double>(bytes) * static_cast<double>(std::min(end, kEnd) - begin) / 1e9;
  }
  void device(uint64_t id, uint64_t begin, uint64_t end, uint64_t bytes, int of, uint64_t site) {
    const uint32_t node = stack(site);
    at(begin,
       [=, this] { log_.device_alloc(0, begin, id, GPUPEAK_KIND_LINEAR, of, bytes, 0, node); });
    if (end < kEnd) at(end, [=, this] { log_.device_free(0, end, id); });
    // A segment is its pool's once a block lies in it.
    const bool is_segment = site == 5;
    const std::string scope = "device:" + std::to_string(of);
    count(scope, title(site), begin, is_segment ? 5 * kOneSecond : end, bytes);
    if (is_segment) count(scope, "idle in PyTorch's pool", 5 * kOneSecond, end, bytes);
  }
  void host(uint64_t id, uint64_t begin, uint64_t end, uint64_t bytes, uint64_t site) {
    const uint32_t node = stack(site);
    const uint64_t address = 0x100000 * id;
    at(begin, [=, this] { log_.alloc(0, begin, address, bytes, node); });
    if (end < kEnd) at(end, [=, this] { log_.free(0, end, address); });
    count("host", title(site), begin, end, bytes);
  }
  void in_pool(uint64_t begin, uint64_t end) {
    const uint64_t address = 90'000 * kMiB, bytes = 8 * kMiB;
    const uint32_t node = stack(0);
    at(begin, [=, this] {
      log_.event(0, begin, GPUPEAK_REC_ARENA_ALLOC,
                 Fields().u(1).u(address).u(bytes).u(0).u(node).u(0).u(0));
    });
    at(end, [=, this] {
      log_.event(0, end, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(address).u(bytes).u(0).u(0));
    });
    held["device:0"]["idle in PyTorch's pool"] -=
        static_cast<double>(bytes) * static_cast<double>(end - begin) / 1e9;
    count("device:0", "pooled " + title(0), begin, end, bytes);
  }

  LogBuilder log_;
  std::vector<std::pair<uint64_t, Step>> steps_;
  uint32_t mark_ = 0;
};

Json json_of(LogBuilder& log, size_t top = kAllRows) {
  const TemporaryFile file;
  Profile profile(log.save(file.path()));
  std::ostringstream out;
  write_byte_seconds(profile, held_over_time(profile, sides(profile)), GroupBy::kSite, top, out,
                     kAsJson);
  return Json::parse(out.str());
}

}  // namespace

TEST_CASE("byte-seconds: each site's is the sum of its blocks' lives", "[collector]") {
  Lives lives;
  const Json json = json_of(lives.log());
  CHECK(json["duration_ns"] == kEnd);
  REQUIRE(json["scopes"].size() == 3);
  for (const Json& scope : json["scopes"]) {
    INFO(scope.dump(1));
    auto expected = lives.held.at(scope["scope"].get<std::string>());
    double whole = 0;
    for (const Json& row : scope["rows"]) {
      const bool pooled = row["kind"] == "device.pooled";
      const std::string title = (pooled ? "pooled " : "") + row["title"].get<std::string>();
      REQUIRE(expected.contains(title));
      CHECK(row["byte_seconds"].get<double>() == Approx(expected[title]).epsilon(1e-12));
      whole += expected[title];
      expected.erase(title);
    }
    CHECK(expected.empty());
    CHECK(scope["byte_seconds"].get<double>() == Approx(whole).epsilon(1e-12));
    CHECK(scope["other_rows"] == 0);
  }
}

TEST_CASE("byte-seconds: rows that are left out are in the last one", "[collector]") {
  Lives lives;
  const Json json = json_of(lives.log(), 2);
  for (const Json& scope : json["scopes"]) {
    double sum = scope["other_byte_seconds"].get<double>();
    for (const Json& row : scope["rows"]) sum += row["byte_seconds"].get<double>();
    CHECK(scope["rows"].size() == 2);
    CHECK(sum == Approx(scope["byte_seconds"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("byte-seconds: where events were lost they are not known", "[collector]") {
  Lives lives;
  lives.log().counters().dropped_events = 3;
  const Json json = json_of(lives.log());
  for (const Json& scope : json["scopes"]) {
    CHECK(scope["byte_seconds"].is_null());
    for (const Json& row : scope["rows"]) CHECK(row["byte_seconds"].is_null());
  }
}

TEST_CASE("byte-seconds: of a sample of the heap they are not known, of devices they are",
          "[collector]") {
  Lives lives;
  lives.log().header().host_mode = GPUPEAK_HOST_SAMPLED;
  lives.log().header().sample_bytes = 4096;
  const Json json = json_of(lives.log());
  for (const Json& scope : json["scopes"])
    CHECK(scope["byte_seconds"].is_null() == (scope["scope"] == "host"));
}
