// The views of one log: what they add up to, and how they fit a terminal.
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/text/error.h"
#include "collector/views/views.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// main calls load (100 + 60 MiB, by two ways) and run (40 MiB, freed; 1 KiB); run leaks 8 MiB of
/// pinned memory. The heap has 3 MiB.
LogBuilder calls() {
  LogBuilder log;
  log.device(0, 141'000 * kMiB, "", "NVIDIA H200");
  const uint32_t main = log.node(0, 0x1000);
  const uint32_t load = log.node(main, 0x2000);
  const uint32_t read = log.node(load, 0x3000);
  const uint32_t copy = log.node(load, 0x4000);
  const uint32_t run = log.node(main, 0x5000);
  const auto device_alloc = [&](uint64_t time, uint64_t id, uint64_t bytes, uint32_t stack) {
    log.device_alloc(0, time, id, GPUPEAK_KIND_LINEAR, 0, bytes, 0, stack);
  };
  device_alloc(1, 1, 100 * kMiB, read);
  device_alloc(2, 2, 60 * kMiB, copy);
  device_alloc(3, 3, 40 * kMiB, run);
  device_alloc(4, 4, 1024, run);
  log.device_free(0, 5, 3);
  log.device_alloc(0, 6, 5, GPUPEAK_KIND_PINNED, 0, 8 * kMiB, 0, run);
  log.alloc(0, 7, 0x1000, 3 * kMiB, main);
  log.alloc(0, 8, 0x8000, 100, main);
  log.free(0, 9, 0x8000);
  log.device_free(0, 5 * kOneSecond, 2);
  return log;
}

class OpenedProfile {
 public:
  explicit OpenedProfile(LogBuilder log) : profile(log.save(file_.path())) {}

 private:
  TemporaryFile file_;

 public:
  Profile profile;
};

void check_adds_up(const Json& node) {
  uint64_t sum = node["other_bytes"].get<uint64_t>();
  if (node.contains("own_bytes")) sum += node["own_bytes"].get<uint64_t>();
  for (const Json& call : node["calls"]) {
    sum += call["bytes"].get<uint64_t>();
    check_adds_up(call);
  }
  CHECK(sum == node["bytes"].get<uint64_t>());
}

}  // namespace

TEST_CASE("profile: the device's peak is what is looked at unasked", "[collector]") {
  OpenedProfile log(calls());
  const auto name = [&](const std::string& scope) {
    return log.profile.scope_info(log.profile.scope(scope)).name;
  };
  CHECK(name("") == "device:0");
  CHECK(name("host/heap") == "host/heap");
  CHECK_THROWS_AS(log.profile.scope("device:7"), UsageError);
  LogBuilder host;
  host.alloc(0, 1, 0x1000, 5);
  OpenedProfile host_log(host);
  CHECK(host_log.profile.scope_info(host_log.profile.scope("")).name == "host");
}

TEST_CASE("profile: a log without any memory has a peak of 0", "[collector]") {
  OpenedProfile log{LogBuilder(GPUPEAK_HOST_OFF)};
  CHECK(log.profile.sum(log.profile.scope("")).peak == 0);
  for (const TextStyle& style : {TextStyle{}, TextStyle{true, 60}}) {
    CHECK(text_of([&](auto& out) {
            write_tree(log.profile, held_at_peak(log.profile, log.profile.scope("")), {}, out,
                       style);
            write_flame(log.profile, held_at_peak(log.profile, log.profile.scope("")), {}, out,
                        style);
            write_leaks(log.profile, "", 5, out, style);
            write_temporary(log.profile, "", 5, out, style);
          }).find("PEAK") != std::string::npos);
  }
}

TEST_CASE("tree: every call is the sum of its parts, however it is cut", "[collector]") {
  OpenedProfile log(calls());
  for (const char* scope : {"device:0", "host", "total"}) {
    for (const TreeCut& cut : {TreeCut{0, 0}, TreeCut{1, 0}, TreeCut{30, 0}, TreeCut{0, 2}}) {
      const ScopeId id = log.profile.scope(scope);
      const Json json = Json::parse(text_of([&](auto& out) {
        write_tree(log.profile, held_at_peak(log.profile, id), cut, out, kAsJson);
      }));
      CHECK(json["bytes"] == log.profile.sum(id).peak);
      check_adds_up(json);
    }
  }
}

