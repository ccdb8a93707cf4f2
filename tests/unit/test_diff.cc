// Two runs compared, and limits that a run must keep.
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/summary/diff.h"
#include "collector/summary/gate.h"
#include "collector/summary/site_title.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// One device, one site of `weights` and one of `workspace` bytes, at addresses that differ from
/// build to build by `shift`.
Summary run_of(uint64_t weights, uint64_t workspace, uint64_t shift = 0,
               uint32_t host_mode = GPUPEAK_HOST_FULL) {
  LogBuilder log(host_mode);
  log.fact("arg", "/opt/bench");
  const uint32_t load = log.string("load");
  const uint64_t base = 0x100000 + shift;
  log.module("/opt/libengine.so", "", base, base, 0x10000);
  log.module("/opt/libnet.so", "", base + 0x100000, base + 0x100000, 0x10000);
  const uint32_t in_engine = log.node(0, base + 0x100 + shift % 256);
  const uint32_t in_net = log.node(0, base + 0x100100 + shift % 256);
  log.phase_push(0, 0, false, load);
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, weights, 0, in_engine);
  log.device_alloc(0, 2, 2, GPUPEAK_KIND_POOL, 0, workspace, 0, in_net);
  log.alloc(0, 3, 0x1000, 100, in_net);
  const TemporaryFile file;
  Options options;
  options.top = kAllRows;
  Summary summary = analyze(log.save(file.path()), options);
  summary.quality.warnings.clear();
  return summary;
}

Summary through_json(const Summary& summary) {
  std::ostringstream json;
  write_json(summary, json);
  return summary_from_json(json.str(), "x.json");
}

const SiteDiff& site(const PeakDiff& peak, const std::string& module) {
  for (const SiteDiff& row : peak.sites) {
    if (row.title.find(module) != std::string::npos) return row;
  }
  FAIL("no site of " << module);
  return peak.sites.front();
}

GateResult judge(const Gate& gate, const Summary& summary, const Summary* baseline = nullptr) {
  return check_gates({gate}, summary, baseline).front();
}

}  // namespace

TEST_CASE("diff: sites add up to the change of the peak", "[collector]") {
  const PeakDiff peak =
      diff_peak(run_of(100 * kMiB, 20 * kMiB), run_of(90 * kMiB, 70 * kMiB), "device:0");
  CHECK(peak.a_bytes == 120 * kMiB);
  CHECK(peak.b_bytes == 160 * kMiB);
  uint64_t a = 0, b = 0;
  for (const SiteDiff& row : peak.sites) a += row.a_bytes, b += row.b_bytes;
  CHECK(a == peak.a_bytes);
  CHECK(b == peak.b_bytes);
  CHECK(peak.sites.front().kind == "device.pool");  // the largest change
  CHECK(peak.sites.front().grew());
  CHECK(peak.sites.front().change() == 50 * kMiB);
}

TEST_CASE("diff: functions without names are matched by their module in another build",
          "[collector]") {
  const PeakDiff peak =
      diff_peak(run_of(100 * kMiB, 20 * kMiB), run_of(100 * kMiB, 30 * kMiB, 0x5040), "device:0");
  REQUIRE(peak.sites.size() == 2);
  CHECK(site(peak, "libengine.so").change() == 0);
  CHECK(site(peak, "libnet.so").change() == 10 * kMiB);
}

namespace {

struct Place {
  const char* function;
  const char* file;
  int line;
  uint64_t bytes;
};

/// A summary of one peak with these sites.
Summary with_sites(const std::vector<Place>& places) {
  Summary summary;
  Peak& peak = summary.peaks.emplace_back();
  peak.scope = "host";
  for (const Place& place : places) {
    Holder& row = peak.holders.emplace_back();
    Frame frame;
    frame.function = place.function;
    frame.module = "app";
    frame.offset = static_cast<uint64_t>(place.line);
    if (*place.function != 0) frame.file = place.file, frame.line = place.line;
    row.parts = {{frame, *place.function == 0 ? 1U : 0U}};
    row.kind = "host.heap";
    row.bytes = place.bytes;
    row.count = 1;
    peak.bytes += place.bytes;
  }
  tell_apart(peak.holders);
  summary.metrics["host.peak_bytes"] = peak.bytes;
  return summary;
}

using SiteChanges = std::vector<std::tuple<std::string, uint64_t, uint64_t>>;
SiteChanges changes(const Summary& a, const Summary& b) {
  SiteChanges rows;
  const PeakDiff peak = diff_peak(a, b, "host");
  uint64_t of_a = 0, of_b = 0;
  for (const SiteDiff& site : peak.sites) {
    rows.emplace_back(site.title, site.a_bytes, site.b_bytes);
    of_a += site.a_bytes;
    of_b += site.b_bytes;
  }
  CHECK(of_a == peak.a_bytes);
  CHECK(of_b == peak.b_bytes);
  return rows;
}

}  // namespace

