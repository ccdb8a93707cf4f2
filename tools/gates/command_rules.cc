#include <fmt/format.h>

#include "collector/rules/rule_book.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

struct RulesOptions {
  std::string name;  ///< a built-in set; empty: list them
};

int list_rules(const RulesOptions& options) {
  const std::string& name = options.name;
  write_output("", [&](std::ostream& out) {
    std::vector<std::string> known;
    for (const collector::BuiltinRules& rules : collector::builtin_rules()) {
      if (rules.name == name) {
        out << rules.toml;
        return;
      }
      known.emplace_back(rules.name);
      if (!name.empty()) continue;
      const collector::RuleSet set =
          collector::parse_rules(rules.toml, fmt::format("built-in rules {}", rules.name));
      out << fmt::format("{:<12} {}\n", rules.name, set.description);
    }
    if (!name.empty())
      throw collector::UsageError("no built-in rules '{}'{}", collector::escape(name),
                                  collector::did_you_mean(name, known));
  });
  return kOk;
}

}  // namespace

void add_list_rules(CommandLine& line) {
  auto [verb, options] =
      line.add("rules", "List the built-in rule sets, or print one to start from", list_rules,
               R"(  gpupeak rules                              lists the sets
  gpupeak rules pytorch > mine.toml)");
  add_value(verb, "name", options.name, "NAME", "A built-in set");
}

}  // namespace gpupeak::tools
