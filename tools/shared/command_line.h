// The command line. Each command_x.cc adds its verb: its options and what it does. The functions
// here add options that several verbs have, so that these read and mean the same everywhere.
//
//   int report(const ReportOptions&);                           command_report.cc
//   auto [verb, options] = line.add("report", "…", report);     a verb, and its options' values
//   verb.add_option("--top", options.top, "…");
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collector/rules/rule_book.h"
#include "tools/examples.h"

namespace gpupeak::tools {

template <typename Options>
struct Verb {
  CLI::App& app;
  Options& options;  ///< they live as long as the command line
};

struct CommandLine {
  CLI::App app;
  std::function<int()> action;  ///< runs the verb, returns the exit code. Set by parsing

  template <typename Options>
  Verb<Options> add(const char* name, const char* description, int (*run)(const Options&)) {
    CLI::App* verb = app.add_subcommand(name, description);
    verb->footer(examples_of(name));
    auto options = std::make_shared<Options>();
    verb->callback([this, options, run] { action = [options, run] { return run(*options); }; });
    return {*verb, *options};
  }
};

/// How text is to look.
struct TextOptions {
  std::string color = "auto";  ///< always, never, auto: on a terminal, unless NO_COLOR is set
  bool bytes = false;          ///< sizes as plain bytes
};

/// A value out of a list. The message about any other value names the nearest one.
CLI::Validator one_of(const std::vector<std::string>& values);

/// A number from `low` to `high`, both included.
CLI::Validator between(double low, double high);

/// The values that --by takes.
std::vector<std::string> grouping_names();

void add_log(CLI::App& verb, std::string& log);
void add_logs(CLI::App& verb, std::vector<std::string>& logs);
void add_scope(CLI::App& verb, std::string& scope);
void add_top(CLI::App& verb, size_t& top, const char* rows);
void add_strict(CLI::App& verb, bool& strict);
/// --no-source, for verbs that write a page.
void add_no_source(CLI::App& verb, bool& no_source);
void add_out(CLI::App& verb, std::string& out);
void add_text_options(CLI::App& verb, TextOptions& text);
/// --rules, --phase, --tag: which rules name phases and tags (docs/rules.md).
void add_rules(CLI::App& verb, collector::RuleChoice& rules);
/// Where binaries and their debug information are looked for.
void add_symbol_search(CLI::App& verb, collector::SymbolSearch& search);
/// Options of all verbs that show what is in a log: --confidential, and where symbols are.
void add_reading(CLI::App& verb, collector::Reading& reading);

}  // namespace gpupeak::tools
