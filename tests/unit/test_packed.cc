// Logs that are compressed, bundled with their symbols, or have them beside.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/log/symbol_table.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/error.h"
#include "gpupeak/log_format.h"
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

/// As the zstd command would, whatever becomes of it.
std::vector<uint8_t> packed_alone(const std::vector<uint8_t>& log) {
  std::ostringstream out;
  ZstdPacker packer(out, 3, 0);
  packer.pledge(log.size());
  packer.add(log, true);
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
    if (code_text(warning.code) == code) return true;
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
  CHECK(first_title(summary) == "engine::init init.cc:7 ← main main.cc:3");
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
    CHECK(first_title(analyze(file.path())) == "engine::init init.cc:7 ← main main.cc:3");
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

namespace {

/// As a run keeps them, of the module with this build-id.
SymbolTable kept_for(const std::string& build_id, uint64_t cookie, std::string_view how) {
  Module module;
  module.path = "/opt/libengine.so";
  module.build_id = build_id;
  SymbolTable table(symbols_for(build_id, cookie), cookie);
  table.add_problem(module, how);
  return table;
}

}  // namespace

TEST_CASE("packed: names that a run has kept stand in for a file that is gone", "[collector]") {
  LogBuilder log = sample("id");
  const uint64_t cookie = log.header().cookie;
  const TemporaryFile file;
  log.save(file.path());
  CHECK(first_title(analyze(file.path())) == "libengine.so+0x201");
  CHECK(warns(analyze(file.path()), "GP025"));
  const uint64_t begin = write_kept_names(file.path(), kept_for("id", cookie, kKeptAtEnd), 0);
  REQUIRE(begin > 0);
  CHECK(first_title(analyze(file.path())) == "engine::init init.cc:7 ← main main.cc:3");
  CHECK_FALSE(warns(analyze(file.path()), "GP025"));
  // Written anew they take the place of the first ones.
  const auto bytes = std::filesystem::file_size(file.path());
  CHECK(write_kept_names(file.path(), kept_for("id", cookie, kKeptInPart), begin) == begin);
  CHECK(std::filesystem::file_size(file.path()) == bytes);
  CHECK(first_title(analyze(file.path())) == "engine::init init.cc:7 ← main main.cc:3");
  CHECK(warns(analyze(file.path()), "GP025"));  // of some addresses it is still missed
  {
    const Sidecar sidecar(file.path(), symbols_for("other", cookie));
    CHECK(first_title(analyze(file.path())) ==
          "libengine.so+0x201");  // what came with the log is asked
  }
}

TEST_CASE("packed: kept names that are damaged are told of, and the log is read without them",
          "[collector]") {
  LogBuilder log = sample("id");
  const TemporaryFile file;
  log.save(file.path());
  const uint64_t begin =
      write_kept_names(file.path(), kept_for("id", log.header().cookie, kKeptAtEnd), 0);
  std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(begin + sizeof(gpupeak_chunk_header) + 4))
      .write("damaged", 7);
  const Summary summary = analyze(file.path());
  CHECK(first_title(summary) == "libengine.so+0x201");
  CHECK(warns(summary, "GP050"));
}

