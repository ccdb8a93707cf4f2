// Names that are worked out while the events are replayed: titles, tags and warnings are those of
// one who asks alone, however far the others have come.
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "collector/analyze/names_ahead.h"
#include "collector/analyze/site_titles.h"
#include "collector/replay/replay.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/module_symbols.h"
#include "log_builder.h"
#include "this_program.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kGone = 0x10000, kOther = 0x20000, kNever = 0x30000;
constexpr size_t kThreads = 3;
constexpr uint32_t kStacks = 600;

/// Stacks of this program; if asked for, with a frame in libraries that cannot be read.
struct Sample {
  explicit Sample(bool missing) {
    const ThisProgram self = this_program();
    LogBuilder log;
    log.module("/nowhere/libgone.so", "id", kGone, kGone, 0x10000);
    log.module(self.path, "", self.bias, self.begin, self.end - self.begin);
    log.module(self.path, "not this build", kOther, kOther, 0x10000);
    log.module("/nowhere/libnever.so", "id", kNever, kNever, 0x10000);
    for (uint32_t i = 0; i < kStacks; ++i) {
      const uint64_t step = (self.end - self.begin) / kStacks;
      uint32_t stack = log.node(0, self.begin + i * step + 1);
      if (missing) stack = log.node(stack, (i < kStacks / 2 ? kGone : kOther) + 1 + i);
      stacks.push_back(stack);
    }
    if (missing) log.node(0, kNever + 1);
    for (uint32_t i = 0; i < kStacks; ++i) log.alloc(0, i + 1, 0x1000 + i * 64, 16, stacks[i]);
    reader.emplace(log.save(file.path()));
  }

  const TemporaryFile file;
  std::vector<uint32_t> stacks;
  std::optional<LogReader> reader;
};

std::vector<Rule> some_rules() {
  Rule rule;
  rule.name = "test code";
  rule.functions = {"*testing*"};
  return {rule};
}

/// All that names go through for one log.
struct Names {
  explicit Names(const LogReader& log, const SymbolSearch& search = {},
                 const SymbolTable* known = nullptr)
      : definitions(log.definitions()),
        replay(log),
        symbolizer(definitions, search, known, &builtin_name_rules()),
        tagger(replay, symbolizer, some_rules()),
        titles(definitions, symbolizer) {}

  /// What is said of some stacks one by one, then of all: in another order than the log's.
  std::vector<std::string> say(const std::vector<uint32_t>& stacks) {
    std::vector<std::string> said;
    for (size_t i = stacks.size(); i-- > stacks.size() - 3;)
      said.push_back(titles.title(stacks[i]));
    titles.prepare(stacks);
    for (const uint32_t stack : stacks) {
      said.push_back(titles.title(stack));
      said.push_back(titles.module(stack));
    }
    for (GroupId group{0}; group < replay.sites().group_count(); ++group)
      said.push_back(tagger.name(tagger.tag(group)));
    for (const Warning& warning : symbolizer.warnings()) said.push_back(warning.message);
    return said;
  }

  const Definitions& definitions;
  Replay replay;
  Symbolizer symbolizer;
  Tagger tagger;
  SiteTitles titles;
};

}  // namespace

TEST_CASE("names_ahead: what is said is the same, however far they have come", "[collector]") {
  for (const bool missing : {true, false}) {
    const Sample sample(missing);
    SymbolSearch search;
    search.cache = std::make_shared<ModuleCache>();  // the file is read once: that takes seconds
    Names alone(*sample.reader, search);
    alone.replay.run({});
    const std::vector<std::string> expected = alone.say(sample.stacks);
    REQUIRE(alone.symbolizer.warnings().size() == (missing ? 2 : 0));
    for (const int wait_ms : {0, 1, 3, 10, 30, 300}) {
      Names names(*sample.reader, search);
      NamesAhead ahead(names.symbolizer, names.tagger, kThreads);
      names.replay.run({});
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      ahead.finish();
      CHECK(names.say(sample.stacks) == expected);
    }
  }
}

TEST_CASE("names_ahead: nobody hears of a missing library before he asks for it", "[collector]") {
  const Sample sample(true);
  Names names(*sample.reader);
  REQUIRE(!names.symbolizer.resolve_ahead(kThreads, {}).empty());
  names.symbolizer.end_ahead();
  CHECK(names.symbolizer.warnings().empty());
  static_cast<void>(names.titles.title(sample.stacks.back()));
  REQUIRE(names.symbolizer.warnings().size() == 1);
  CHECK(names.symbolizer.warnings()[0].code == WarningCode::kModuleOfOtherBuild);
  names.titles.prepare(sample.stacks);
  REQUIRE(names.symbolizer.warnings().size() == 2);
  CHECK(names.symbolizer.warnings()[1].code == WarningCode::kModuleMissing);
}

TEST_CASE("names_ahead: a library is not missed for names that came with the log", "[collector]") {
  LogBuilder log;
  log.module("/nowhere/libgone.so", "id", kGone, kGone, 0x10000);
  const uint32_t known = log.node(0, kGone + 0x11), unknown = log.node(0, kGone + 0x21);
  const TemporaryFile file;
  const LogReader reader(log.save(file.path()));
  const Module& gone = reader.definitions().modules()[1];
  SymbolTable table;
  table.add(gone, 0x10, {{"known", "", 0, NameSource::kSymtab}});
  table.add_problem(gone, SymbolTable::kMissing);
  Names names(reader, {}, &table);
  REQUIRE(!names.symbolizer.resolve_ahead(kThreads, {}).empty());
  names.symbolizer.end_ahead();
  CHECK(names.titles.title(known) == "known");
  CHECK(names.symbolizer.warnings().empty());
  static_cast<void>(names.titles.title(unknown));
  CHECK(names.symbolizer.warnings().size() == 1);
}

TEST_CASE("names_ahead: without a thread, or with an end in between, names are looked up later",
          "[collector]") {
  const Sample sample(true);
  Names alone(*sample.reader);
  const std::string title = alone.titles.title(sample.stacks.front());
  Names names(*sample.reader);
  NamesAhead none(names.symbolizer, names.tagger, 0);
  none.finish();
  CHECK(names.titles.title(sample.stacks.front()) == title);
  CHECK(names.symbolizer.warnings().size() == 1);
  Names left(*sample.reader);
  const NamesAhead dropped(left.symbolizer, left.tagger, kThreads);
}