TEST_CASE("diff: a site is the same one when the source was edited around it", "[collector]") {
  const Summary a = with_sites({{"f(int)", "/a/x.cc", 10, 100}, {"f(int)", "/a/x.cc", 20, 50}});
  // Built elsewhere, two lines further down, and the second one has grown.
  const Summary b = with_sites({{"f(int)", "/b/x.cc", 12, 100}, {"f(int)", "/b/x.cc", 22, 70}});
  CHECK(changes(a, b) == SiteChanges{{"f x.cc:22", 50, 70}, {"f x.cc:12", 100, 100}});
  CHECK(changes(a, a) == SiteChanges{{"f x.cc:10", 100, 100}, {"f x.cc:20", 50, 50}});
  // One more, and which one it is nobody knows: the function's together.
  const Summary more = with_sites({{"f(int)", "/b/x.cc", 12, 100},
                                   {"f(int)", "/b/x.cc", 22, 50},
                                   {"f(int)", "/b/x.cc", 30, 7}});
  CHECK(changes(a, more) == SiteChanges{{"f", 150, 157}});
  // One more where nothing moved is a new one.
  const Summary added = with_sites({{"f(int)", "/a/x.cc", 10, 100},
                                    {"f(int)", "/a/x.cc", 20, 50},
                                    {"f(int)", "/a/x.cc", 30, 7}});
  CHECK(changes(a, added) ==
        SiteChanges{{"f x.cc:30", 0, 7}, {"f x.cc:10", 100, 100}, {"f x.cc:20", 50, 50}});
}

TEST_CASE("diff: instantiations are not taken for each other", "[collector]") {
  const Summary a = with_sites({{"void f<std::vector<float> >()", "/a/x.cc", 3, 10}});
  const Summary b = with_sites({{"void f<std::vector<double> >()", "/a/x.cc", 3, 20}});
  CHECK(changes(a, b) ==
        SiteChanges{{"f<vector<double>> x.cc:3", 0, 20}, {"f<vector<float>> x.cc:3", 10, 0}});
}

TEST_CASE("diff: rows of an older summary, which has titles alone, are matched by these",
          "[collector]") {
  Summary old = with_sites({{"f(int)", "/a/x.cc", 10, 100}});
  old.peaks[0].holders[0].parts.clear();
  old.peaks[0].holders[0].title = "f";
  CHECK(changes(old, with_sites({{"f(int)", "/a/x.cc", 12, 110}})) ==
        SiteChanges{{"f x.cc:12", 100, 110}});
}

TEST_CASE("diff: that one side has no names is said", "[collector]") {
  const Summary named = with_sites({{"f(int)", "/a/x.cc", 10, 100}});
  const Summary nameless = with_sites({{"", "", 16, 100}});
  CHECK(nameless_text(diff_peak(named, nameless, "host")).starts_with("100.0 % of B has no names"));
  CHECK(nameless_text(diff_peak(nameless, named, "host")).starts_with("100.0 % of A has no names"));
  CHECK(nameless_text(diff_peak(named, named, "host")).empty());
  CHECK(nameless_text(diff_peak(nameless, nameless, "host")).empty());
  std::ostringstream text;
  write_diff(named, nameless, 10, text);
  CHECK(text.str().find("100.0 % of B has no names") != std::string::npos);
  const Summary more = with_sites({{"", "", 16, 200}});
  const GateResult gate = judge(parse_max_increase("host.peak_bytes=10B"), more, &named);
  REQUIRE_FALSE(gate.passed);
  CHECK(gate.reasons.front().find("100.0 % of B has no names") != std::string::npos);
}

TEST_CASE("diff: what was not measured is no change", "[collector]") {
  const Diff changes = diff(run_of(kMiB, kMiB), run_of(kMiB, kMiB, 0, GPUPEAK_HOST_OFF));
  for (const PeakDiff& peak : changes.peaks) {
    if (peak.scope != "host") continue;
    CHECK(peak.a_bytes == 100);
    CHECK_FALSE(peak.b_bytes);
  }
  std::ostringstream json;
  write_diff(run_of(kMiB, kMiB), run_of(kMiB, kMiB, 0, GPUPEAK_HOST_OFF), 10, json, kAsJson);
  const auto read = nlohmann::json::parse(json.str());
  CHECK(read["metrics"]["host.peak_bytes"]["change"].is_null());
  CHECK(read["metrics"]["device.peak_bytes"]["change"] == 0);
}

