// What others may have put, changed or cut.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "catch.h"
#include "collector/files/fresh_file.h"
#include "collector/files/regular_file.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

struct Folder {
  std::string path = "/tmp/gpupeak_files_XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name, const std::string& content) const {
    std::ofstream(path + "/" + name, std::ios::binary) << content;
    return path + "/" + name;
  }
};

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

std::string content_of(const std::string& path) {
  return read_regular(path, 1 << 20).value_or("?");
}

size_t files_in(const std::string& path) {
  const auto entries = std::filesystem::directory_iterator(path);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("files: a file is replaced whole or not at all, and keeps its mode", "[collector]") {
  const Folder folder;
  const std::string path = folder.file("out", "old");
  for (const mode_t mode : {0600, 0640, 0604}) {
    chmod(path.c_str(), mode);
    write_fresh(path, [](std::ostream& out) { out << "new"; });
    CHECK(content_of(path) == "new");
    CHECK(mode_of(path) == mode);
  }
  CHECK_THROWS(write_fresh(path, [](std::ostream& out) {
    out << "half";
    throw LogError("no more", 0);
  }));
  CHECK(content_of(path) == "new");
  write_fresh_by_name(path, [](const std::string& fresh) {
    CHECK(access(fresh.c_str(), F_OK) != 0);
    CHECK(mode_of(folder_of(fresh)) == 0700);
    std::ofstream(fresh) << "by name";
  });
  CHECK(content_of(path) == "by name");
  CHECK(mode_of(path) == 0604);
  CHECK(files_in(folder.path) == 1);
  CHECK(unguessable_text() != unguessable_text());
}

TEST_CASE("files: pipes and devices are not waited for, and none is too large", "[collector]") {
  const Folder folder;
  const std::string pipe = folder.path + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(open_regular(pipe));
  CHECK(errno == ENXIO);
  CHECK_FALSE(read_regular("/dev/zero", 100));
  CHECK_THROWS_AS(MappedFile(pipe), LogError);
  const std::string text = folder.file("text", "12345");
  CHECK(read_regular(text, 5) == "12345");
  CHECK_FALSE(read_regular(text, 4));
  CHECK(errno == EFBIG);
  CHECK(read_regular("/proc/self/stat", 1 << 20)->size() > 10);
}

TEST_CASE("files: a mapped file that is cut reads as zeros, and that is told", "[collector]") {
  const Folder folder;
  const std::string path = folder.file("log", std::string(5 * 65536, 'x'));
  const MappedFile whole(path);
  const MappedFile file(path);
  whole.require_whole();
  REQUIRE(truncate(path.c_str(), 65536) == 0);
  CHECK(file.data()[100] == 'x');
  file.require_whole();
  const volatile uint8_t* data = file.data();
  CHECK(data[3 * 65536] == 0);
  CHECK(data[5 * 65536 - 1] == 0);
  CHECK_THROWS_AS(file.require_whole(), LogError);
  CHECK(file.data()[100] == 'x');
}

TEST_CASE("files: a cache removes nothing but entries of its own", "[collector]") {
  const Folder folder;
  setenv("XDG_CACHE_HOME", folder.path.c_str(), 1);
  const std::string entry = cache_entry("key");
  const std::string other = folder.file("gpupeak/names/thesis.tex", std::string(1000, 'x'));
  keep_in_cache(entry, std::string(1000, 'y'), 1000);
  CHECK(mode_of(entry) == 0600);
  CHECK(entry != cache_entry("another key"));
  keep_in_cache(entry, std::string(1000, 'y'), 10);
  CHECK(access(entry.c_str(), F_OK) != 0);
  CHECK(access(other.c_str(), F_OK) == 0);
}

TEST_CASE("files: columns that stand for no byte of a log are refused", "[collector]") {
  ColumnCutter cutter("log");
  std::string block(13 * sizeof(uint32_t) + 4096, '\0');
  const auto word = [&block](size_t i, uint32_t value) {
    block.replace(i * sizeof value, sizeof value, reinterpret_cast<const char*>(&value),
                  sizeof value);
  };
  const auto give = [&] { cutter.take(block.data(), block.size(), [](const ColumnBlock&) {}); };
  word(1, 4096);
  CHECK_THROWS_AS(give(), LogError);
  ColumnCutter another("log");
  cutter = std::move(another);
  word(0, 1);
  const auto often = [&] {
    for (int i = 0; i < 100; ++i) give();
  };
  CHECK_THROWS_AS(often(), LogError);
}

TEST_CASE("text: names that double end, and those of real programs are whole", "[collector]") {
  std::string bomb = "_Z1f1AIiiE";
  const auto reference = [](int n) {
    return n == 0 ? std::string("S_")
                  : "S" + std::string(1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n - 1]) + "_";
  };
  for (int i = 1; i < 34; ++i) bomb += "S_I" + reference(i) + reference(i) + "E";
  const auto text = cpp_demangle(bomb);
  CHECK((!text || text->size() <= 8200));
  CHECK_FALSE(cpp_demangle("_Z1fI" + bomb.substr(4) + "EvDpT_"));
  CHECK(cpp_demangle("_ZN1a1bEi") == "a::b(int)");
  CHECK(cpp_demangle("N1a1bE") == "a::b");
  CHECK_FALSE(cpp_demangle("not a name"));
  CHECK(back_references("_Z1fS_S0_T_SaSt") == 3);
  CHECK(demangle("_Z") == "_Z");
}

TEST_CASE("text: what is not seen, or a CI obeys, is escaped", "[collector]") {
  CHECK(escape("a\u202eb\u2063c\u00add\U000e0041") == "a\\u{202e}b\\u{2063}c\\u{00ad}d\\u{0e0041}");
  CHECK(escape("::error file=x::y") == "\\x3a:error file=x::y");
  CHECK(escape("  ::set-output name=a::b") == "  \\x3a:set-output name=a::b");
  CHECK(escape("a ##[error]b ##vso[task]c") == "a \\x23#[error]b \\x23#vso[task]c");
  CHECK(escape("::operator new(unsigned long)") == "::operator new(unsigned long)");
  CHECK(escape("std::vector<int>::at # 1 ## 2") == "std::vector<int>::at # 1 ## 2");
  CHECK(csv_field("=1+1") == "'=1+1");
  CHECK(csv_field("@x,\"y\"") == "\"'@x,\"\"y\"\"\"");
  CHECK(csv_field("a-b") == "a-b");
}

}  // namespace gpupeak::collector
