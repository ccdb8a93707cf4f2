// What a page and a comparison are made of: holders add up at every instant, and no name ends the
// data.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "catch.h"
#include "collector/text/error.h"
#include "collector/timeline/instants.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "log_builder.h"
#include "timed_profile.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// Thirty sites on two devices and the heap, each in turn larger than the others.
LogBuilder waves() {
  LogBuilder log;
  log.device(0, 1000 * kMiB, "", "Little GPU");
  const uint32_t phase = log.string("wave");
  uint64_t time = 0, id = 0;
  for (uint64_t wave = 0; wave < 40; ++wave) {
    log.phase_push(0, time += 1000, false, phase);
    const uint64_t first = id + 1;
    for (uint64_t site = 0; site < 30; ++site) {
      const uint32_t stack = log.node(0, 0x1000 + 16 * site);
      const uint64_t bytes = (1 + (wave * 7 + site) % 30) * 1000;
      log.device_alloc(0, time += 1000, ++id,
                       site % 3 == 0 ? GPUPEAK_KIND_POOL : GPUPEAK_KIND_LINEAR,
                       static_cast<int>(site % 2), bytes, 0, stack);
      log.alloc(0, time += 1000, 0x10000 * id, bytes, stack);
    }
    for (uint64_t block = first; block <= id; ++block) {
      log.device_free(0, time += 1000, block);
      if (block % 4 != 0) log.free(0, time += 1000, 0x10000 * block);
    }
    log.phase_pop(0, time += 1000, false);
  }
  return log;
}

uint64_t sum_of(const KindHolders& holders) {
  return std::accumulate(holders.rows.begin(), holders.rows.end(), holders.other_bytes,
                         [](uint64_t sum, const auto& row) { return sum + row.bytes; });
}

std::string page_of(LogBuilder log) {
  TimedProfile timed(std::move(log));
  return page_data(timed.profile, timed.times, read_for_page(timed.profile, timed.times), true);
}

LogBuilder one_block(uint64_t bytes, const char* phase) {
  LogBuilder log;
  log.phase_push(0, 1, true, log.string(phase));
  log.alloc(0, 1000, 0x1000, bytes, log.node(0, 0x4000));
  log.free(0, 5000, 0x1000);
  return log;
}

}  // namespace

TEST_CASE("instants: every peak is among them, with the holders that the summary gives it",
          "[collector]") {
  TimedProfile log(waves());
  const Instants found = live_at_instants(log.profile, log.times, 5);
  CHECK(found.instants.size() <= kMaxInstants);
  CHECK(found.instants.size() > 60);
  for (const ScopeId id : log.profile.scopes()) {
    const ScopeInfo& info = log.profile.scope_info(id);
    const auto at =
        std::find_if(found.instants.begin(), found.instants.end(), [&](const Instant& instant) {
          const std::string list = ", " +
                                   instant.reason.substr(std::min<size_t>(
                                       instant.reason.size(), std::string("peak of ").size())) +
                                   ",";
          return instant.reason.starts_with("peak of ") &&
                 list.find(", " + info.name + ",") != std::string::npos;
        });
    INFO(info.name);
    REQUIRE(at != found.instants.end());
    uint64_t sum = 0;
    for (const KindHolders& holders : at->kinds) {
      const bool side =
          info.name == "total" || info.name.starts_with(holders.device >= 0 ? "device" : "host");
      const bool device = info.device < 0 || info.device == holders.device;
      if (side && device && (info.kind == 0 || info.kind == holders.kind)) sum += sum_of(holders);
    }
    CHECK(sum == log.profile.sum(id).peak);
    CHECK(at->time_ns == log.profile.to_ns(log.profile.sum(id).peak_ticks));
  }
}

TEST_CASE("instants: the largest holders first, the others as a sum", "[collector]") {
  TimedProfile log(waves());
  const Instants found = live_at_instants(log.profile, log.times, 3);
  bool any_cut = false;
  for (const Instant& instant : found.instants) {
    for (const KindHolders& holders : instant.kinds) {
      CHECK(holders.rows.size() <= 3);
      any_cut |= holders.other_rows > 0;
      for (size_t i = 1; i < holders.rows.size(); ++i) {
        CHECK(holders.rows[i - 1].bytes >= holders.rows[i].bytes);
      }
      for (const auto& row : holders.rows) REQUIRE(row.row < found.rows.size());
    }
  }
  CHECK(any_cut);
  for (size_t i = 1; i < found.instants.size(); ++i) {
    CHECK(found.instants[i - 1].time_ns <= found.instants[i].time_ns);
  }
}

