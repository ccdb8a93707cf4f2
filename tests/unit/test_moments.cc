// A moment that is named (`--at`): what was live then, by holder, to the byte; and what moved
// between two.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/export/export.h"
#include "collector/text/error.h"
#include "collector/timeline/moment.h"
#include "collector/views/views.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// GPU 0: what is outside of the arena, then 20 MiB that it shares out; GPU 1: one block; host:
/// one. Ends and begins, marks and phases lie between changes, so that each moment has a sum of its
/// own.
class Run {
 public:
  Run() {
    log.device(0, 80'000 * kMiB, std::string(16, '\1'), "Test GPU");
    log.device(1, 80'000 * kMiB, std::string(16, '\2'), "Test GPU");
    const uint32_t arena = log.string("PyTorch"), step = log.string("step");
    const uint32_t weights = log.node(0, 0x100), grow = log.node(0, 0x200);
    const uint32_t use = log.node(0, 0x300), cache = log.node(0, 0x400);
    log.event(0, 1, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(arena).u(0).u(0).s("").u(1));
    alloc(10, 100, 20, 0, grow);
    alloc(20, 200, 3, 0, weights);
    give(25, 100, 8, use);
    mark(30, "warm");
    log.phase_push(0, 35, false, step);
    alloc(40, 300, 5, 0, cache);
    alloc(50, 400, 7, 1, cache);
    give(55, 110, 4, use);
    release(60, 300, 5, 0);
    log.phase_pop(0, 65, false);
    mark(70, "warm");
    log.phase_push(0, 75, false, step);
    alloc(80, 500, 1, 0, weights);
    log.phase_pop(0, 85, false);
    alloc(90, 600, 2, 0, cache);
    log.event(0, 95, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(110 * kMiB));
    log.alloc(0, 96, 0x1000, 1000, weights);
    mark(97, "done.end");
    release(99, 200, 3, 0);
    profile.emplace(log.save(file_.path()));
  }

  /// By the list of changes alone.
  uint64_t device_bytes(int device, uint64_t time) const {
    int64_t sum = 0;
    for (const Change& change : changes_)
      sum += change.device == device && change.time <= time ? change.bytes : 0;
    return static_cast<uint64_t>(sum);
  }

  LogBuilder log;
  std::optional<Profile> profile;

 private:
  struct Change {
    uint64_t time;
    int device;
    int64_t bytes;
  };
  void alloc(uint64_t time, uint64_t id, uint64_t mib, int device, uint32_t stack) {
    log.device_alloc(0, time, id, GPUPEAK_KIND_LINEAR, device, mib * kMiB, 0, stack);
    changes_.push_back({time, device, static_cast<int64_t>(mib * kMiB)});
  }
  void release(uint64_t time, uint64_t id, uint64_t mib, int device) {
    log.device_free(0, time, id);
    changes_.push_back({time, device, -static_cast<int64_t>(mib * kMiB)});
  }
  void give(uint64_t time, uint64_t at, uint64_t mib, uint32_t stack) {
    in_use_ += mib;
    log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
              Fields()
                  .u(1)
                  .u(at * kMiB)
                  .u(mib * kMiB)
                  .u(0)
                  .u(stack)
                  .u(in_use_ * kMiB + 1)
                  .u(20 * kMiB + 1));
  }
  void mark(uint64_t time, const char* name) {
    log.event(0, time, GPUPEAK_REC_MARK, Fields().u(2).u(log.string(name)).u(0).u(0).s(""));
  }

  TemporaryFile file_;
  std::vector<Change> changes_;
  uint64_t in_use_ = 0;
};

uint64_t sum_of(const Held& held) {
  uint64_t sum = 0;
  for (const Contribution& part : held.parts.outside) sum += part.bytes;
  for (const ArenaPart& part : held.parts.in_arenas) sum += part.bytes;
  return sum;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("moments: at any time what is live adds up to the log's own sum", "[collector]") {
  Run run;
  for (uint64_t time = 0; time <= 99; ++time) {
    for (const int device : {0, 1}) {
      const ScopeId scope = run.profile->scope("device:" + std::to_string(device));
      const Held held = held_at(*run.profile, scope, "+" + std::to_string(time) + "ns");
      INFO(time << " " << device);
      CHECK(held.bytes == run.device_bytes(device, time));
      CHECK(sum_of(held) == held.bytes);
      CHECK(held.time_ns == static_cast<int64_t>(time));
    }
  }
}

TEST_CASE("moments: arenas show what was in use and idle then", "[collector]") {
  Run run;
  const ScopeId scope = run.profile->scope("device:0");
  for (const auto& [at, in_use, outside] :
       {std::tuple{"+30ns", 8, 3}, {"+58ns", 12, 8}, {"+95ns", 8, 6}, {"end", 8, 3}}) {
    const Held held = held_at(*run.profile, scope, at);
    std::map<bool, uint64_t> by_idle;
    for (const ArenaPart& part : held.parts.in_arenas) by_idle[part.is_idle()] += part.bytes;
    INFO(at);
    CHECK(by_idle[false] == in_use * kMiB);
    CHECK(by_idle[true] == (20 - in_use) * kMiB);
    CHECK(held.bytes == (20 + outside) * kMiB);
  }
}

TEST_CASE("moments: marks, phases and their ends are what they are called", "[collector]") {
  Run run;
  const ScopeId scope = run.profile->scope("device:0");
  const auto at = [&](const std::string& name) { return held_at(*run.profile, scope, name); };
  const auto is = [&](const Held& held, uint64_t time, const std::string& name) {
    CHECK(held.time_ns == static_cast<int64_t>(time));
    CHECK(held.bytes == run.device_bytes(0, time));
    CHECK(held.moment == name);
  };
  is(at("warm"), 70, "mark warm");  // the last of that name
  is(at("step"), 40, "the highest within step");
  is(at("step.end"), 85, "the end of step");
  is(at("done.end"), 97, "mark done.end");
  is(at("end"), 99, "the end");
  CHECK(at("").is_peak());
  CHECK(at("peak").bytes == run.profile->sum(scope).peak);
  CHECK(at("+0ns").bytes == 0);
  const auto error = [&](const std::string& name) -> std::string {
    try {
      at(name);
    } catch (const UsageError& refused) {
      return refused.what();
    }
    return "";
  };
  CHECK(has(error("stpe"), "no mark and no phase \"stpe\"; did you mean step"));
  CHECK(has(error("step.ends"), "PHASE.end, end and times such as +1.25s"));
  CHECK(has(error("-1s"), "before the log's start"));
  CHECK(has(error("+1s"), "behind the log's end"));
  CHECK(has(error("warm.end"), "no mark and no phase"));
}

TEST_CASE("moments: views and exports of one show what was live then", "[collector]") {
  Run run;
  Profile& profile = *run.profile;
  const ScopeId scope = profile.scope("device:0");
  const Held held = held_at(profile, scope, "warm");
  const Json tree = Json::parse(text_of([&](auto& out) {
    write_tree(profile, held, {0, 0}, out, kAsJson);
  }));
  CHECK(tree["bytes"] == run.device_bytes(0, 70));
  CHECK(tree["moment"] == "mark warm");
  uint64_t calls = tree["other_bytes"].get<uint64_t>();
  for (const Json& call : tree["calls"]) calls += call["bytes"].get<uint64_t>();
  CHECK(calls == run.device_bytes(0, 70));
  CHECK(has(text_of([&](auto& out) { write_tree(profile, held, {}, out, {}); }),
            "LIVE  GPU 0 (Test GPU), device memory: 23.0 MiB at +0.00 s, mark warm"));
  const std::string tags = text_of([&](auto& out) { write_tags(profile, held, 5, out, {}); });
  CHECK(has(tags, "= all that was live"));
  CHECK(!has(tags, "Untrackable"));
  ExportOptions options;
  options.scope = "device:0";
  options.at = "warm";
  std::istringstream folded(text_of([&](auto& out) { export_folded(profile, options, out); }));
  uint64_t sum = 0;
  for (std::string line; std::getline(folded, line);)
    sum += std::stoull(line.substr(line.rfind(' ') + 1));
  CHECK(sum == run.device_bytes(0, 70));
  const Json speedscope =
      Json::parse(text_of([&](auto& out) { export_speedscope(profile, options, out); }));
  CHECK(speedscope["profiles"][0]["endValue"] == run.device_bytes(0, 70));
}

TEST_CASE("moments: all that show one agree with the list of changes, whichever it is",
          "[collector]") {
  Run run;
  Profile& profile = *run.profile;
  const ScopeId scope = profile.scope("device:0");
  const auto sum_of_rows = [](const Json& rows, uint64_t sum) {
    for (const Json& row : rows) sum += row["bytes"].get<uint64_t>();
    return sum;
  };
  for (const auto& [at, time] :
       {std::pair{"+27ns", 27}, {"warm", 70}, {"step", 40}, {"step.end", 85}, {"end", 99}}) {
    INFO(at);
    const uint64_t live = run.device_bytes(0, static_cast<uint64_t>(time));
    const Held held = held_at(profile, scope, at);
    const Json flame = Json::parse(text_of([&](auto& out) {
      write_flame(profile, held, {0, 0}, out, kAsJson);
    }));
    CHECK(flame["bytes"] == live);
    CHECK(flame["flame"]["value"] == live);
    const Json tags =
        Json::parse(text_of([&](auto& out) { write_tags(profile, held, 1, out, kAsJson); }));
    CHECK(tags["bytes"] == live);
    CHECK(sum_of_rows(tags["tags"], 0) == live);
    CHECK(sum_of_rows(tags["entries"], tags["other_bytes"].get<uint64_t>()) == live);
    for (const GroupBy by : {GroupBy::kSite, GroupBy::kModule, GroupBy::kTag}) {
      const Json report = Json::parse(
          text_of([&](auto& out) { write_live(profile, {held}, by, 1, out, kAsJson); }));
      const Json& table = report["scopes"][0];
      CHECK(table["bytes"] == live);
      CHECK(sum_of_rows(table["holders"], table["other_bytes"].get<uint64_t>()) == live);
    }
    ExportOptions options;
    options.scope = "device:0";
    options.at = at;
    std::istringstream csv(text_of([&](auto& out) { export_mxnet_csv(profile, options, out); }));
    double mib = 0;
    for (std::string line; std::getline(csv, line);)
      mib += std::stod(line.substr(line.rfind(',') + 1));
    CHECK(mib * kMiB == live);
    const ArenaInstant instant = arena_instant(profile, ArenaMoments(), at);
    const std::vector<ArenaState> pools = arenas_at(profile, instant, {});
    REQUIRE(pools.size() == 1);
    CHECK(pools[0].level.in_use == (time < 55 ? 8 : time < 95 ? 12 : 8) * kMiB);
    CHECK(pools[0].level.reserved == 20 * kMiB);
  }
}

TEST_CASE("moments: what came, went, grew and shrank is the difference", "[collector]") {
  Run run;
  Profile& profile = *run.profile;
  const std::vector<ScopeId> scopes = sides(profile);
  REQUIRE(scopes.size() == 3);
  std::vector<NamedMoment> moments;
  for (const char* at : {"step", "end"})
    moments.push_back(find_moment(profile, profile.scope("device:0"), at));
  const auto held = held_at(profile, scopes, moments);
  for (const GroupBy by : {GroupBy::kSite, GroupBy::kFunction, GroupBy::kKind}) {
    const Json json = Json::parse(
        text_of([&](auto& out) { write_between(profile, held[0], held[1], by, 5, out, kAsJson); }));
    for (const Json& scope : json["scopes"]) {
      int64_t a = scope["kept_bytes"].get<int64_t>(), b = a;
      for (const char* fate : {"came", "went", "grew", "shrank"}) {
        for (const Json& row : scope[fate]) {
          a += row["a_bytes"].get<int64_t>();
          b += row["b_bytes"].get<int64_t>();
        }
      }
      CHECK(a == scope["a"]["bytes"]);
      CHECK(b == scope["b"]["bytes"]);
    }
  }
  const Json json = Json::parse(text_of([&](auto& out) {
    write_between(profile, held[0], held[1], GroupBy::kSite, 5, out, kAsJson);
  }));
  const Json& gpu = json["scopes"][0];
  CHECK(gpu["scope"] == "device:0");
  REQUIRE(gpu["shrank"].size() == 2);  // of two sites three and two MiB are gone
  CHECK(gpu["shrank"][0]["title"] == "0x400");
  CHECK(gpu["shrank"][0]["a_bytes"] == 5 * kMiB);
  CHECK(gpu["shrank"][0]["b_bytes"] == 2 * kMiB);
  CHECK(json["scopes"][1]["came"][0]["b_bytes"] == 7 * kMiB);
  const std::string text = text_of(
      [&](auto& out) { write_between(profile, held[0], held[1], GroupBy::kSite, 5, out, {}); });
  CHECK(has(text, "SHRANK  -5.00 MiB at 2 sites"));
  CHECK(has(text, "5.00 MiB to 2.00 MiB"));
}