TEST_CASE("tree: only branches indent", "[collector]") {
  OpenedProfile log(calls());
  const std::string text = text_of([&](auto& out) {
    write_tree(log.profile, held_at_peak(log.profile, log.profile.scope("")), {}, out, TextStyle{});
  });
  CHECK(text ==
        "PEAK  GPU 0 (H200), device memory: 200 MiB at +0.00 s\n"
        "     size     %        n  call\n"
        "  200 MiB 100.0        4  0x1000\n"
        "  160 MiB  80.0        2  ├ 0x2000\n"
        "  100 MiB  50.0        1  │ ├ 0x3000\n"
        " 60.0 MiB  30.0        1  │ └ 0x4000\n"
        " 40.0 MiB  20.0        2  └ 0x5000\n");
}

TEST_CASE("flame: as wide as the terminal, no cell beyond its caller", "[collector]") {
  OpenedProfile log(calls());
  for (const int width : {60, 100, 200}) {
    const std::string text = text_of([&](auto& out) {
      write_flame(log.profile, held_at_peak(log.profile, log.profile.scope("")), {}, out,
                  TextStyle{false, width});
    });
    std::istringstream lines(text.substr(text.find('[')));
    size_t last = static_cast<size_t>(width);
    for (std::string line; std::getline(lines, line);) {
      CHECK(display_width(line) <= last);
      last = display_width(line);
    }
  }
  const Json json = Json::parse(text_of([&](auto& out) {
    write_flame(log.profile, held_at_peak(log.profile, log.profile.scope("")), TreeCut{0, 0}, out,
                kAsJson);
  }));
  CHECK(json["flame"]["value"] == 200 * kMiB + 1024);
  CHECK(json["flame"]["children"][0]["children"].size() == 2);
}

TEST_CASE("leaks: devices first, then the host, and they add up", "[collector]") {
  OpenedProfile log(calls());
  const Json json =
      Json::parse(text_of([&](auto& out) { write_leaks(log.profile, "", 1, out, kAsJson); }));
  REQUIRE(json["scopes"].size() == 2);
  CHECK(json["scopes"][0]["scope"] == "device:0");
  CHECK(json["scopes"][0]["bytes"] == 100 * kMiB + 1024);
  CHECK(json["scopes"][0]["count"] == 2);
  CHECK(json["scopes"][0]["sites"][0]["bytes"] == 100 * kMiB);
  CHECK(json["scopes"][0]["other_bytes"] == 1024);
  CHECK(json["scopes"][1]["scope"] == "host");
  CHECK(json["scopes"][1]["bytes"] == 11 * kMiB);
  const std::string text =
      text_of([&](auto& out) { write_leaks(log.profile, "host", 5, out, TextStyle{}); });
  CHECK(text.starts_with("LIVE AT EXIT  host memory: 11.0 MiB in 2 blocks\n"));
}

TEST_CASE("temporary: of all allocations of a site", "[collector]") {
  OpenedProfile log(calls());
  const Json json = Json::parse(
      text_of([&](auto& out) { write_temporary(log.profile, "host", 5, out, kAsJson); }));
  CHECK(json["temporary_count"] == 1);
  CHECK(json["alloc_count"] == 3);
  REQUIRE(json["sites"].size() == 1);
  CHECK(json["sites"][0]["temporary_count"] == 1);
  CHECK(json["sites"][0]["alloc_count"] == 2);
}

TEST_CASE("views: losses come before any figure", "[collector]") {
  LogBuilder log = calls();
  log.counters().dropped_events = 12;
  OpenedProfile opened(log);
  const auto check = [&](const std::string& text) {
    CHECK(text.find("12 EVENTS LOST") == 0);
    CHECK(text.find("GP001") != std::string::npos);
  };
  Profile& profile = opened.profile;
  const ScopeId scope = profile.scope("");
  const TextStyle style;
  check(text_of(
      [&](auto& out) { write_tree(profile, held_at_peak(profile, scope), {}, out, style); }));
  check(text_of(
      [&](auto& out) { write_flame(profile, held_at_peak(profile, scope), {}, out, style); }));
  check(text_of([&](auto& out) { write_leaks(profile, "", 5, out, style); }));
  check(text_of([&](auto& out) { write_temporary(profile, "", 5, out, style); }));
}