TEST_CASE("instants: all changes while they are few, none of a side with many", "[collector]") {
  LogBuilder many = waves();
  const uint64_t after = 1'000'000;
  for (uint64_t i = 0; i <= kMaxChanges; ++i) many.alloc(0, after + i, 0x10000000 + 16 * i, 1);
  for (const bool few : {true, false}) {
    TimedProfile timed(few ? waves() : std::move(many));
    const Instants found = live_at_instants(timed.profile, timed.times, 5);
    CHECK(found.host_changes.has_value() == few);
    REQUIRE(found.device_changes);
    std::map<int32_t, int64_t> live;
    std::map<int32_t, int64_t> peaks;
    std::set<uint32_t> used;
    for (const PlaceChange& change : *found.device_changes) {
      REQUIRE(change.place < found.places.size());
      used.insert(change.place);
      const HeldPlace& place = found.places[change.place];
      REQUIRE(place.row < found.rows.size());
      live[place.device] += change.bytes;
      peaks[place.device] = std::max(peaks[place.device], live[place.device]);
    }
    for (const int device : {0, 1}) {
      const std::string scope = "device:" + std::to_string(device);
      CHECK(live[device] == 0);
      CHECK(static_cast<uint64_t>(peaks[device]) ==
            timed.profile.sum(timed.profile.scope(scope)).peak);
    }
    // Nothing is there of what is not told.
    size_t told = 0;
    for (const Instant& instant : found.instants) {
      told += instant.held.size();
      for (const HeldThere& held : instant.held) used.insert(held.place);
    }
    CHECK((told == 0) == few);
    if (!few) CHECK(used.size() == found.places.size());
  }
}

TEST_CASE("instants: of a side with many changes the stacks that hold most, with their calls",
          "[collector]") {
  LogBuilder log = waves();
  for (uint64_t i = 0; i <= kMaxChanges; ++i)
    log.alloc(0, 1'000'000 + i, 0x10000000 + 16 * i, 1, log.node(0, 0x100000 + i % 200));
  TimedProfile timed(std::move(log));
  const Instants found = live_at_instants(timed.profile, timed.times, 5);
  size_t most = 0;
  for (const Instant& instant : found.instants) {
    uint64_t host = 0, told = 0;
    for (const KindHolders& kind : instant.kinds) {
      if (kind.device >= 0) continue;
      host += kind.other_bytes;
      for (const auto& row : kind.rows) host += row.bytes;
    }
    most = std::max(most, instant.held.size());
    for (size_t i = 0; i < instant.held.size(); ++i) {
      const HeldPlace& place = found.places.at(instant.held[i].place);
      CHECK(place.device == -1);
      REQUIRE(place.call < found.calls.calls.size());
      CHECK(found.calls.calls[place.call].title == found.rows[place.row].title);
      told += instant.held[i].bytes;
      if (i > 0) CHECK(instant.held[i - 1].bytes >= instant.held[i].bytes);
    }
    CHECK(told <= host);
    if (instant.held.size() < kMostHeld) CHECK(told == host);
  }
  CHECK(most == kMostHeld);
}

TEST_CASE("instants: calls are bounded, and what is left out is its caller's", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  const uint32_t main = log.node(0, 0x100), step = log.node(main, 0x200);
  for (uint64_t i = 0; i < 50; ++i)
    log.device_alloc(0, 10 + i, 1 + i, GPUPEAK_KIND_LINEAR, 0, 1000 + i, 0,
                     log.node(step, 0x1000 + i));
  TimedProfile timed(std::move(log));
  std::map<GroupId, uint64_t> largest;
  for (GroupId group{0}; group < 50; ++group) largest[group] = 1000 + group;
  for (const size_t most : {size_t{12}, size_t{1000}}) {
    const HeldCalls calls = held_calls(timed.profile, largest, most);
    CHECK(calls.calls.size() <= most + 1);
    CHECK(calls.calls.size() == (most == 12 ? 13 : 53));  // with the root
    for (size_t i = 1; i < calls.calls.size(); ++i) CHECK(calls.calls[i].caller < i);
    REQUIRE(calls.ends.size() == 50);
    size_t of_step = 0;
    for (const auto& [group, end] : calls.ends) of_step += calls.calls[end].title == "0x200";
    CHECK(of_step == (most == 12 ? 40 : 0));
  }
}

