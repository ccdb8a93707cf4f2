// The exports of logs that no program wrote: odd names, odd orders, steps of several changes. That
// their real readers find the same totals is tests/export.
#include <sqlite3.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/analyze/json_io.h"
#include "collector/export/export.h"
#include "collector/text/error.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

class Opened {
 public:
  explicit Opened(LogBuilder log) : profile(log.save(file_.path())) {}

  /// What an export writes; of one that makes a file itself its bytes.
  std::string text(const ExportFormat& format, const std::string& scope = "") {
    if (format.write_file == nullptr) {
      std::ostringstream out;
      format.write(profile, {scope, {}}, out);
      return out.str();
    }
    const TemporaryFile file;
    unlink(file.path().c_str());
    format.write_file(profile, {scope, {}}, file.path());
    std::ostringstream bytes;
    bytes << std::ifstream(file.path(), std::ios::binary).rdbuf();
    return bytes.str();
  }
  std::string text(std::string_view name, const std::string& scope = "") {
    for (const ExportFormat& format : export_formats()) {
      if (format.name == name) return text(format, scope);
    }
    throw std::logic_error("no such format");
  }

 private:
  TemporaryFile file_;

 public:
  Profile profile;
};

LogBuilder hostile() {
  const std::string evil = "a\x1b]0;t\x07\n\";<b>'\\\xff\xe2\x80\xae,;|\t${x}";
  LogBuilder log;
  log.fact("arg", evil);
  log.fact("exe", evil);
  log.fact("host", evil);
  log.device(0, kMiB, evil, evil);
  log.module(evil, evil, 0x100000, 0x100000, 0x10000);
  const uint32_t stack = log.node(log.node(0, 0x100100), 0x100200);
  const uint32_t name = log.string(evil);
  log.event(0, 0, GPUPEAK_REC_THREAD, Fields().u(100).s(evil));
  log.phase_push(0, 1, true, name);
  log.phase_push(0, 1, false, name);
  log.event(0, 2, GPUPEAK_REC_RANGE_BEGIN, Fields().u(7).u(2).u(name).u(0).u(0).s(""));
  log.device_alloc(0, 3, 1, GPUPEAK_KIND_LINEAR, 0, kMiB, name, stack);
  log.device_alloc(0, 4, 2, GPUPEAK_KIND_MANAGED, 0, 5, name, stack);
  log.device_alloc(0, 5, 3, GPUPEAK_KIND_PINNED, -1, 6, name, 0);
  log.alloc(0, 6, 0x1000, 77, stack);
  return log;
}

}  // namespace

TEST_CASE("exports: nothing in a name leaves its place", "[collector]") {
  Opened log(hostile());
  for (const ExportFormat& format : export_formats()) {
    for (const char* scope : {"", "total", "device:0"}) {
      if (format.name == "torch-snapshot" && std::string_view(scope) == "total") continue;
      const std::string text = log.text(format, scope);
      INFO(format.name << " of '" << scope << "'");
      if (format.name == "sqlite") CHECK(text.starts_with("SQLite format 3"));
      CHECK(!text.empty());
      if (format.binary) continue;
      for (const char c : text) {
        const auto byte = static_cast<uint8_t>(c);
        REQUIRE((byte >= 0x20 || c == '\n' || c == '\r'));
        REQUIRE(byte != 0xff);
      }
    }
  }
  CHECK(Json::parse(log.text("chrome"))["traceEvents"].size() > 10);
  CHECK(Json::parse(log.text("speedscope"))["profiles"].size() == 3);
  CHECK(lines_of(log.text("folded", "device:0")).size() == 1);
  // A name with a comma is one field: quoted.
  CHECK(lines_of(log.text("mxnet-csv", "device:0")).at(0).starts_with('"'));
}

TEST_CASE("exports: a log without any memory", "[collector]") {
  Opened log{LogBuilder(GPUPEAK_HOST_OFF)};
  for (const ExportFormat& format : export_formats()) {
    if (format.name == "torch-snapshot")  // an empty one would look like a run that used nothing
      CHECK_THROWS_WITH(log.text(format),
                        "a PyTorch snapshot holds device memory only, and this log has none");
    else
      CHECK_NOTHROW(log.text(format));
    CHECK_THROWS_AS(log.text(format, "host"), UsageError);
  }
  CHECK(Json::parse(log.text("chrome"))["traceEvents"].size() == 2);
}

TEST_CASE("export heaptrack: the peak of resident memory is the kernel's, not a sample's",
          "[collector]") {
  LogBuilder log;
  log.alloc(0, 1, 0x1000, 5 * kMiB);
  log.event(0, 2, GPUPEAK_REC_SAMPLE, Fields().u(4 * kMiB).u(0).u(0));
  log.counters().rss_peak_bytes = 9 * kMiB;
  Opened opened(log);
  uint64_t most = 0;
  for (const std::string& line : lines_of(opened.text("heaptrack", "host"))) {
    if (line.starts_with("R "))
      most = std::max<uint64_t>(most, std::stoull(line.substr(2), nullptr, 16));
  }
  CHECK(most * 4096 == 9 * kMiB);
}

