// Logs that are compressed, bundled with their symbols, or have them beside.
#include <fstream>
#include <sstream>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/packed_log.h"
#include "collector/symbols/symbolize.h"
#include "collector/text/error.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kBase = 0x100000;

LogBuilder sample(const std::string& build_id, const std::string& path = "/nowhere/libengine.so") {
  LogBuilder log;
  log.module(path, build_id, kBase, kBase, 0x10000);
  const uint32_t stack = log.node(0, kBase + 0x201);
  for (uint64_t i = 0; i < 1000; ++i) log.alloc(0, i, 0x1000 + 32 * i, 10, stack);
  return log;
}

/// The symbol that symbolize would have found for the node of sample().
std::string symbols_for(const std::string& build_id, uint64_t cookie,
                        const std::string& path = "/nowhere/libengine.so") {
  Module module;
  module.path = path;
  module.build_id = build_id;
  SymbolTable table;
  table.add(module, 0x200, {{"_ZN6engine4initEv", "init.cc", 7}, {"main", "main.cc", 3}});
  return table.json(cookie);
}

std::vector<uint8_t> packed(const std::vector<uint8_t>& log, const std::string& symbols) {
  std::ostringstream out;
  write_packed(log, symbols, out, {});
  const std::string text = out.str();
  return {text.begin(), text.end()};
}

struct Sidecar {
  Sidecar(const std::string& log, const std::string& text) : path(log + kSymbolsSuffix) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~Sidecar() { remove(path.c_str()); }
  std::string path;
};

std::string first_title(const Summary& summary) {
  return summary.find_peak("host")->holders.front().title;
}

bool warns(const Summary& summary, const std::string& code) {
  for (const Warning& warning : summary.quality.warnings) {
    if (warning.code == code) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("packed: a compressed log reads as the log", "[collector]") {
  const std::vector<uint8_t> log = sample("id").bytes();
  const std::vector<uint8_t> small = packed(log, "");
  CHECK(small.size() < log.size());
  const TemporaryFile plain, file;
  plain.write(log);
  file.write(small);
  CHECK(analyze(file.path()).metrics == analyze(plain.path()).metrics);
}

TEST_CASE("packed: a bundle brings its symbols", "[collector]") {
  LogBuilder log = sample("id");
  const TemporaryFile file;
  file.write(packed(log.bytes(), symbols_for("id", log.header().cookie)));
  const Summary summary = analyze(file.path());
  CHECK(first_title(summary) == "engine::init ← main");
  CHECK(summary.find_peak("host")->holders.front().stack.front().file == "init.cc");
  CHECK_FALSE(warns(summary, "GP025"));
}

TEST_CASE("packed: of what a bundle could read nothing is missed here, of what it could not it is",
          "[collector]") {
  LogBuilder log = sample("id");
  log.module("/opt/libplain.so", "plain", 0x20000, 0x20000, 0x1000);
  log.alloc(0, 1000, 0x900000, 5, log.node(0, 0x20100));
  const TemporaryFile file;
  SymbolTable made(symbols_for("id", log.header().cookie), log.header().cookie);
  file.write(packed(log.bytes(), made.json(log.header().cookie)));
  CHECK_FALSE(warns(analyze(file.path()), "GP025"));
  Module module;
  module.path = "/opt/libplain.so";
  module.build_id = "plain";
  made.add_problem(module, SymbolTable::kMissing);
  file.write(packed(log.bytes(), made.json(log.header().cookie)));
  CHECK(warns(analyze(file.path()), "GP025"));
}

TEST_CASE("packed: symbols beside the log are found, those of another build are not used",
          "[collector]") {
  LogBuilder log = sample("id");
  const TemporaryFile file;
  log.save(file.path());
  {
    const Sidecar sidecar(file.path(), symbols_for("id", 1));  // same build, another run
    CHECK(first_title(analyze(file.path())) == "engine::init ← main");
  }
  {
    const Sidecar sidecar(file.path(), symbols_for("other", log.header().cookie));
    const Summary summary = analyze(file.path());
    CHECK(first_title(summary) == "libengine.so+0x201");
    CHECK(warns(summary, "GP050"));
  }
  {
    const Sidecar sidecar(file.path(), "{\"schema\":");
    CHECK(warns(analyze(file.path()), "GP050"));
  }
}

TEST_CASE("packed: without a build-id only this very log's symbols are used", "[collector]") {
  LogBuilder log = sample("");
  const TemporaryFile file;
  log.save(file.path());
  {
    const Sidecar sidecar(file.path(), symbols_for("", log.header().cookie));
    CHECK(first_title(analyze(file.path())) == "engine::init ← main");
  }
  const Sidecar sidecar(file.path(), symbols_for("", log.header().cookie + 1));
  CHECK(first_title(analyze(file.path())) == "libengine.so+0x201");
}

TEST_CASE("packed: symbolize finds again what a bundle holds", "[collector]") {
  LogBuilder log = sample("id");
  const std::string symbols = symbols_for("id", log.header().cookie);
  const TemporaryFile file;
  file.write(packed(log.bytes(), symbols));
  const LogReader reader(file.path());
  const Symbolized found = symbolize(reader, {}, NameRules{});
  CHECK(found.addresses == 1);
  CHECK(found.named == 1);
  CHECK(found.table.json(log.header().cookie) == symbols);
}

TEST_CASE("packed: a package that is cut or damaged is refused", "[collector]") {
  LogBuilder log = sample("id");
  const std::vector<uint8_t> whole = packed(log.bytes(), symbols_for("id", log.header().cookie));
  const TemporaryFile file;
  size_t readable = 0;
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    file.write({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)});
    try {
      analyze(file.path());
      ++readable;
    } catch (const LogError&) {
    }
  }
  CHECK(readable == 2);  // behind the log, and behind the frame that announces symbols
  std::vector<uint8_t> damaged = whole;
  damaged[damaged.size() / 3] ^= 0x10;
  file.write(damaged);
  CHECK_THROWS_AS(analyze(file.path()), LogError);
}

TEST_CASE("packed: what unpacks without end is refused", "[collector]") {
  std::vector<uint8_t> bomb(size_t{200} << 20, 'x');
  const TemporaryFile file;
  file.write(packed(bomb, ""));
  CHECK_THROWS_AS(analyze(file.path()), LogError);
}