TEST_CASE("stacked: at each moment the parts add up to the sum, by site and by tag",
          "[collector]") {
  LogBuilder log;
  log.event(0, 1, GPUPEAK_REC_TAG_PUSH, Fields().u(log.string("weights")).s(""));
  log.device_alloc(0, 2, 99'999, GPUPEAK_KIND_LINEAR, 0, 50'000, 0, log.node(0, 0x1000));
  log.event(0, 3, GPUPEAK_REC_TAG_POP, Fields());
  for (uint64_t i = 0; i < 3000; ++i) {
    const uint64_t time = 1000 * (i + 1);
    const uint32_t stack = log.node(0, 0x2000 + 16 * (i % 30));
    log.device_alloc(0, time, 1 + i, GPUPEAK_KIND_LINEAR, i % 3 == 0, 100 + i % 900, 0, stack);
    log.alloc(0, time + 1, 0x10000 * (i + 1), 100 + i % 900, stack);
    if (i < 500) continue;
    log.device_free(0, time + 2, i - 499);
    log.free(0, time + 3, 0x10000 * (i - 499));
  }
  TimedProfile timed(std::move(log));
  const Instants found = live_at_instants(timed.profile, timed.times, 3);
  REQUIRE(found.stacked.size() == 3);
  for (const Stacked& sum : found.stacked) {
    INFO(sum.scope);
    REQUIRE(sum.ways.size() == 2);
    CHECK(sum.ways[0].parts.size() == Stacked::kParts + 1);
    CHECK(sum.ways[1].has_names() == (sum.scope == "device:0"));
    const PeakFinder::Scope& peak = timed.profile.sum(timed.profile.scope(sum.scope));
    for (const Stacked::By& by : sum.ways) {
      uint64_t highest = 0;
      int64_t last = 0;
      for (const Stacked::Moment& moment : by.moments) {
        REQUIRE(moment.bytes.size() == by.parts.size());
        highest = std::max(highest,
                           std::accumulate(moment.bytes.begin(), moment.bytes.end(), uint64_t{0}));
        CHECK(moment.time_ns >= last);
        last = moment.time_ns;
      }
      CHECK(highest == peak.peak);
    }
  }
  const Stacked::By& tags = found.stacked[0].ways[1];
  REQUIRE(tags.parts == std::vector<std::string>{"weights", "Others"});
  CHECK(tags.moments.size() > 500);
  CHECK(tags.moments.size() <= Stacked::kMostOfOne + 1);
  CHECK(tags.moments.back().bytes[0] == 50'000);
}

TEST_CASE("stacked: what falls is drawn as the sum falls", "[collector]") {
  LogBuilder log;
  const uint32_t stack = log.node(0, 0x1000);
  for (uint64_t i = 0; i < 64; ++i) {
    log.alloc(0, 1000 * (i + 1), 0x10000 * (i + 1), 100, stack);
  }
  for (uint64_t i = 0; i < 60; ++i) log.free(0, 100'000 + 1000 * i, 0x10000 * (i + 1));
  log.alloc(0, 900'000, 0x900000, 50, stack);
  TimedProfile timed(std::move(log));
  const Instants found = live_at_instants(timed.profile, timed.times, 3);
  REQUIRE(found.stacked.size() == 1);
  // Wherever the run is looked at, the parts add up to what the sum is in that stretch.
  constexpr size_t kStretch = 3;
  const Series& sum = *timed.times.find("host");
  for (size_t bucket = 0; bucket < sum.buckets.size(); ++bucket) {
    const int64_t end = timed.times.begin_ns(bucket + 1, timed.profile.replay().log().clock());
    uint64_t drawn = 0;
    for (const Stacked::Moment& moment : found.stacked[0].ways[0].moments) {
      if (moment.time_ns < end)
        drawn = std::accumulate(moment.bytes.begin(), moment.bytes.end(), uint64_t{0});
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t near = bucket - std::min(bucket, kStretch);
         near <= std::min(bucket + kStretch, sum.buckets.size() - 1); ++near) {
      least = std::min(least, sum.buckets[near].min);
      most = std::max(most, sum.buckets[near].max);
    }
    INFO(bucket);
    CHECK(drawn >= least);
    CHECK(drawn <= most);
  }
  CHECK(std::accumulate(found.stacked[0].ways[0].moments.back().bytes.begin(),
                        found.stacked[0].ways[0].moments.back().bytes.end(), uint64_t{0}) == 450);
}

TEST_CASE("stacked: a device's pools are told by who uses them", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  const uint32_t pool = log.string("PyTorch"), use = log.node(0, 0x200);
  log.device(0, 80 << 20, std::string(16, '\1'), "Test GPU");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(pool).u(0).u(0).s("").u(1));
  log.device_alloc(0, 2, 100, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB, 0, log.node(0, 0x100));
  log.event(0, 3, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(100 * kMiB).u(12 * kMiB).u(0).u(use).u(0).u(0));
  TimedProfile timed(std::move(log));
  const Instants found = live_at_instants(timed.profile, timed.times, 3);
  REQUIRE(found.stacked.size() == 1);
  const Stacked::By& by = found.stacked[0].ways[0];
  REQUIRE(by.parts.size() == 3);
  CHECK(by.parts[0] == "0x200");
  CHECK(by.parts[1] == "idle in PyTorch's pool");
  CHECK(by.moments.back().bytes == std::vector<uint64_t>{12 * kMiB, 8 * kMiB, 0});
  CHECK(std::accumulate(by.moments.back().bytes.begin(), by.moments.back().bytes.end(),
                        uint64_t{0}) == 20 * kMiB);
}

TEST_CASE("instants: a log without events has none", "[collector]") {
  TimedProfile log{LogBuilder()};
  CHECK(live_at_instants(log.profile, log.times, 5).instants.empty());
}

TEST_CASE("page: every table of every peak adds up to it, whatever its rows are", "[collector]") {
  const Json page = Json::parse(page_of(waves()));
  REQUIRE(page["scopes"].size() >= 8);
  for (const Json& scope : page["scopes"]) {
    CHECK(scope["tables"].size() >= 6);
    for (const auto& [by, table] : scope["tables"].items()) {
      INFO(scope["name"] << " by " << by);
      uint64_t sum = table["other_bytes"].get<uint64_t>();
      for (const Json& row : table["rows"]) sum += row[2].get<uint64_t>();
      CHECK(sum == scope["bytes"].get<uint64_t>());
    }
    CHECK(scope["flame"][1] == scope["bytes"]);
  }
  for (const Json& side : page["live_at_exit"]) {
    INFO(side["scope"]);
    if (side["bytes"] > 0)
      CHECK(side["flame"][1] == side["bytes"]);
    else
      CHECK(side["flame"].is_null());
  }
}

TEST_CASE("page: no name ends the script that holds the data", "[collector]") {
  if (page_template().empty()) {
    CHECK_THROWS_AS(require_page(), std::runtime_error);
    return;
  }
  LogBuilder log = one_block(5, "</script><!--<script>\xe2\x80\xa8\xe2\x80\xa9");
  log.fact("arg", "</ScRiPt\n>\xff");
  const std::string run = page_of(std::move(log));
  std::ostringstream out;
  write_page("runs", {run, run}, "1.2.3", out);
  const std::string html = out.str();
  const std::string open = "id=\"data\">";
  const size_t begin = html.find(open) + open.size();
  const std::string data = html.substr(begin, html.find("</script>", begin) - begin);
  CHECK(data.find('<') == std::string::npos);
  CHECK(data.find("\xe2\x80\xa8") == std::string::npos);
  const Json json = Json::parse(data);
  CHECK(json["runs"].size() == 2);
  CHECK(json["version"] == "1.2.3");
  CHECK(json["runs"][0]["log"] == Json::parse(run)["log"]);
  CHECK(json["runs"][0]["phases"][0]["name"].get<std::string>().starts_with("</script><!--"));
}

TEST_CASE("compare: a column a run, absent where a run has nothing", "[collector]") {
  const TemporaryFile a, b;
  Profiles runs;
  runs.push_back(std::make_unique<Profile>(one_block(10 * kMiB, "load").save(a.path())));
  runs.push_back(std::make_unique<Profile>(one_block(30 * kMiB, "run").save(b.path())));
  std::ostringstream out;
  write_compare(runs, "", 5, out, kAsJson);
  const Json json = Json::parse(out.str());
  CHECK(json["schema"] == "gpupeak.compare/1");
  CHECK(json["scope"] == "host");
  CHECK(json["peaks"][0] == Json({{"scope", "host"}, {"bytes", {10 * kMiB, 30 * kMiB}}}));
  CHECK(json["phases"][0] == Json({{"phase", "load"}, {"bytes", {10 * kMiB, nullptr}}}));
  CHECK(json["phases"][1] == Json({{"phase", "run"}, {"bytes", {nullptr, 30 * kMiB}}}));
  CHECK(json["sites"][0]["bytes"] == Json({10 * kMiB, 30 * kMiB}));
  CHECK_THROWS_AS(write_compare(runs, "device:3", 5, out, kAsJson), UsageError);
  for (const int width : {60, 100}) {
    std::ostringstream text;
    write_compare(runs, "", 5, text, TextStyle{false, width});
    std::istringstream lines(text.str());
    for (std::string line; std::getline(lines, line);) {
      CHECK(display_width(line) <= static_cast<size_t>(width) + 20);
    }
    CHECK(text.str().find("–") != std::string::npos);
  }
}

namespace {

/// An arena of `steps` blocks, each of which takes the place of an older one; in the end its
/// segments go back to the driver, half of them with blocks in them.
LogBuilder churning_arena(uint64_t steps, uint64_t live) {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, "", "Test GPU");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(log.string("Pool")).u(0).u(0).s("").u(1));
  uint64_t time = 10;
  for (uint64_t id = 1; id <= 20; ++id) {
    log.device_alloc(0, time += 10, id, GPUPEAK_KIND_LINEAR, 0, kMiB, 0, log.node(0, 0x100));
  }
  const uint64_t room = 20 * kMiB / live;
  for (uint64_t i = 0; i < steps; ++i) {
    const uint64_t at = kMiB + (i * 7919 % live) * room / 512 * 512;
    if (i >= live) {
      log.event(0, time += 10, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at).u(0).u(0).u(0));
    }
    log.event(0, time += 10, GPUPEAK_REC_ARENA_ALLOC,
              Fields()
                  .u(1)
                  .u(at)
                  .u(512 + i % 5 * (room / 10))
                  .u(0)
                  .u(log.node(0, 0x200 + i % 9))
                  .u(0)
                  .u(0));
  }
  for (uint64_t id = 1; id <= 20; ++id) log.device_free(0, time += 10, id);
  return log;
}

