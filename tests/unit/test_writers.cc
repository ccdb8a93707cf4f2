// What the writers print. Expected texts lie in tests/golden; GPUPEAK_UPDATE_GOLDEN=1 writes them
// anew.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/write/writers.h"
#include "log_builder.h"
#include "schema_check.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

const std::string kGoldenFolder = GPUPEAK_GOLDEN_FOLDER;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = kGoldenFolder + "/" + name;
  if (getenv("GPUPEAK_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  CHECK(text == read_file(path));
}

Summary summary_of(LogBuilder& log) {
  Options options;
  options.top = 5;
  Summary summary = analyze_log(log, options);
  summary.log_path = "gpupeak.app.4242.gplog";
  std::vector<Warning> warnings;  // names of modules are no concern here
  for (const Warning& warning : summary.quality.warnings) {
    if (warning.code != WarningCode::kModuleMissing) warnings.push_back(warning);
  }
  summary.quality.warnings = warnings;
  return summary;
}

/// A benchmark on one GPU: load, warm-up with a temporary, runs; one failed allocation.
LogBuilder one_gpu() {
  LogBuilder log;
  log.fact("arg", "bench");
  log.fact("arg", "--model\nx");
  log.fact("host", "h1");
  log.fact("label.git", "abc123");
  log.device(0, 141'000 * kMiB, std::string("0123456789abcdef"), "NVIDIA H200");
  log.module("/opt/libengine.so", "", 0x100000, 0x100000, 0x10000);
  const uint32_t start = log.string("start");
  const uint32_t main = log.string("main");
  const uint32_t load = log.string("load");
  const uint32_t run = log.string("run");
  const uint32_t cu_mem_alloc = log.string("cuMemAlloc_v2");
  const uint32_t caller = log.node(0, 0x100100);
  const uint32_t weights = log.node(caller, 0x100200);
  const uint32_t workspace = log.node(caller, 0x100300);
  log.phase_push(0, 0, true, start, GPUPEAK_PHASE_AUTO);
  log.phase_pop(0, kOneSecond / 10, true);
  log.phase_push(0, kOneSecond / 10, true, main, GPUPEAK_PHASE_AUTO);
  log.alloc(0, kOneSecond / 5, 0x1000, 20 * kMiB, caller, 4096);
  log.map(0, kOneSecond / 4, 0x7f0000000000, 8 * kMiB, 3, GPUPEAK_KIND_MMAP_ANON, caller);
  log.phase_push(0, kOneSecond, false, load);
  for (uint64_t i = 0; i < 4; ++i) {
    log.device_alloc(0, kOneSecond + i, 1 + i, GPUPEAK_KIND_LINEAR, 0, 742 * kMiB, cu_mem_alloc,
                     weights);
  }
  log.device_alloc(0, kOneSecond + 10, 9, GPUPEAK_KIND_PINNED, 0, 64 * kMiB, 0, caller);
  log.phase_pop(0, 2 * kOneSecond, false);
  log.phase_push(0, 2 * kOneSecond, false, run);
  log.device_alloc(0, 2 * kOneSecond + 1, 5, GPUPEAK_KIND_LINEAR, 0, 512 * kMiB, cu_mem_alloc,
                   workspace);
  log.device_free(0, 2 * kOneSecond + 140'000'001, 5);
  log.device_event(0, 3 * kOneSecond, GPUPEAK_REC_DEVICE_FAILED,
                   Fields()
                       .u(16)
                       .u(1)
                       .u(200'000 * kMiB)
                       .u(2)
                       .u(2968 * kMiB)
                       .u(100 * kMiB + 1)
                       .u(0)
                       .u(cu_mem_alloc)
                       .u(workspace));
  log.phase_pop(0, 4 * kOneSecond, false);
  log.event(0, 4 * kOneSecond, GPUPEAK_REC_SAMPLE, Fields().u(2911 * kMiB).u(0).u(0));
  log.free(0, 5 * kOneSecond, 0x1000);
  log.counters().self_bytes = 3 * kMiB;
  return log;
}

LogBuilder eight_gpus_with_losses() {
  LogBuilder log;
  for (uint64_t i = 0; i < 8; ++i) {
    log.device(i, 141'000 * kMiB, "", "NVIDIA H200");
    log.device_alloc(0, 1 + i, 1 + i, GPUPEAK_KIND_LINEAR, static_cast<int>(i), (i + 1) * kMiB);
  }
  log.counters().dropped_events = 12;
  log.counters().ended = 0;
  log.counters().reentrant_calls = 1;
  log.counters().early_calls = 2;
  return log;
}

}  // namespace

TEST_CASE("write_text: the report of a run on one GPU", "[collector]") {
  LogBuilder log = one_gpu();
  const Summary summary = summary_of(log);
  check_golden("report_one_gpu.txt", text_of([&](auto& out) { write_text(summary, out); }));
  check_golden("full_one_gpu.txt",
               text_of([&](auto& out) { write_text(summary, out, {}, ReportLength::kFull); }));
}

TEST_CASE("lowering: the report and its JSON have settings, bounds and what they gain",
          "[collector]") {
  LogBuilder log = one_gpu();
  Summary summary = summary_of(log);
  const auto text = [&](ReportLength length) {
    return text_of([&](auto& out) { write_text(summary, out, {}, length); });
  };
  const auto schema =
      nlohmann::json::parse(read_file(kGoldenFolder + "/../../docs/summary.schema.json"));
  const auto json = [&] {
    const auto made = nlohmann::json::parse(text_of([&](auto& out) { write_json(summary, out); }));
    CHECK(violations(schema, made).empty());
    return made.at("lowering");
  };
  CHECK(json().is_null());
  summary.lowering.emplace();
  CHECK(json() == nlohmann::json::array());
  CHECK(text(ReportLength::kFull).find("LOWER IT") == std::string::npos);
  summary.lowering = Lowering{"device:0",
                              1000 * kMiB,
                              0,
                              {{PoolSetting::kExpandableSegments, 500 * kMiB, 500 * kMiB, 7, ""},
                               {PoolSetting::kSameAsRequested, 600 * kMiB, 750 * kMiB, 7, ""},
                               {PoolSetting::kNoPreallocation, 400 * kMiB, std::nullopt, 7, ""}}};
  for (const ReportLength length : {ReportLength::kOneScreen, ReportLength::kFull}) {
    const std::string report = text(length);
    const size_t at = report.find("WHAT WOULD LOWER IT");
    REQUIRE(at != std::string::npos);
    CHECK(at > report.find("PEAK COMPOSITION"));
    CHECK(report.find("  500 MiB                  −50.0 %  PyTorch with expandable segments\n") !=
          std::string::npos);
    CHECK(report.find("  600 MiB to 750 MiB       −25.0 %  ONNX") != std::string::npos);
    CHECK(report.find("  at least 400 MiB        at most −60.0 %  nothing") != std::string::npos);
    CHECK(report.find("gpupeak whatif gpupeak.app.4242.gplog") != std::string::npos);
  }
  const auto rows = json();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["peak_bytes"] == 500 * kMiB);
  CHECK(rows[1]["peak_bytes"].is_null());
  CHECK(rows[1]["most_bytes"] == 750 * kMiB);
  CHECK(rows[2]["most_bytes"].is_null());
  summary.lowering->rows.clear();
  summary.lowering->untried_requests = 123'456;
  CHECK(json().is_null());
  CHECK(text(ReportLength::kOneScreen).find("not computed: 123 456 requests; gpupeak whatif") !=
        std::string::npos);
}

TEST_CASE("write_text: losses come before any figure", "[collector]") {
  LogBuilder log = eight_gpus_with_losses();
  const Summary summary = summary_of(log);
  const std::string text = text_of([&](auto& out) { write_text(summary, out); });
  check_golden("report_eight_gpus.txt", text);
  CHECK(text.find("12 EVENTS LOST") < text.find("PEAK COMPOSITION"));
  CHECK(text.find("GP001") < text.find("PEAK COMPOSITION"));
  check_golden("full_eight_gpus.txt",
               text_of([&](auto& out) { write_text(summary, out, {}, ReportLength::kFull); }));
}

TEST_CASE("write_short: the end of a run on one GPU", "[collector]") {
  LogBuilder log = one_gpu();
  const Summary summary = summary_of(log);
  const std::string text = text_of([&](auto& out) { write_short(summary, out); });
  check_golden("short_one_gpu.txt", text);
  CHECK(lines_of(text).size() <= kShortLines);
  CHECK(text.find("Peak device memory (GPU 0): 3649044480 bytes\n") != std::string::npos);
  CHECK(text.find("Peak host heap: 20971520 bytes\n") != std::string::npos);
}

TEST_CASE("write_short: never more than its lines", "[collector]") {
  LogBuilder log = eight_gpus_with_losses();
  const Summary summary = summary_of(log);
  const std::string text = text_of([&](auto& out) { write_short(summary, out); });
  check_golden("short_eight_gpus.txt", text);
  CHECK(lines_of(text).size() <= kShortLines + 7);
  for (int gpu = 0; gpu < 8; ++gpu) {
    CHECK(text.find("Peak device memory (GPU " + std::to_string(gpu) + "): ") != std::string::npos);
  }
}

TEST_CASE("write_short: a program without a GPU", "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 5 * kMiB);
  const Summary summary = summary_of(log);
  const std::string text = text_of([&](auto& out) { write_short(summary, out); });
  check_golden("short_host_only.txt", text);
  CHECK(text.find("Peak device memory") == std::string::npos);
}

TEST_CASE("write_json: valid against the schema", "[collector]") {
  const auto schema =
      nlohmann::json::parse(read_file(kGoldenFolder + "/../../docs/summary.schema.json"));
  std::vector<LogBuilder> logs{one_gpu(), eight_gpus_with_losses(), LogBuilder(GPUPEAK_HOST_OFF)};
  for (LogBuilder& log : logs) {
    const Summary summary = summary_of(log);
    const auto json = nlohmann::json::parse(text_of([&](auto& out) { write_json(summary, out); }));
    CHECK(violations(schema, json) == std::vector<std::string>{});
    for (const auto& peak : json["peaks"]) {
      uint64_t sum = peak["other_bytes"].get<uint64_t>();
      for (const auto& holder : peak["holders"]) sum += holder["bytes"].get<uint64_t>();
      CHECK(sum == peak["bytes"].get<uint64_t>());
    }
  }
}

TEST_CASE("write_json: what was not measured is null", "[collector]") {
  LogBuilder log(GPUPEAK_HOST_OFF);
  const Summary summary = summary_of(log);
  const auto json = nlohmann::json::parse(text_of([&](auto& out) { write_json(summary, out); }));
  CHECK(json["metrics"]["host.kind.heap.peak_bytes"].is_null());
  CHECK(json["metrics"]["device.peak_bytes"] == 0);
  CHECK(json["run"]["start_time"] == "2026-01-05T10:00:00Z");
  CHECK(json["run"]["rank"].is_null());
}

TEST_CASE("write_json: what a row's memory is for is read back as it was", "[collector]") {
  const auto schema =
      nlohmann::json::parse(read_file(kGoldenFolder + "/../../docs/summary.schema.json"));
  LogBuilder log = one_gpu();
  Summary summary = summary_of(log);
  BufferRole& role = summary.peaks.at(0).holders.at(0).role.emplace();
  role.copied_in = 2;
  role.kernels = {{"scale(float const*, float*)", "", KernelAccess::kRead, {0}, 7},
                  {"gemm", "cuBLAS", KernelAccess::kGiven, {0, 3}, 1}};
  role.launches_sampled = true;
  role.alike = {{1 << 20, 2, BufferRole{.filled = 1}}};
  const auto written = [](const Summary& of) {
    return text_of([&](auto& out) { write_json(of, out); });
  };
  const auto roles_of = [&](const Summary& of) {
    return nlohmann::json::parse(written(of))["peaks"][0]["holders"][0]["role"];
  };
  const auto json = nlohmann::json::parse(written(summary));
  CHECK(violations(schema, json) == std::vector<std::string>{});
  CHECK(roles_of(summary)["kernels"][0]["access"] == "read");
  CHECK(roles_of(summary)["last_use_ns"].is_null());
  CHECK(roles_of(summary_from_json(written(summary), "x.json")) == roles_of(summary));
}

TEST_CASE("schema_check: finds violations", "[collector]") {
  const auto schema =
      nlohmann::json::parse(read_file(kGoldenFolder + "/../../docs/summary.schema.json"));
  LogBuilder log = one_gpu();
  const Summary summary = summary_of(log);
  auto json = nlohmann::json::parse(text_of([&](auto& out) { write_json(summary, out); }));
  json["peaks"][0]["scope"] = "gpu0";
  json["metrics"]["Device"] = 1;
  json["quality"].erase("exact");
  json["run"]["duration_ns"] = -1;
  CHECK(violations(schema, json).size() == 4);
}

TEST_CASE("write_csv: fields are quoted where they must be", "[collector]") {
  LogBuilder log = one_gpu();
  Summary summary = summary_of(log);
  summary.peaks.at(0).holders.at(0).title = "f(a, \"b\")";
  const std::string text = text_of([&](auto& out) { write_csv(summary, out); });
  CHECK(text.starts_with("scope,bytes,percent,count,kind,api,module,phase,thread,site\r\n"));
  CHECK(text.find(",\"f(a, \"\"b\"\")\"\r\n") != std::string::npos);
}

TEST_CASE("write_metrics: a year that nanoseconds do not reach is the last one", "[collector]") {
  LogBuilder log = one_gpu();
  Summary summary = summary_of(log);
  summary.run.start_time = "2280-02-03T04:05:06Z";
  const std::string text = text_of([&](auto& out) { write_metrics({summary}, "mlflow", {}, out); });
  const auto json = nlohmann::json::parse(text.substr(0, text.find('\n')));
  CHECK(json["metrics"].at(0)["timestamp"] == INT64_MAX / 1'000'000);
}

TEST_CASE("write_dump: one event a line", "[collector]") {
  LogBuilder log = one_gpu();
  const TemporaryFile file;
  log.save(file.path());
  const std::string text = text_of([&](auto& out) { write_dump(LogReader(file.path()), out); });
  check_golden("dump_one_gpu.txt", text);
}

TEST_CASE("writers: nothing in a name reaches the terminal raw", "[collector]") {
  LogBuilder log = one_gpu();
  const uint32_t evil = log.string("\x1b]0;title\x07\xff\n");
  log.phase_push(0, 6 * kOneSecond, false, evil);
  log.device_alloc(0, 7 * kOneSecond, 77, GPUPEAK_KIND_LINEAR, 0, kMiB, evil);
  log.fact("arg", "\x1b[2J");
  log.fact("label.\x1b", "\x1b");
  const TemporaryFile file;
  log.save(file.path());
  const Summary summary = analyze(file.path());
  const std::string all = text_of([&](auto& out) {
    write_text(summary, out);
    write_short(summary, out);
    write_json(summary, out);
    write_csv(summary, out);
    write_dump(LogReader(file.path()), out);
  });
  for (const char c : all) {
    const auto byte = static_cast<uint8_t>(c);
    REQUIRE((byte >= 0x20 || c == '\n' || c == '\r'));
    REQUIRE(byte != 0xff);
  }
}

TEST_CASE("analyze: reports progress up to the end", "[collector]") {
  LogBuilder log;
  for (uint64_t i = 0; i < 400'000; ++i) log.alloc(0, i, 0x1000 + 16 * i, 8);
  const TemporaryFile file;
  log.save(file.path());
  uint64_t last = 0, total = 0, calls = 0;
  analyze(file.path(), {}, [&](uint64_t done, uint64_t all) {
    CHECK(done >= last);
    CHECK(done <= all);
    last = done;
    total = all;
    ++calls;
  });
  CHECK(calls >= 2);
  CHECK(last == total);
}