TEST_CASE("diff: phases of one side are said to be", "[collector]") {
  Summary a = run_of(kMiB, kMiB);
  const Summary b = a;
  a.phases.front().name = "init";
  const Diff changes = diff(a, b);
  REQUIRE(changes.phases.size() == 2);
  CHECK(changes.phases[0].name == "load");
  CHECK_FALSE(changes.phases[0].in_a);
  CHECK(changes.phases[1].name == "init");
  CHECK_FALSE(changes.phases[1].in_b);
}

TEST_CASE("diff: a summary read from its JSON differs in nothing", "[collector]") {
  const Summary summary = run_of(100 * kMiB, 20 * kMiB);
  const Summary read = through_json(summary);
  std::ostringstream first, second;
  write_diff(summary, summary, 10, first, kAsJson);
  Summary renamed = read;
  renamed.log_path = summary.log_path;
  write_diff(renamed, renamed, 10, second, kAsJson);
  CHECK(first.str() == second.str());
  for (const PeakDiff& peak : diff(summary, read).peaks) {
    for (const SiteDiff& row : peak.sites) CHECK(row.change() == 0);
  }
}

TEST_CASE("diff: a JSON with few rows says so, and still adds up", "[collector]") {
  Summary a = run_of(100 * kMiB, 20 * kMiB);
  for (Peak& peak : a.peaks) {
    while (peak.holders.size() > 1) {
      peak.other_bytes += peak.holders.back().bytes;
      peak.holders.pop_back();
    }
  }
  // What A lists nothing of is no larger than what it lists: perhaps nothing has changed.
  const PeakDiff same = diff_peak(a, run_of(100 * kMiB, 20 * kMiB), "device:0");
  REQUIRE(same.sites.size() == 1);
  CHECK(same.sites.front().change() == 0);
  const PeakDiff grown = diff_peak(a, run_of(100 * kMiB, 200 * kMiB), "device:0");
  REQUIRE(grown.sites.size() == 2);
  CHECK(grown.sites.front().unlisted);
  std::ostringstream text;
  write_diff(a, run_of(100 * kMiB, 50 * kMiB), 10, text);
  CHECK(text.str().find("A lists only its largest sites") != std::string::npos);
  CHECK(text.str().find("residual 0") != std::string::npos);
}

TEST_CASE("load_summary: what is no summary is refused", "[collector]") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      summary_from_json(text, "x.json");
    } catch (const LogError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message("{").find("damaged") != std::string::npos);
  CHECK(message("{}").find("no summary") != std::string::npos);
  CHECK(message(R"({"schema":"gpupeak.summary/2"})").find("newer") != std::string::npos);
  CHECK_FALSE(message(R"({"schema":"gpupeak.summary/1","metrics":{"a":-1}})").empty());
  CHECK_FALSE(message(R"({"schema":"gpupeak.summary/1","metrics":{"a":1.5}})").empty());
  CHECK_FALSE(message(R"({"schema":"gpupeak.summary/1","metrics":[1]})").empty());
  CHECK_FALSE(message(R"({"schema":"gpupeak.summary/1","peaks":[{"holders":[7]}]})").empty());
  CHECK_FALSE(message(R"({"schema":"gpupeak.summary/1","run":{"command":[7]}})").empty());
}

TEST_CASE("load_summary: rows of another grouping are not compared", "[collector]") {
  Summary summary = run_of(kMiB, kMiB);
  summary.grouped_by = "module";
  std::ostringstream json;
  write_json(summary, json);
  const TemporaryFile file;
  const std::string text = json.str();
  file.write({text.begin(), text.end()});
  CHECK_THROWS_AS(load_summary(file.path()), UsageError);
  Options by_module;
  by_module.by = GroupBy::kModule;
  CHECK(load_summary(file.path(), by_module).grouped_by == "module");
}

TEST_CASE("gate: sizes", "[collector]") {
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("8GiB") == UINT64_C(8) << 30);
  CHECK(parse_size("500MB") == 500'000'000);
  CHECK(parse_size("1.5 KiB") == 1536);
  CHECK(parse_size("9007199254740993") == 9'007'199'254'740'993);  // no double holds it
  for (const char* wrong : {"", "8G", "GiB", "-1", "1e3", "nan", "8 GiB!", "99999999TiB", "0x10"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_size(wrong), UsageError);
  }
}

TEST_CASE("gate: a limit is kept up to its last byte", "[collector]") {
  const Summary summary = run_of(100, 28);
  CHECK(judge(parse_max("device.peak_bytes=128"), summary).passed);
  CHECK_FALSE(judge(parse_max("device.peak_bytes=127"), summary).passed);
  CHECK(judge(parse_max("device.peak_bytes@device:0=128"), summary).passed);
  CHECK(judge(parse_max("device.peak_bytes@phase:load=128"), summary).passed);
  CHECK_FALSE(judge(parse_max("device.kind.pool.peak_bytes=27"), summary).passed);
}