struct ArenaSums {
  uint64_t in_use = 0, several = 0, segments = 0;
};
ArenaSums sums_at(const ArenaHistory& history, uint32_t step) {
  ArenaSums sums;
  for (const auto& block : history.blocks) {
    if (block.first <= step && step < block.end) sums.in_use += block.bytes;
  }
  for (const auto& run : history.several) {
    if (run.step != step) continue;
    sums.in_use += run.bytes;
    ++sums.several;
  }
  for (const auto& segment : history.segments) {
    if (segment.first <= step && step < segment.end) sums.segments += segment.bytes;
  }
  return sums;
}

ArenaHistory history_of(LogBuilder log) {
  TimedProfile timed(std::move(log));
  return arena_history(timed.profile, timed.times, live_at_instants(timed.profile, timed.times, 5));
}

/// At each step all pieces of the only arena add up to its own figures. How many steps left blocks
/// out.
size_t check_arena_sums(const ArenaHistory& history) {
  REQUIRE(history.arenas.size() == 1);
  ArenaHistory::Level level;
  size_t level_at = 0, with_several = 0;
  for (uint32_t step = 0; step < history.steps.size(); ++step) {
    for (; level_at < history.levels.size() && history.levels[level_at].step <= step; ++level_at) {
      level = history.levels[level_at];
    }
    const ArenaSums sums = sums_at(history, step);
    CHECK(sums.in_use == level.in_use);
    CHECK(sums.segments == level.reserved);
    with_several += sums.several > 0 ? 1 : 0;
  }
  return with_several;
}

}  // namespace