TEST_CASE("packed: without a build-id only this very log's symbols are used", "[collector]") {
  LogBuilder log = sample("");
  const TemporaryFile file;
  log.save(file.path());
  {
    const Sidecar sidecar(file.path(), symbols_for("", log.header().cookie));
    CHECK(first_title(analyze(file.path())) == "engine::init init.cc:7 ← main main.cc:3");
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
  const std::vector<uint8_t> package = packed_alone(std::vector<uint8_t>(size_t{200} << 20, 'x'));
  const TemporaryFile file;
  file.write(package);
  CHECK_THROWS_AS(analyze(file.path()), LogError);
  CHECK_THROWS_AS(unpack(package, "x", Extent::kAll), LogError);
}

TEST_CASE("packed: what unpacks further than a verb reads is refused, with a way out",
          "[collector]") {
  std::vector<uint8_t> log = sample("id").bytes();
  log.resize(size_t{50} << 20);
  const std::vector<uint8_t> package = packed_alone(log);
  const TemporaryFile file;
  file.write(package);
  std::string said;
  try {
    analyze(file.path());
  } catch (const LogError& error) {
    said = error.what();
  }
  CHECK(said.find("50.0 MiB") != std::string::npos);
  CHECK(said.find("`gpupeak bundle --undo " + file.path() + "`") != std::string::npos);
  const Unpacked all = unpack(package, "x", Extent::kAll);
  const MappedFile whole(all.fd, "x");
  CHECK(std::equal(log.begin(), log.end(), whole.data(), whole.data() + whole.bytes()));
}

TEST_CASE("packed: nothing is packed that would not be read", "[collector]") {
  std::vector<uint8_t> log = sample("id").bytes();
  log.resize(size_t{50} << 20);
  CHECK_THROWS_AS(packed(log, ""), TooUniform);
  Packing in_place;
  in_place.in_place = true;
  std::ostringstream out;
  CHECK_THROWS_AS(write_packed(log, "", out, {}, in_place), TooUniform);
  log.resize(size_t{5} << 20);
  CHECK_NOTHROW(packed(log, ""));
}

namespace {

/// More than a part's bytes, like a log's in that zstd makes less of them.
std::vector<uint8_t> long_log() {
  std::vector<uint8_t> log((size_t{80} << 20) + 123);
  uint32_t random = 1;
  for (size_t i = 0; i < log.size(); i += 29) {
    random = random * 1664525 + 1013904223;
    log[i] = static_cast<uint8_t>(random >> 24);
  }
  return log;
}

std::vector<uint8_t> packed_in_place(const std::vector<uint8_t>& log, int threads) {
  Packing packing;
  packing.level = 1;
  packing.threads = threads;
  packing.in_place = true;
  std::ostringstream out;
  write_packed(log, "", out, {}, packing);
  const std::string text = out.str();
  return {text.begin(), text.end()};
}

std::vector<uint8_t> unpacked(std::span<const uint8_t> package) {
  const Unpacked result = unpack(package, "x", Extent::kToRead);
  const MappedFile log(result.fd, "x");
  return {log.data(), log.data() + log.bytes()};
}

/// Where each part of a package says how much of the log it is.
std::vector<size_t> told_sizes(std::span<const uint8_t> package) {
  constexpr std::string_view kTold = "gpupeak.columns/2";
  std::vector<size_t> places;
  for (auto at = package.begin();;) {
    at = std::search(at, package.end(), kTold.begin(), kTold.end());
    if (at == package.end()) return places;
    at += kTold.size();
    places.push_back(static_cast<size_t>(at - package.begin()));
  }
}

void add_to_word(std::vector<uint8_t>& package, size_t place, int64_t amount) {
  int64_t value;
  memcpy(&value, package.data() + place, sizeof value);
  value += amount;
  memcpy(package.data() + place, &value, sizeof value);
}

}  // namespace

TEST_CASE("packed: a log in several parts comes back byte by byte, whoever packed how many at once",
          "[collector]") {
  const std::vector<uint8_t> log = long_log();
  const std::vector<uint8_t> package = packed_in_place(log, 3);
  CHECK(told_sizes(package).size() > 2);
  CHECK(package.size() < log.size() / 4);
  CHECK(package == packed_in_place(log, 0));
  CHECK(unpacked(package) == log);
  const std::vector<uint8_t> front = unpack_front(package, "x", 5000);
  CHECK(std::equal(front.begin(), front.end(), log.begin(), log.begin() + 5000));
}

TEST_CASE("packed: columns of a log in one part, as they once were, are read", "[collector]") {
  const std::vector<uint8_t> log = long_log();
  std::ostringstream out;
  const uint32_t header[] = {GPUPEAK_PACKED_MAGIC, 25};
  const uint64_t bytes = log.size();
  out.write(reinterpret_cast<const char*>(header), sizeof header);
  out << "gpupeak.columns/2";
  out.write(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  ZstdPacker packer(out, 1, 0);
  for (size_t at = 0; at < log.size();) {
    const size_t stretch = stretch_bytes(log, at);
    packer.add(split_columns(std::span(log).subspan(at, stretch)), false);
    at += stretch;
  }
  packer.add({}, true);
  const std::string package = out.str();
  CHECK(unpacked({reinterpret_cast<const uint8_t*>(package.data()), package.size()}) == log);
}

TEST_CASE("packed: a part that is not as long as it says is refused", "[collector]") {
  const std::vector<uint8_t> package = packed_in_place(long_log(), 3);
  const std::vector<size_t> told = told_sizes(package);
  REQUIRE(told.size() > 2);
  for (const size_t part : {size_t{0}, size_t{1}, told.size() - 1}) {
    for (const int64_t amount :
         {INT64_C(-4096), INT64_C(4096), INT64_C(1) << 45, -(INT64_C(1) << 45)}) {
      std::vector<uint8_t> damaged = package;
      add_to_word(damaged, told[part], amount);
      CHECK_THROWS_AS(unpack(damaged, "x", Extent::kToRead), LogError);
    }
  }
  // One says more and the next one less: the log would be as long as it was.
  std::vector<uint8_t> damaged = package;
  add_to_word(damaged, told[0], 4096);
  add_to_word(damaged, told[1], -4096);
  CHECK_THROWS_AS(unpack(damaged, "x", Extent::kToRead), LogError);
}

TEST_CASE("packed: parts that are cut, damaged or missing are refused", "[collector]") {
  const std::vector<uint8_t> package = packed_in_place(long_log(), 3);
  const std::vector<size_t> told = told_sizes(package);
  for (const size_t place : told) {
    std::vector<uint8_t> damaged = package;
    damaged[place + 5000] ^= 0x10;
    CHECK_THROWS_AS(unpack(damaged, "x", Extent::kToRead), LogError);
    damaged = package;
    damaged.resize(place + 5000);
    CHECK_THROWS_AS(unpack(damaged, "x", Extent::kToRead), LogError);
  }
}
