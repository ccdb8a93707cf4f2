// Sums over time: no peak is lost, however many events share a bucket, and the timelines that are
// drawn from them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "catch.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "log_builder.h"
#include "timed_profile.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// Heap blocks of random sizes that come and go; `values` is what the sum was after each event, by
/// time.
LogBuilder random_heap(std::vector<std::pair<uint64_t, uint64_t>>& values, size_t events) {
  LogBuilder log;
  std::mt19937_64 random(7);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  uint64_t sum = 0, time = 0;
  for (size_t i = 0; i < events; ++i) {
    time += random() % 1000;
    if (live.empty() || random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 100'000;
      live.emplace_back(0x1000 + i * 0x20000, bytes);
      log.alloc(0, time, live.back().first, bytes);
      sum += bytes;
    } else {
      std::swap(live[random() % live.size()], live.back());
      log.free(0, time, live.back().first);
      sum -= live.back().second;
      live.pop_back();
    }
    values.emplace_back(time, sum);
  }
  return log;
}

}  // namespace

TEST_CASE("time_series: every bucket has the smallest and the largest value of its time",
          "[collector]") {
  std::vector<std::pair<uint64_t, uint64_t>> values;
  TimedProfile log(random_heap(values, 60'000));
  const Series* series = log.times.find("host/heap");
  REQUIRE(series != nullptr);
  REQUIRE(log.times.bucket_count() <= TimeSeries::kBuckets);
  REQUIRE(log.times.bucket_count() > TimeSeries::kBuckets / 4);
  REQUIRE(series->buckets.size() == log.times.bucket_count());
  const ClockMap& clock = log.profile.log().clock();
  size_t at = 0;
  uint64_t before = 0;
  for (size_t b = 0; b < series->buckets.size(); ++b) {
    const auto end = static_cast<uint64_t>(log.times.begin_ns(b + 1, clock));
    uint64_t min = before, max = before;
    for (; at < values.size() && values[at].first < end; ++at) {
      min = std::min(min, values[at].second);
      max = std::max(max, values[at].second);
      before = values[at].second;
    }
    REQUIRE(series->buckets[b].min == min);
    REQUIRE(series->buckets[b].max == max);
  }
  CHECK(at == values.size());
  const uint64_t peak_event = TimeSeries::peak_event(*series);
  REQUIRE(peak_event < values.size());
  CHECK(values[peak_event].second == log.profile.sum(log.profile.scope("host")).peak);
}

TEST_CASE("time_series: of equal peaks the first one is named", "[collector]") {
  LogBuilder log;
  for (uint64_t i = 0; i < 5000; ++i) {
    log.alloc(0, 1 + i * 1000, 0x1000, 64);
    log.free(0, 2 + i * 1000, 0x1000);
  }
  TimedProfile timed(log);
  CHECK(TimeSeries::peak_event(*timed.times.find("host")) == 0);
}

TEST_CASE("time_series: what is not read has no value", "[collector]") {
  LogBuilder log;
  log.alloc(0, 10, 0x1000, 64);
  log.event(0, 5'000'000, GPUPEAK_REC_SAMPLE, Fields().u(7 * kMiB).u(0).u(0));
  log.alloc(0, 9'000'000, 0x2000, 64);
  TimedProfile timed(log);
  const Series* rss = timed.times.find("host.rss");
  REQUIRE(rss != nullptr);
  CHECK(rss->first_bucket > 0);
  CHECK(rss->first_bucket + rss->buckets.size() == timed.times.bucket_count());
  CHECK(rss->buckets.back().max == 7 * kMiB);
  CHECK(timed.times.find("device:0/pool reserved") == nullptr);
}

TEST_CASE("time_series: a bounded number of borders, spread over the run", "[collector]") {
  LogBuilder log;
  const uint32_t name = log.string("step");
  for (uint64_t i = 0; i < 10'000; ++i) {
    log.phase_push(0, i * 10, false, name);
    log.phase_pop(0, i * 10 + 5, false);
  }
  TimedProfile timed(log);
  CHECK(timed.times.borders().size() <= TimeSeries::kBorders);
  CHECK(timed.times.borders().size() >= TimeSeries::kBorders / 4);
  CHECK(timed.times.borders().back().event > 15'000);
}

TEST_CASE("timeline: as wide as the terminal, with the peak marked above its column",
          "[collector]") {
  LogBuilder builder;
  builder.alloc(0, 1'000'000, 0x1000, 100 * kMiB);
  builder.alloc(0, 5'000'000, 0x2000, 300 * kMiB);
  builder.free(0, 5'000'001, 0x2000);
  builder.free(0, 10'000'000, 0x1000);
  TimedProfile log(builder);
  for (const int width : {60, 100, 200}) {
    std::ostringstream out;
    write_timeline({log.profile, log.times, ""}, 8, out, TextStyle{false, width});
    std::istringstream lines(out.str());
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) {
      CHECK(display_width(line) <= static_cast<size_t>(width));
      all.push_back(line);
    }
    REQUIRE(all.size() > 10);
    CHECK(all[0] == "PEAK  host memory: 400 MiB at +0.01 s");
    const size_t marked = display_width(all[1]) - 1;
    CHECK(all[1].ends_with("▼"));
    // One column is as high as the chart, right below the mark; the others end at a quarter.
    CHECK(display_width(all[2].substr(0, all[2].find("█"))) == marked);
    CHECK(display_width(all[7].substr(0, all[7].find("█"))) == marked);
    CHECK(all[8].find("███") != std::string::npos);
  }
}

TEST_CASE("timeline: JSON has every change of every sum, and the gauges", "[collector]") {
  LogBuilder builder;
  builder.device(0, 1000 * kMiB, "", "Little GPU");
  builder.device_alloc(0, 1000, 1, GPUPEAK_KIND_LINEAR, 0, 5 * kMiB);
  builder.device_alloc(0, 500'000, 2, GPUPEAK_KIND_POOL, 0, 3 * kMiB);
  builder.device_free(0, 600'000, 1);
  builder.event(0, 900'000, GPUPEAK_REC_SAMPLE, Fields().u(kMiB).u(0).u(0));
  TimedProfile log(builder);
  std::ostringstream out;
  write_timeline({log.profile, log.times, ""}, 8, out, kAsJson);
  const Json json = Json::parse(out.str());
  CHECK(json["schema"] == "gpupeak.timeline/1");
  CHECK(json["peaks"][0]["bytes"] == 8 * kMiB);
  std::vector<std::string> names;
  for (const Json& series : json["series"]) names.push_back(series["name"]);
  CHECK(names ==
        std::vector<std::string>{"device:0", "device:0/linear", "device:0/pool", "host.rss"});
  uint64_t highest = 0;
  for (const Json& bucket : json["series"][0]["buckets"]) {
    highest = std::max(highest, bucket[2].get<uint64_t>());
  }
  CHECK(highest == 8 * kMiB);
}

TEST_CASE("timeline: names cannot break out of the drawing", "[collector]") {
  LogBuilder builder;
  builder.device(0, 1000 * kMiB, "", "</title><script>alert(1)</script>");
  builder.phase_push(0, 1, true, builder.string("<b onclick=\"x\">&phase"));
  builder.device_alloc(0, 1000, 1, GPUPEAK_KIND_LINEAR, 0, 5 * kMiB);
  builder.device_free(0, 900'000, 1);
  TimedProfile log(builder);
  std::ostringstream out;
  write_timeline_svg({log.profile, log.times, ""}, PictureSize::kScreen, false, out);
  const std::string svg = out.str();
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("<b ") == std::string::npos);
  CHECK(svg.find("&lt;script") != std::string::npos);
  CHECK(svg.find("peak 5.00 MiB") != std::string::npos);
}
