// What several threads share: each piece is done once, and names are the same as one by one.
#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.h"
#include "collector/log/log_reader.h"
#include "collector/log/parallel.h"
#include "collector/symbols/module_symbols.h"
#include "collector/symbols/symbolizer.h"
#include "log_builder.h"
#include "this_program.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

TEST_CASE("parallel: each piece is done once", "[collector]") {
  for (const size_t count : {0, 1, 63, 64, 1000, 100'000}) {
    std::vector<int> done(count);
    in_parallel(count, 64, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++done[i];
    });
    CHECK(done == std::vector<int>(count, 1));
  }
}

TEST_CASE("parallel: of several failures the first piece's is thrown", "[collector]") {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> calls = 0;
    const auto work = [&](size_t begin, size_t /*end*/) {
      ++calls;
      if (begin >= 200) throw std::runtime_error(std::to_string(begin));
    };
    CHECK_THROWS_WITH(in_parallel(1000, 1, work), "200");
    CHECK(calls >= 201);
  }
}

TEST_CASE("symbolizer: many stacks at once have the frames, numbers and warnings of one by one",
          "[collector]") {
  const ThisProgram self = this_program();
  constexpr uint64_t kGone = 0x10000, kOther = 0x20000, kAgain = 0x100000000;
  const uint64_t text = self.begin - self.bias;  // loaded twice, it is still one file
  LogBuilder log;
  log.module("/nowhere/libgone.so", "id", kGone, kGone, 0x10000);
  log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
  log.module(self.path, "not this build", kOther, kOther, 0x10000);
  log.module(self.path, "", kAgain, kAgain + text, self.end - self.begin);
  std::vector<uint32_t> stacks;
  for (uint32_t i = 0; i < 3000; ++i) {
    const uint64_t step = (self.end - self.begin) / 3000;
    const uint32_t outer = log.node(0, (i % 3 == 0 ? kAgain + text : self.begin) + i * step);
    stacks.push_back(log.node(outer, (i % 2 == 0 ? kGone : kOther) + 1 + i % 997));
  }
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  SymbolSearch search;
  search.cache = std::make_shared<ModuleCache>();
  Symbolizer at_once(reader.definitions(), search);
  Symbolizer alone(reader.definitions(), {});
  at_once.resolve_all(stacks);
  std::map<uint32_t, uint32_t> numbers;
  size_t named = 0;
  for (const uint32_t stack : stacks) {
    for (uint32_t node = stack; node != 0; node = reader.definitions().nodes()[node].parent) {
      const ResolvedAddress& a = at_once.resolve(node);
      const ResolvedAddress& b = alone.resolve(node);
      REQUIRE(a.frames.size() == b.frames.size());
      for (size_t i = 0; i < a.frames.size(); ++i) {
        REQUIRE(a.frames[i].function == b.frames[i].function);
        REQUIRE(a.frames[i].file == b.frames[i].file);
        REQUIRE(a.frames[i].line == b.frames[i].line);
        REQUIRE(a.roles[i].start == b.roles[i].start);
        REQUIRE(a.roles[i].plumbing == b.roles[i].plumbing);
        named += a.frames[i].function.empty() ? 0 : 1;
        const auto number = numbers.try_emplace(a.function_ids[i], b.function_ids[i]).first->second;
        REQUIRE(number == b.function_ids[i]);
      }
    }
  }
  CHECK(named > 500);
  REQUIRE(at_once.warnings().size() == 2);
  CHECK(at_once.warnings()[0].code == WarningCode::kModuleMissing);
  CHECK(at_once.warnings()[1].code == WarningCode::kModuleOfOtherBuild);
  CHECK(at_once.problems() == alone.problems());
}