TEST_CASE("export heaptrack: steps of several changes make no peak of their own", "[collector]") {
  LogBuilder log;
  const uint32_t a = log.node(0, 0x1000);
  const uint32_t b = log.node(a, 0x2000);
  log.alloc(0, 1, 0x1000, 1000, a);
  log.realloc_begin(0, 2, 0x1000);
  log.realloc_end(0, 3, 0x1000, 1500, b);
  log.map(0, 4, 0x7f0000000000, 64 << 10, 3, GPUPEAK_KIND_MMAP_ANON, a);
  log.event(0, 5, GPUPEAK_REC_PROTECT, Fields().u(0x7f0000004000).u(16 << 10).u(0));
  log.unmap(0, 6, 0x7f0000001000, 4096);
  log.event(0, 7, GPUPEAK_REC_PROTECT, Fields().u(0x7f0000004000).u(16 << 10).u(3));
  log.free(0, 8, 0x1000);
  Opened opened(log);
  const ScopeId host = opened.profile.scope("host");
  std::vector<uint64_t> sizes;
  uint64_t now = 0, peak = 0;
  for (const std::string& line : lines_of(opened.text("heaptrack", "host"))) {
    uint64_t value = 0;
    if (line.size() < 3 || std::string_view("a+-").find(line[0]) == std::string_view::npos)
      continue;
    value = std::stoull(line.substr(2), nullptr, 16);
    if (line[0] == 'a') sizes.push_back(value);
    if (line[0] == '+') now += sizes.at(value);
    if (line[0] == '-') now -= sizes.at(value);
    peak = std::max(peak, now);
  }
  CHECK(peak == opened.profile.sum(host).peak);
  CHECK(now == opened.profile.sum(host).current);
}

TEST_CASE("export chrome: phases nest in every order of their ends", "[collector]") {
  LogBuilder log;
  const uint32_t outer = log.string("outer");
  const uint32_t inner = log.string("inner");
  log.phase_push(0, 1, false, outer, GPUPEAK_PHASE_ORT);
  log.phase_push(0, 2, false, inner, GPUPEAK_PHASE_NVTX);
  // The outer one ends first: the inner one goes on.
  log.event(0, 3, GPUPEAK_REC_PHASE_POP, Fields().u(0).u(GPUPEAK_PHASE_ORT).u(0));
  log.event(0, 4, GPUPEAK_REC_PHASE_POP, Fields().u(0).u(GPUPEAK_PHASE_ORT).u(0));
  log.event(0, 5, GPUPEAK_REC_RANGE_BEGIN, Fields().u(9).u(2).u(outer).u(0).u(0).s(""));
  log.phase_push(1, 6, false, inner);
  Opened opened(log);
  std::map<int, std::vector<std::string>> open;
  std::string told;
  const Json trace = Json::parse(opened.text("chrome"));
  for (const Json& event : trace["traceEvents"]) {
    std::vector<std::string>& track = open[event["tid"].get<int>()];
    if (event["ph"] == "B") {
      track.push_back(event["name"]);
      told += "+" + track.back() + " ";
    } else if (event["ph"] == "E") {
      REQUIRE(!track.empty());
      told += "-" + track.back() + " ";
      track.pop_back();
    } else if (event["ph"] == "b" || event["ph"] == "e") {
      told += event["ph"].get<std::string>() + event["id"].get<std::string>() + " ";
    }
  }
  CHECK(told == "+outer +inner -inner -outer +inner b0x9 +inner -inner -inner e0x9 ");
  for (const auto& [tid, track] : open) CHECK(track.empty());
}

TEST_CASE("export torch-snapshot, chrome: a free that failed brings the block back",
          "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.device_free(0, 2, 1);
  log.device_event(0, 3, GPUPEAK_REC_DEVICE_REVIVE, Fields().u(1));
  log.device_alloc(0, 4, 2, GPUPEAK_KIND_LINEAR, 0, 11);
  Opened opened(log);
  REQUIRE(opened.profile.sum(opened.profile.scope("device:0")).current == 111);
  int live = 0;
  const Json trace = Json::parse(opened.text("chrome"));
  for (const Json& event : trace["traceEvents"]) {
    live += event["ph"] == "b";
    live -= event["ph"] == "e";
  }
  CHECK(live == 2);
}

TEST_CASE("exports: what a later call of its thread has settled is not brought back any more",
          "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.device_free(0, 2, 1);
  log.device_event(0, 3, GPUPEAK_REC_POOL, Fields().u(0xa).u(1).u(100).u(50).u(2));
  log.device_event(0, 4, GPUPEAK_REC_DEVICE_REVIVE, Fields().u(1));
  log.device_alloc(0, 5, 2, GPUPEAK_KIND_LINEAR, 0, 11);
  Opened opened(log);
  REQUIRE(opened.profile.sum(opened.profile.scope("device:0")).current == 11);
  int64_t live = 0;
  std::map<std::string, int64_t> bytes;
  const Json trace = Json::parse(opened.text("chrome"));
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "b") live += bytes[event["id"]] = event["args"]["bytes"].get<int64_t>();
    if (event["ph"] == "e") live -= bytes.at(event["id"]);
  }
  CHECK(live == 11);
}

