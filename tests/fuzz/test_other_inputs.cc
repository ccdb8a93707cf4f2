// The other inputs, damaged in a thousand ways each: bundles, partial results, symbols, rules, and
// libraries with their debug information. Each is read or refused, in a bounded number of steps.
// Some tests count the damaged inputs that are read to the end: if there were none, all damage
// would be at the front.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "collector/log/log_reader.h"
#include "collector/log/symbol_table.h"
#include "collector/merge/merge.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/error.h"
#include "log_builder.h"
#include "sample_logs.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(file)), {});
}

Bytes sample(const std::string& name) {
  const std::vector<SampleLog> all = sample_logs();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SampleLog& log) { return log.name == name; });
  REQUIRE(found != all.end());
  return found->bytes;
}

/// The input with some bytes changed, and with a piece removed or doubled.
Bytes damaged(Bytes bytes, std::mt19937& chance) {
  const auto below = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end > 0 ? end - 1 : 0)(chance);
  };
  static constexpr uint8_t kOften[] = {0, 1, 0x7f, 0x80, 0xff};
  for (size_t i = below(4) + 1; i > 0 && !bytes.empty(); --i) {
    const size_t at = below(bytes.size()), size = std::min(below(64), bytes.size() - at);
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(at);
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<uint8_t>(below(256));
        break;
      case 1:
        std::fill_n(begin, std::min<size_t>(size, 8), kOften[below(5)]);
        break;
      case 2:
        bytes.erase(begin, begin + static_cast<ptrdiff_t>(size));
        break;
      default: {
        const Bytes piece(begin, begin + static_cast<ptrdiff_t>(size));
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size())), piece.begin(),
                     piece.end());
      }
    }
  }
  return bytes;
}

/// Damages the input `times` times; returns how many of these could be read.
size_t read_damaged(const Bytes& whole, int times, const std::function<void(const Bytes&)>& read) {
  std::mt19937 chance(20261125);
  read(whole);  // without damage there is no error
  size_t through = 0;
  for (int i = 0; i < times; ++i) {
    try {
      read(damaged(whole, chance));
      ++through;
    } catch (const LogError&) {
    } catch (const UsageError&) {
    }
  }
  return through;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

TEST_CASE("fuzz: damaged bundles are read or refused", "[fuzz]") {
  const TemporaryFile file;
  const auto read = [&](const Bytes& bytes) {
    file.write(bytes);
    const LogReader log(file.path());
    CHECK(log.file_bytes() < (64 << 20) + 1000 * bytes.size());
  };
  read_damaged(sample("bundle"), 1000, read);
}

TEST_CASE("fuzz: damaged partial results are read or refused", "[fuzz]") {
  const TemporaryFile log, file;
  log.write(sample("whole"));
  std::ostringstream out;
  write_partial({read_process(log.path(), {})}, "test", out);
  read_damaged(bytes_of(out.str()), 1000, [&](const Bytes& bytes) {
    file.write(bytes);
    read_partial(file.path());
  });
}

TEST_CASE("fuzz: damaged symbols are read or refused", "[fuzz]") {
  SymbolTable table;
  Module module;
  module.path = "/usr/lib/x.so";
  module.build_id = "0123456789";
  for (uint64_t address = 0; address < 40; ++address) {
    table.add(module, 16 * address,
              {{"_ZN1a1bEi", "a.cc", 7, NameSource::kDwarf}, {"main", "", 0, NameSource::kSymtab}});
  }
  const size_t through = read_damaged(bytes_of(table.json(77)), 3000,
                                      [](const Bytes& bytes) { SymbolTable(text_of(bytes), 77); });
  CHECK(through > 30);
}

TEST_CASE("fuzz: damaged rules are read or refused", "[fuzz]") {
  const Bytes rules = content_of(GPUPEAK_FUZZ_RULES);
  REQUIRE(rules.size() > 100);
  const size_t through =
      read_damaged(rules, 500, [](const Bytes& bytes) { parse_rules(text_of(bytes), "rules"); });
  CHECK(through > 10);
  std::string nested = "x = ";
  for (int i = 0; i < 100'000; ++i) nested += '[';
  CHECK_THROWS_AS(parse_rules(nested, "rules"), UsageError);
}

TEST_CASE("fuzz: damaged libraries and debug information are read or left", "[fuzz]") {
  const TemporaryFile file;
  Module module;
  module.path = file.path();
  const Bytes library = content_of(GPUPEAK_FUZZ_LIBRARY);
  REQUIRE(library.size() > 1000);
  size_t named = 0;
  read_damaged(library, 400, [&](const Bytes& bytes) {
    file.write(bytes);
    ModuleSymbols symbols(module, {}, nullptr);
    if (symbols.state() != ModuleSymbols::State::kUsable) return;
    for (uint64_t address = 0x1000; address < 0x1400; address += 8)
      named += symbols.frames_at(address).empty() ? 0 : 1;
  });
  CHECK(named > 400);
}
