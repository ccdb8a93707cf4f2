#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "catch.h"
#include "collector/files/fresh_file.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/byte_pack.h"
#include "temporary_folder.h"

namespace {

using namespace gpupeak::collector;
using namespace gpupeak::testing;

constexpr std::string_view kMagic = "gpupeak names 1\n";

bool operator==(const DwarfFrame& a, const DwarfFrame& b) {
  return a.function == b.function && a.file == b.file && a.line == b.line && a.source == b.source;
}

CachedNames some_names() {
  return {
      {0x1000, {{"inner", "a.h", 7, NameSource::kDwarf}, {"outer", "a.cc", 9, NameSource::kDwarf}}},
      {0x2000, {{"_Z5outerv", "", 0, NameSource::kSymtab}}},
      {0x3000, {{"Gemm::[virtual 5]", "", 0, NameSource::kRtti}}},
      {0x4000, {}}};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("name_cache: what can be kept comes back, and nothing of what is damaged does harm",
          "[collector]") {
  const TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", folder.path_.c_str(), 1);
  const std::string watched = folder.path_ + "/watched";
  std::ofstream(watched) << "one";
  CHECK(read_cached_names("key").empty());
  write_cached_names("key", {state_of_file(watched), state_of_file(folder.path_ + "/none")},
                     some_names());
  const CachedNames back = read_cached_names("key"), all = some_names();
  CHECK(back.size() == all.size());
  for (const uint64_t address : {0x1000, 0x2000, 0x3000, 0x4000})
    CHECK(std::equal(back.at(address).begin(), back.at(address).end(), all.at(address).begin(),
                     all.at(address).end(), operator==));
  CHECK(read_cached_names("another").empty());

  const std::string file = cache_entry("key");
  const std::string whole = content_of(file);
  const auto put = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << seal(kMagic, bytes);
  };
  const std::string bytes(*unseal(kMagic, whole));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    put(damaged);
    CHECK(read_cached_names("key").size() <= all.size() + 1);
    put(bytes.substr(0, i));
    CHECK(read_cached_names("key").empty());
  }
  put(bytes);
  CHECK(read_cached_names("key").size() == all.size());
  std::ofstream(folder.path_ + "/none") << "now there is one";
  CHECK(read_cached_names("key").empty());
  unsetenv("XDG_CACHE_HOME");
}