TEST_CASE("page: blocks that follow each other at an address have uses of their own",
          "[collector]") {
  constexpr uint64_t kLive = 20, kApart = 100;
  const uint64_t steps = GENERATE(uint64_t{300}, uint64_t{50'000});  // all changes, chosen instants
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, "", "Test GPU");
  log.fact("last_use", "on");
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(log.string("Pool")).u(0).u(0).s("").u(1));
  log.device_alloc(0, 2, 1, GPUPEAK_KIND_LINEAR, 0, kLive * kMiB);
  const uint32_t site = log.node(0, 0x200);
  uint64_t time = 1000;
  for (uint64_t i = 0; i < steps; ++i, time += kApart) {
    const uint64_t at = kMiB + i % kLive * kMiB;
    if (i >= kLive) {
      log.used(0, time, 1, at, 2, time - kLive * kApart + 10, time - 10);
      log.event(0, time, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at).u(0).u(0).u(0));
    }
    log.event(0, time + 1, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(1).u(at).u(kMiB).u(0).u(site).u(0).u(0));
  }
  log.event(0, time, GPUPEAK_REC_USES_END, Fields().u(0).u(0));
  const ArenaHistory history = history_of(std::move(log));
  CHECK(history.every == (steps == 300));
  REQUIRE(history.uses.size() == history.blocks.size());
  size_t with_uses = 0;
  for (size_t i = 0; i < history.blocks.size(); ++i) {
    const ArenaHistory::Uses& uses = history.uses[i];
    if (uses.count == 0) continue;
    ++with_uses;
    for (uint32_t step = history.blocks[i].first; step < history.blocks[i].end; ++step) {
      CHECK(history.steps[step].time_ns >= uses.first_ns - 10);
      CHECK(history.steps[step].time_ns <= uses.last_ns + 10);
    }
  }
  CHECK(with_uses >= std::min<size_t>(history.steps.size() / 2, 280));
}

