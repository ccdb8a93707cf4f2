// The command line. Each command_x.cc adds its verb: its options and what it does. The functions
// here add options that several verbs have, so that these read and mean the same everywhere.
//
//   int report(const ReportOptions&);                           command_report.cc
//   auto [verb, options] = line.add("report", "…", report);     a verb, and its options' values
//   verb.add_option("--top", options.top, "…");
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/rules/rule_book.h"

namespace gpupeak::tools {

/// The examples that this build can run, as --help ends with them.
std::string possible(const std::string& examples);

template <typename Options>
struct Verb {
  CLI::App& app;
  Options& options;  ///< they live as long as the command line
};

struct CommandLine {
  CLI::App app;
  std::function<int()> action;  ///< runs the verb, returns the exit code. Set by parsing
  std::string question;         ///< that the verbs answer which are added next

  template <typename Options>
  Verb<Options> add(const char* name, const char* description, int (*run)(const Options&),
                    const char* examples = "") {
    CLI::App* verb = app.add_subcommand(name, description)->group(question);
    const std::string shown = possible(examples);
    verb->footer(shown.empty() ? "" : "Examples:\n" + shown);
    auto options = std::make_shared<Options>();
    verb->callback([this, options, run] { action = [options, run] { return run(*options); }; });
    return {*verb, *options};
  }
};

/// Finds the verb that the words ask for and sets line.action. Common other spellings are
/// understood, such as `gpupeak LOG` and `gpupeak help VERB`. Errors are answered with what was
/// most likely meant. Returns the exit code if there is nothing more to do: help was printed, or
/// the words make no sense, and the message about it was printed.
std::optional<int> parse(CommandLine& line, int argc, char** argv);

/// How text is to look.
struct TextOptions {
  std::string color = "auto";  ///< always, never, auto: on a terminal, unless NO_COLOR is set
  bool bytes = false;          ///< sizes as plain bytes
};

/// What verbs that show something of logs have in common.
struct OutputOptions {
  std::string out;  ///< file; empty: standard output
  TextOptions text;
  bool json = false, csv = false;
  bool strict = false;
  collector::Reading reading;
};

/// A value out of a list. The message about any other value names the nearest one.
CLI::Validator one_of(const std::vector<std::string>& values);

/// A number from `low` to `high`, both included.
CLI::Validator between(double low, double high);

// Options of the usual kinds. `type`: what the help calls the value.

template <typename T>
CLI::Option* add_value(CLI::App& verb, const char* name, T& value, const char* type,
                       const std::string& text) {
  return verb.add_option(name, value, text)->type_name(type);
}
template <typename T>
CLI::Option* add_required(CLI::App& verb, const char* name, T& value, const char* type,
                          const std::string& text) {
  return add_value(verb, name, value, type, text)->required();
}
/// One that may be repeated.
inline CLI::Option* add_list(CLI::App& verb, const char* name, std::vector<std::string>& values,
                             const char* type, const std::string& text) {
  return add_value(verb, name, values, type, text)->allow_extra_args(false);
}
inline CLI::Option* add_choice(CLI::App& verb, const char* name, std::string& value,
                               const std::vector<std::string>& choices, const std::string& text) {
  return verb.add_option(name, value, text)->check(one_of(choices))->capture_default_str();
}
template <typename T>
CLI::Option* add_number(CLI::App& verb, const char* name, T& value, double low, double high,
                        const std::string& text) {
  return verb.add_option(name, value, text)->check(between(low, high))->capture_default_str();
}

/// The values of --label, NAME=VALUE. Throws UsageError.
std::map<std::string, std::string> labels_of(const std::vector<std::string>& texts,
                                             const collector::Sanitizer& sanitizer);

/// The values that --by takes.
std::vector<std::string> grouping_names();

inline void add_log(CLI::App& verb, std::string& log) {
  add_required(verb, "log", log, "FILE", "A log that `run` or the preloaded library wrote");
}
inline void add_logs(CLI::App& verb, std::vector<std::string>& logs) {
  add_required(verb, "log", logs, "FILE ...",
               "Logs that `run` or the preloaded library wrote; shown in turn");
}
/// Of a program that runs.
inline void add_process_or_log(CLI::App& verb, std::string& target) {
  add_required(verb, "process", target, "PID|LOG", "Its process id, or the log that it writes");
}
inline void add_scope(CLI::App& verb, std::string& scope) {
  verb.add_option("--scope", scope,
                  "Which memory: device, device:0, host, host/heap, device:0/pool, total ...");
}
inline void add_top(CLI::App& verb, size_t& top, const char* rows) {
  add_number(verb, "--top", top, 1, 1'000'000, rows);
}
inline void add_strict(CLI::App& verb, bool& strict) {
  verb.add_flag("--strict", strict, "Exit with 4 if anything was lost, or the run has no end");
}
/// --no-source, for verbs that write a page.
inline void add_no_source(CLI::App& verb, bool& no_source) {
  verb.add_flag("--no-source", no_source, "Of --html: without lines of source");
}
void add_out(CLI::App& verb, std::string& out);
void add_text_options(CLI::App& verb, TextOptions& text);
/// --rules, --phase, --tag: which rules name phases and tags (docs/rules.md).
void add_rules(CLI::App& verb, collector::RuleChoice& rules);
/// Where binaries and their debug information are looked for.
void add_symbol_search(CLI::App& verb, collector::SymbolSearch& search);
/// Options of all verbs that show what is in a log: --confidential, and where symbols are.
void add_reading(CLI::App& verb, collector::Reading& reading);
/// --out, how text looks, the rules, and add_reading(); the second without --out.
void add_output(CLI::App& verb, OutputOptions& options);
void add_text_and_reading(CLI::App& verb, OutputOptions& options);

// The exit codes of the command, as docs/usage.md promises them.

inline constexpr int kOk = 0;
inline constexpr int kGateFailed = 1;  ///< of `check`: a limit was not kept
inline constexpr int kUsage = 2;
inline constexpr int kUnreadableLog = 3;  ///< missing, corrupt, or made by a newer gpupeak
inline constexpr int kIncomplete = 4;     ///< under --strict: is_whole() of run_text.h is false
inline constexpr int kOwnFailure = 125;   ///< of `run`: gpupeak itself failed
inline constexpr int kCannotExec = 126;   ///< of `run`: the program is there and cannot be run
inline constexpr int kNotFound = 127;     ///< of `run`: there is no such program
inline constexpr int kSignalBase = 128;   ///< of `run`: + the signal that ended the program

// What `run` tells the user on standard error, which is the program's as well. If standard error is
// closed, full, or has no reader any more, nothing is said, and the run goes on.

/// Writes the text as it is. Never throws. Raises SIGPIPE unless that is ignored.
inline void say_text(std::string_view text) {
  collector::write_all(2, text);
}

/// Writes a line "gpupeak: …".
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text("gpupeak: " + fmt::format(format, std::forward<Args>(args)...) + "\n");
}

/// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed, in this process alone.
/// Else the next file that we open would get such a number, and output would go into it.
void occupy_standard_descriptors();

}  // namespace gpupeak::tools