TEST_CASE(
    "gates: a limit on device memory is not kept by a run without a device, unless that is "
    "allowed") {
  Summary summary;
  summary.metrics["device.peak_bytes"] = 0;
  summary.metrics["host.peak_bytes"] = 5;
  const Gate gate = parse_max("device.peak_bytes=1GiB");
  const GateResult result = judge(gate, summary);
  CHECK_FALSE(result.passed);
  CHECK(result.message.find("the log has no device") != std::string::npos);
  CHECK(check_gates({gate}, summary, nullptr, NoDevice::kIsZero).front().passed);
  CHECK(judge(parse_max("host.peak_bytes=5"), summary).passed);
}

TEST_CASE("gate: an increase is measured from the baseline", "[collector]") {
  const Summary before = run_of(1000, 0);
  const Summary after = run_of(1000, 20);
  CHECK(judge(parse_max_increase("device.peak_bytes=2%"), after, &before).passed);
  CHECK_FALSE(judge(parse_max_increase("device.peak_bytes=1.9%"), after, &before).passed);
  CHECK(judge(parse_max_increase("device.peak_bytes=20B"), after, &before).passed);
  CHECK_FALSE(judge(parse_max_increase("device.peak_bytes=19B"), after, &before).passed);
  CHECK(judge(parse_max_increase("device.peak_bytes=0%"), before, &after).passed);  // it shrank
  CHECK_THROWS_AS(judge(parse_max_increase("device.peak_bytes=2%"), after), UsageError);
}

TEST_CASE("gate: what was not measured never passes", "[collector]") {
  const Summary off = run_of(1, 1, 0, GPUPEAK_HOST_OFF);
  const Summary full = run_of(1, 1);
  const GateResult max = judge(parse_max("host.peak_bytes=8TiB"), off);
  CHECK_FALSE(max.passed);
  CHECK(max.message.find("not measured") != std::string::npos);
  CHECK_FALSE(judge(parse_max_increase("host.peak_bytes=900%"), off, &full).passed);
  CHECK_FALSE(judge(parse_max_increase("host.peak_bytes=900%"), full, &off).passed);
  Summary old = full;
  old.metrics.erase("host.rss.peak_bytes");
  CHECK_FALSE(judge(parse_max_increase("host.rss.peak_bytes=1%"), full, &old).passed);
}

TEST_CASE("gate: what is not there is a mistake of the caller", "[collector]") {
  const Summary summary = run_of(1, 1);
  CHECK_THROWS_AS(judge(parse_max("device.peak=1"), summary), UsageError);
  CHECK_THROWS_AS(judge(parse_max("device.peak_bytes@device:7=1"), summary), UsageError);
  CHECK_THROWS_AS(judge(parse_max("device.peak_bytes@phase:run=1"), summary), UsageError);
  for (const char* wrong : {"device.peak_bytes", "=1", "device.peak_bytes=", "a@b=1"}) {
    CHECK_THROWS_AS(parse_max(wrong), UsageError);
  }
}

TEST_CASE("gate: a broken one names the sites that grew", "[collector]") {
  const Summary before = run_of(100 * kMiB, 20 * kMiB);
  const Summary after = run_of(100 * kMiB, 60 * kMiB, 0x5040);
  const GateResult broken = judge(parse_max_increase("device.peak_bytes=1%"), after, &before);
  REQUIRE(broken.reasons.size() == 1);
  CHECK(broken.reasons.front().find("+40.0 MiB") == 0);
  CHECK(broken.reasons.front().find("libnet.so") != std::string::npos);
  const GateResult too_large = judge(parse_max("device.peak_bytes=1"), after);
  REQUIRE(too_large.reasons.size() == 2);
  CHECK(too_large.reasons.front().find("libengine.so") != std::string::npos);
}

TEST_CASE("gate: names are harmless in XML and Markdown", "[collector]") {
  Summary summary = run_of(1, 1);
  summary.run.command = {"/opt/a<b>|`&\"c"};
  for (Peak& peak : summary.peaks) {
    for (Holder& holder : peak.holders) holder.title = "<img src=x>|[a](b)\"'&";
  }
  const std::vector<GateResult> results =
      check_gates({parse_max("device.peak_bytes=1")}, summary, nullptr);
  std::ostringstream xml, markdown;
  write_junit(summary, results, xml);
  write_markdown(summary, results, markdown);
  for (const std::string& text : {xml.str(), markdown.str()}) {
    CHECK(text.find("<img") == std::string::npos);
    CHECK(text.find("&lt;img src=x&gt;") != std::string::npos);
  }
  CHECK(markdown.str().find("|&") == std::string::npos);
  CHECK(xml.str().find("failures=\"1\"") != std::string::npos);
}