TEST_CASE("page: of few changes of pools every instant is there", "[collector]") {
  const ArenaHistory history = history_of(churning_arena(400, 100));
  CHECK(history.every);
  CHECK(history.steps.size() == 720);
  CHECK(check_arena_sums(history) == 0);
}

TEST_CASE("page: of many changes of pools there are chosen instants, bounded, and whole",
          "[collector]") {
  const ArenaHistory history = history_of(churning_arena(60'000, 5000));
  CHECK(!history.every);
  CHECK(history.steps.size() > 20);
  CHECK(history.steps.size() <= kMaxArenaInstants);
  CHECK(history.blocks.size() <= kMaxArenaBlocks);
  CHECK(check_arena_sums(history) > 10);
  CHECK(history.steps.back().reason.find("the end") != std::string::npos);
  CHECK(std::any_of(history.steps.begin(), history.steps.end(),
                    [](const auto& step) { return step.reason.starts_with("peak of Pool"); }));
  for (const ArenaHistory::Several& run : history.several) {
    CHECK(run.end - run.begin >= run.bytes);
  }
}

TEST_CASE("page: of thousands of segments with left out blocks the largest are shown",
          "[collector]") {
  constexpr uint64_t kSegments = 3000, kShownSlots = 3;
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(log.string("Pool")).u(0).u(0).s("").u(1));
  uint64_t time = 10;
  for (uint64_t id = 1; id <= kSegments; ++id) {
    log.device_alloc(0, time += 10, id, GPUPEAK_KIND_LINEAR, 0, 4096 + id % 7 * 512);
  }
  for (uint64_t i = 0; i < 30'000; ++i) {
    const uint64_t slot = i * 7919 % (kSegments * kShownSlots);
    const uint64_t at = (1 + slot % kSegments) * kMiB + slot / kSegments * 1024;
    if (i >= kSegments * kShownSlots) {
      log.event(0, time += 10, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at).u(0).u(0).u(0));
    }
    log.event(0, time += 10, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(1).u(at).u(256 + i % 3 * 256).u(0).u(log.node(0, 0x200)).u(0).u(0));
  }
  const ArenaHistory history = history_of(std::move(log));
  CHECK(!history.every);
  CHECK(history.several.size() < kMaxArenaSeveral * 3 / 2);
  uint64_t left_out = 0;
  for (const ArenaHistory::Holes& holes : history.holes) {
    left_out += holes.left_out_segments;
    uint64_t reserved = 0;
    for (const auto& level : history.levels) {
      if (level.step <= holes.step) reserved = level.reserved;
    }
    CHECK(sums_at(history, holes.step).segments + holes.left_out_bytes == reserved);
  }
  CHECK(left_out > 0);
}
