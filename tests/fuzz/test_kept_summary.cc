// A kept summary equals one that is made now, in all its parts, and is used only while nothing that
// it was made of has changed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.h"
#include "collector/analyze/kept_summary.h"
#include "collector/summary/summary_bytes.h"
#include "collector/write/writers.h"
#include "log_builder.h"
#include "sample_logs.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

namespace fs = std::filesystem;

/// A folder with a cache of its own, a log, the module that its stacks name, and rules.
class Place {
 public:
  Place() {
    char folder[] = "/tmp/gpupeak_kept_XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
    fs::create_directory(folder_ + "/cache");
    fs::create_directory(folder_ + "/debug");
    fs::copy_file("/proc/self/exe", module());
    std::ofstream(rules()) << "[[tag]]\nname = \"one\"\nfunction = [\"a\"]\n";
    LogBuilder log;
    log.module(module(), "", 0x10000, 0x10000, 0x1000);
    log.alloc(0, 1, 0x1000, 100, log.node(0, 0x10010));
    log.save(this->log());
    options_.reading.rules.sets = {"auto", rules()};
    options_.reading.search.debug_dirs = {folder_ + "/debug"};
  }
  ~Place() {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("DEBUGINFOD_URLS");
    fs::remove_all(folder_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::string folder() const { return folder_; }
  std::string log() const { return folder_ + "/x.gplog"; }
  std::string module() const { return folder_ + "/program"; }
  std::string rules() const { return folder_ + "/rules.toml"; }
  std::string kept_file() const {
    fs::directory_iterator entry(folder_ + "/cache/gpupeak/summaries");
    return entry->path().string();
  }

  /// Makes the summary, and returns whether it was kept. `meanwhile` is called while it is made.
  bool keep(const std::function<void()>& meanwhile = [] {}) {
    KeptSummary kept(log(), options_, 1);
    const LogReader reader(log());
    if (!kept.can_keep(reader)) return false;
    const Summary summary = analyze(reader, log(), options_);
    meanwhile();
    kept.keep(summary);
    return kept.find().has_value();
  }
  bool find() const { return KeptSummary(log(), options_, 1).find().has_value(); }

  Options options_;

 private:
  std::string folder_;
};

void touch(const std::string& path) {
  const timespec times[2] = {{1, 0}, {1, 0}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

int completed = 0;
bool complete(Summary& summary, const std::string& /*log*/, const Options& /*options*/,
              const Progress& /*progress*/) {
  ++completed;
  summary.lowering = Lowering{"device:0",
                              9,
                              0,
                              {{PoolSetting::kNoPreallocation, 5, std::nullopt, 7, ""},
                               {PoolSetting::kExpandableSegments, 6, 8, 7, ""}}};
  return true;
}

std::string json_of(const Summary& summary) {
  std::ostringstream out;
  write_json(summary, out);
  return out.str();
}

}  // namespace

TEST_CASE("summary: as bytes and back it says the same", "[collector]") {
  for (const SampleLog& log : sample_logs()) {
    if (log.name == "summary") continue;
    INFO(log.name);
    const TemporaryFile file;
    file.write(log.bytes);
    const Summary summary = analyze(file.path());
    const std::string bytes = pack_summary(summary);
    const std::optional<Summary> again = unpack_summary(bytes);
    REQUIRE(again.has_value());
    CHECK(pack_summary(*again) == bytes);
    CHECK(json_of(*again) == json_of(summary));
    for (size_t size = 0; size < bytes.size(); size += 1 + size / 100)
      CHECK_FALSE(unpack_summary(bytes.substr(0, size)).has_value());
    CHECK_FALSE(unpack_summary(bytes + "x").has_value());
  }
}

TEST_CASE("kept summary: what would lower a peak is computed once, for who shows it",
          "[collector]") {
  completed = 0;
  const Place place;
  Options shows = place.options_;
  shows.complete = complete;
  const auto report = [&](const Options& options) {
    return kept_or_analyzed(place.log(), options, {}, 1);
  };
  SECTION("first of all") {}
  SECTION("after another verb has made a summary") {
    CHECK_FALSE(report(place.options_).lowering.has_value());
    CHECK(completed == 0);
    REQUIRE(place.find());
  }
  const std::string first = json_of(report(shows));
  CHECK(completed == 1);
  CHECK(first.find("no_preallocation") != std::string::npos);
  CHECK(json_of(report(shows)) == first);
  CHECK(completed == 1);
  CHECK_FALSE(report(place.options_).lowering.has_value());
  CHECK(json_of(report(shows)) == first);
  CHECK(completed == 1);
}

TEST_CASE("kept summary: a part of the tables is not kept for who shows all", "[collector]") {
  const Place place;
  LogBuilder log;
  log.module(place.module(), "", 0x10000, 0x10000, 0x1000);
  log.device_alloc(0, 1, 1, GPUPEAK_KIND_LINEAR, 0, 100);
  log.alloc(0, 2, 0x1000, 100, log.node(0, 0x10010));
  log.save(place.log());
  const std::string all = json_of(analyze(place.log(), place.options_));
  Options few = place.options_;
  few.all_tables = false;
  CHECK(json_of(kept_or_analyzed(place.log(), few, {}, 1)) != all);
  CHECK_FALSE(place.find());
  CHECK(json_of(kept_or_analyzed(place.log(), place.options_, {}, 1)) == all);
}

TEST_CASE("kept summary: is found as long as nothing has changed", "[collector]") {
  Place place;
  CHECK_FALSE(place.find());
  REQUIRE(place.keep());
  CHECK(place.find());
  const std::optional<Summary> kept = KeptSummary(place.log(), place.options_).find();
  REQUIRE(kept.has_value());
  CHECK(json_of(*kept) == json_of(analyze(place.log(), place.options_)));
  Options without_stacks = place.options_;
  without_stacks.stacks = false;
  CHECK(KeptSummary(place.log(), without_stacks).find().has_value());

  SECTION("by another name of the log, which is then shown") {
    const std::string other =
        place.folder() + "/../" + fs::path(place.folder()).filename().string() + "/x.gplog";
    const auto found = KeptSummary(other, place.options_).find();
    REQUIRE(found.has_value());
    CHECK(found->log_path == other);
  }
  SECTION("the log is another one") {
    std::ofstream(place.log(), std::ios::app) << "x";
    CHECK_FALSE(place.find());
  }
  SECTION("the log was written again") {
    touch(place.log());
    CHECK_FALSE(place.find());
  }
  SECTION("symbols came beside it") {
    std::ofstream(place.log() + ".symbols") << "x";
    CHECK_FALSE(place.find());
  }
  SECTION("the program was built again") {
    touch(place.module());
    CHECK_FALSE(place.find());
  }
  SECTION("a debug file came into a folder of such") {
    std::ofstream(place.folder() + "/debug/program") << "x";
    CHECK_FALSE(place.find());
  }
  SECTION("a debug file came beside the program") {
    std::ofstream(place.module() + ".debug") << "x";
    CHECK_FALSE(place.find());
  }
  SECTION("a debug file came into a folder beside the program") {
    fs::create_directory(place.folder() + "/.debug");
    CHECK_FALSE(place.find());
  }
  SECTION("the rules are others") {
    std::ofstream(place.rules(), std::ios::app) << "# more\n";
    CHECK_FALSE(place.find());
  }
  SECTION("something else is asked for") {
    const std::vector<std::function<void(Options&)>> changes{
        [](Options& o) { o.top = 3; },
        [](Options& o) { o.top = kAllRows, o.stacks = false; },
        [](Options& o) { o.by = GroupBy::kFunction; },
        [](Options& o) { o.reading.search.files = false; },
        [](Options& o) { o.reading.search.sysroot = "/other"; },
        [](Options& o) { o.reading.search.debug_dirs.clear(); },
        [](Options& o) { o.reading.rules.sets = {"auto"}; },
        [](Options& o) { o.reading.rules.tags = {"x=y"}; },
        [](Options& o) { o.reading.rules.phases = {"x=y"}; },
        [](Options& o) { o.reading.sanitizer = Sanitizer("key"); },
    };
    for (const auto& change : changes) {
      Options options = place.options_;
      change(options);
      CHECK_FALSE(KeptSummary(place.log(), options).find().has_value());
    }
  }
  SECTION("what lies under its name was made for something else") {
    const std::string mine = place.kept_file();
    fs::rename(mine, place.folder() + "/mine");
    place.options_.top = 3;
    REQUIRE(place.keep());
    fs::rename(place.folder() + "/mine", place.kept_file());
    CHECK_FALSE(place.find());
  }
  SECTION("there are servers to ask for names") {
    setenv("DEBUGINFOD_URLS", "http://localhost:1", 1);
    CHECK_FALSE(place.find());
    REQUIRE(place.keep());
    CHECK(place.find());
    const auto later = [](int minutes) {
      return KeptSummary::Time::clock::now() + std::chrono::minutes(minutes);
    };
    const KeptSummary asked(place.log(), place.options_);
    CHECK(asked.find(later(9)).has_value());
    CHECK_FALSE(asked.find(later(11)).has_value());
    unsetenv("DEBUGINFOD_URLS");
    REQUIRE(place.keep());
    CHECK(KeptSummary(place.log(), place.options_).find(later(100'000)).has_value());
  }
  SECTION("what was kept is damaged") {
    std::ifstream in(place.kept_file(), std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    for (size_t i = 0; i < text.str().size(); i += 7) {
      std::string damaged = text.str();
      damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
      std::ofstream(place.kept_file(), std::ios::binary | std::ios::trunc) << damaged;
      CHECK_FALSE(place.find());
    }
  }
  SECTION("what was kept may be others' work") {
    chmod(place.kept_file().c_str(), 0666);
    CHECK_FALSE(place.find());
  }
}

TEST_CASE("kept summary: nothing is kept that may be wrong later", "[collector]") {
  Place place;
  const auto save = [&](const std::function<void(LogBuilder&)>& change) {
    LogBuilder log;
    log.alloc(0, 1, 0x1000, 100);
    log.counters().ended = 0;
    log.counters().exit_kind = GPUPEAK_EXIT_UNKNOWN;
    change(log);
    log.save(place.log());
  };
  SECTION("of a log that is still written") {
    save([](LogBuilder&) {});
    CHECK_FALSE(place.keep());
  }
  SECTION("of a log whose process may not quite have ended") {
    save([](LogBuilder& log) { log.counters().ended = 1; });
    CHECK_FALSE(place.keep());
    touch(place.log());  // gives the log an old time
    CHECK(place.keep());
  }
  SECTION("with files of ONNX Runtime's, which are not looked at") {
    save([](LogBuilder& log) {
      log.counters().exit_kind = GPUPEAK_EXIT_CODE;
      log.fact("ort.profile.off", "why");
    });
    CHECK_FALSE(place.keep());
  }
  SECTION("with symbols that cannot be used, whose file's name is told") {
    std::ofstream(place.log() + ".symbols") << "nonsense";
    CHECK_FALSE(place.keep());
  }
  SECTION("of a short log") {
    KeptSummary kept(place.log(), place.options_);
    CHECK_FALSE(kept.can_keep(LogReader(place.log())));
  }
  SECTION("of a part of a log, or of none") {
    CHECK_FALSE(KeptSummary(place.log() + "#1", place.options_, 1).find().has_value());
  }
  SECTION("where something changes meanwhile") {
    CHECK_FALSE(place.keep([&] { touch(place.log()); }));
    CHECK_FALSE(place.keep([&] { std::ofstream(place.module() + ".debug") << "x"; }));
  }
  SECTION("where it is as large as a log") {
    place.options_.reading.rules.tags = {"x=" + std::string(20 << 20, 'y')};
    CHECK_FALSE(place.keep());
  }
  SECTION("where there is no folder to keep it in") {
    setenv("XDG_CACHE_HOME", "/proc/no such folder", 1);
    CHECK_FALSE(place.keep());
  }
  SECTION("a confidential one") {
    place.options_.reading.sanitizer = Sanitizer("key");
    CHECK_FALSE(place.keep());
    CHECK_FALSE(fs::exists(place.folder() + "/cache/gpupeak/summaries"));
  }
}

TEST_CASE("kept summary: the log may be packed meanwhile", "[collector]") {
  Place place;
  KeptSummary kept(place.log(), place.options_, 1);
  const LogReader reader(place.log());
  REQUIRE(kept.can_keep(reader));
  const Summary summary = analyze(reader, place.log(), place.options_);
  fs::copy_file(place.log(), place.log() + ".new");
  fs::rename(place.log() + ".new", place.log());
  kept.keep(summary);
  CHECK_FALSE(place.find());
  kept.log_was_replaced();
  kept.keep(summary);
  CHECK(place.find());
}
