// Logs of other programs of the same process, each within the log of the one that was meant.
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"
#include "collector/text/error.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

LogBuilder log_of(uint64_t bytes, uint64_t cookie, uint64_t device_events = 0) {
  LogBuilder log;
  log.header().cookie = cookie;
  log.header().start_monotonic_ns += cookie;
  log.counters().device_events = device_events;
  for (uint64_t i = 0; i < 2000; ++i) log.alloc(0, i, 0x1000 + 64 * i, bytes);
  return log;
}

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t peak_of(const std::string& path) {
  const Summary summary = analyze(path, {});
  CHECK(summary.quality.exact);
  const Peak* peak = summary.find_peak("host");
  REQUIRE(peak != nullptr);
  return peak->bytes;
}

/// No file may grow beyond `bytes` while this lives.
struct FileLimit {
  explicit FileLimit(rlim_t bytes) : handler(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
  }
  rlimit before{};
  sighandler_t handler;
};

}  // namespace

TEST_CASE("parts: each is read as the log that it was, and so is the log around them",
          "[collector]") {
  const TemporaryFile log, first, second;
  log_of(100, 11).save(log.path());
  log_of(200, 22, 5).save(first.path());
  log_of(300, 33).save(second.path());
  REQUIRE(add_part(log.path(), first.path(), "taskset"));
  REQUIRE(add_part(log.path(), second.path(), std::string(10'000, 'x')));

  const LogReader reader(log.path());
  REQUIRE(reader.parts().size() == 2);
  CHECK(reader.parts()[0].program == "taskset");
  CHECK(reader.parts()[0].device_events == 5);
  CHECK(reader.parts()[0].start_monotonic_ns + 11 == reader.parts()[1].start_monotonic_ns);
  CHECK(reader.parts()[1].program.size() < 10'000);
  CHECK(peak_of(log.path()) == 2000 * 100);
  CHECK(peak_of(log.path() + "#1") == 2000 * 200);
  CHECK(peak_of(log.path() + "#2") == 2000 * 300);
  CHECK_THROWS_AS(analyze(log.path() + "#3", {}), LogError);
}

TEST_CASE("parts: what is no log or does not fit leaves the log as it was", "[collector]") {
  const TemporaryFile log, part, text;
  log_of(100, 11).save(log.path());
  log_of(200, 22).save(part.path());
  text.write(std::vector<uint8_t>(20'000, 'x'));
  const std::vector<uint8_t> before = bytes_of(log.path());

  CHECK_FALSE(add_part(log.path(), text.path(), "text"));
  CHECK_FALSE(add_part(log.path(), "/nowhere/at.all", "nothing"));
  CHECK_FALSE(add_part(text.path(), part.path(), "text"));
  CHECK(bytes_of(log.path()) == before);
  for (const size_t room : std::array<size_t, 4>{0, 100, GPUPEAK_LOG_PAGE, 3 * GPUPEAK_LOG_PAGE}) {
    {
      const FileLimit limit(before.size() + room);
      CHECK_FALSE(add_part(log.path(), part.path(), "large"));
    }
    CHECK(LogReader(log.path()).parts().empty());
    CHECK(peak_of(log.path()) == 2000 * 100);
  }
  CHECK(add_part(log.path(), part.path(), "now it fits"));
  CHECK(peak_of(log.path() + "#1") == 2000 * 200);
}

TEST_CASE("parts: a file that is cut within a part still has its log", "[collector]") {
  const TemporaryFile log, part;
  log_of(100, 11).save(log.path());
  log_of(200, 22).save(part.path());
  const size_t own = std::filesystem::file_size(log.path());
  REQUIRE(add_part(log.path(), part.path(), "part"));
  const std::vector<uint8_t> whole = bytes_of(log.path());
  const TemporaryFile cut;
  for (size_t size = own; size < whole.size(); size += 1000) {
    cut.write({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    INFO(size);
    CHECK(LogReader(cut.path()).parts().empty());
    const Summary summary = analyze(cut.path(), {});
    REQUIRE(summary.find_peak("host") != nullptr);
    CHECK(summary.find_peak("host")->bytes == 2000 * 100);
    CHECK_THROWS_AS(LogReader(cut.path() + "#1"), LogError);
  }
}

TEST_CASE("parts: a name is that of a file first", "[collector]") {
  CHECK(part_name("/nowhere/a.gplog#2").number == 2);
  CHECK(part_name("/nowhere/a.gplog#2").log == "/nowhere/a.gplog");
  for (const std::string name : {"/nowhere/a.gplog", "/nowhere/a#", "/nowhere/a#0", "/nowhere/a#01",
                                 "/nowhere/a#-1", "/nowhere/a#1x", "/nowhere/a#1234567"}) {
    CHECK(part_name(name).number == 0);
    CHECK(part_name(name).log == name);
  }
  const TemporaryFile file;
  const std::string numbered = file.path() + "#1";
  std::filesystem::copy_file(file.path(), numbered);
  CHECK(part_name(numbered).number == 0);
  std::filesystem::remove(numbered);
  CHECK(part_name(numbered).number == 1);
}