TEST_CASE("export chrome: an end that names no phase leaves the phase of a rule alone",
          "[collector]") {
  LogBuilder log;
  log.module("/opt/engine.so", "", 0x100000, 0x100000, 0x10000);
  const uint32_t stack = log.node(0, 0x100100);
  log.alloc(0, 1, 0x1000, 10, stack);
  log.event(0, 2, GPUPEAK_REC_PHASE_POP, Fields().u(0).u(GPUPEAK_PHASE_AUTO).u(0));
  log.alloc(0, 3, 0x2000, 10, stack);
  const TemporaryFile file;
  Reading reading;
  reading.rules = {{"none"}, {"engine=engine.so!*"}, {}};
  Profile profile(log.save(file.path()), {}, nullptr, reading);
  std::ostringstream out;
  export_chrome(profile, {}, out);
  std::string told;
  const Json trace = Json::parse(out.str());
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "B") told += "+" + event["name"].get<std::string>() + " ";
    if (event["ph"] == "E") told += "- ";
  }
  CHECK(told == "+engine - ");
}

namespace {

/// Exports a log as a database, and asks it.
class Asked {
 public:
  explicit Asked(LogBuilder& log) {
    Opened opened(log);
    unlink(file_.path().c_str());
    export_sqlite(opened.profile, {}, file_.path());
    REQUIRE(sqlite3_open(file_.path().c_str(), &database_) == SQLITE_OK);
  }
  ~Asked() { sqlite3_close(database_); }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  /// Rows as lines, columns apart by spaces.
  std::string text(const char* sql) const {
    std::string text;
    const auto add = [](void* to, int count, char** values, char** /*names*/) {
      for (int i = 0; i < count; ++i)
        *static_cast<std::string*>(to) +=
            std::string(values[i] != nullptr ? values[i] : "-") + (i + 1 < count ? " " : "\n");
      return 0;
    };
    REQUIRE(sqlite3_exec(database_, sql, add, &text, nullptr) == SQLITE_OK);
    return text;
  }

 private:
  const TemporaryFile file_;
  sqlite3* database_ = nullptr;
};

}  // namespace

TEST_CASE("export sqlite: a running sum steps through what happens at the same time",
          "[collector]") {
  LogBuilder log;
  for (uint64_t id = 1; id <= 3; ++id) log.device_alloc(0, 5, id, GPUPEAK_KIND_LINEAR, 0, 100);
  for (uint64_t id = 1; id <= 3; ++id) log.device_free(0, 5, id);
  for (uint64_t i = 0; i < 3; ++i) log.alloc(0, 6, 0x1000 + 16 * i, 10);
  for (uint64_t i = 0; i < 3; ++i) log.free(0, 6, 0x1000 + 16 * i);
  const Asked database(log);
  CHECK(database.text(
            "SELECT MAX(s) FROM (SELECT SUM(CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes "
            "END) OVER (ORDER BY start) AS s FROM CUDA_GPU_MEMORY_USAGE_EVENTS)") == "300\n");
  CHECK(database.text("SELECT MAX(s) FROM (SELECT SUM(bytes) OVER (ORDER BY start) AS s FROM "
                      "GPUPEAK_CHANGES)") == "30\n");
}

TEST_CASE("export sqlite: changes have rows in their order, however many there are",
          "[collector]") {
  // Some are written many at once, the others one by one; what is next to each other differs.
  for (const uint64_t count : {0, 1, 141, 142, 143, 284, 1000}) {
    LogBuilder log;
    const uint32_t stack = log.node(0, 0x400100);
    std::string wanted;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t time = 10 * (i + 1), bytes = 100 + i % 7;
      if (i % 5 == 0)
        log.device_alloc(0, time, i + 1, GPUPEAK_KIND_VMM_VA, i % 2 == 0 ? 0 : -1, bytes);
      else
        log.alloc(0, time, 0x1000 + 4096 * i, bytes, i % 3 == 0 ? stack : 0);
      wanted += std::to_string(i + 1) + " " + std::to_string(bytes);
      if (i % 5 == 0)
        wanted += std::string(" device.vmm_va ") + (i % 2 == 0 ? "0" : "-") + " -\n";
      else
        wanted += std::string(" host.heap - ") + (i % 3 == 0 ? "1" : "-") + "\n";
    }
    const Asked database(log);
    CHECK(database.text("SELECT rowid, bytes, kind, deviceId, callchainId FROM GPUPEAK_CHANGES "
                        "ORDER BY start") == wanted);
  }
}

TEST_CASE("export mxnet-csv: MiB to the byte", "[collector]") {
  LogBuilder log;
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, kMiB + 1);
  log.device_alloc(0, 2, 2, GPUPEAK_KIND_POOL, 0, 24 * kMiB);
  Opened opened(log);
  CHECK(opened.text("mxnet-csv") ==
        "(no stack):pool,24.0\n(no stack):linear,1.00000095367431640625\n");
}
