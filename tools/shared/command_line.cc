#include "tools/shared/command_line.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "collector/analyze/attribution.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/write/writers.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {
namespace {

/// Without the key GPUPEAK_CONFIDENTIAL_KEY anybody could confirm a guessed name by its hash.
collector::Sanitizer confidential() {
  const char* key = getenv("GPUPEAK_CONFIDENTIAL_KEY");
  return collector::Sanitizer(key != nullptr ? key : "");
}

/// Checks that the folder exists: a misspelt path would leave names out without a word.
CLI::Validator existing_folder() {
  return CLI::Validator(
      [](const std::string& value) {
        std::error_code error;
        return std::filesystem::is_directory(value, error)
                   ? ""
                   : fmt::format("there is no folder '{}'", value);
      },
      "");
}

}  // namespace

std::string possible(const std::string& examples) {
  std::istringstream lines(examples);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" --html ") != std::string::npos && !collector::has_page()) continue;
    if (line.find("gpupeak serve ") != std::string::npos && server_program().empty()) continue;
    all += line + "\n";
  }
  return all;
}

CLI::Validator one_of(const std::vector<std::string>& values) {
  return CLI::Validator(
      [values](std::string& value) {
        if (std::find(values.begin(), values.end(), value) != values.end()) return std::string();
        std::error_code error;
        if (std::filesystem::is_regular_file(value, error)) {
          return fmt::format("'{}' is a file; one of these stands here: {}", value,
                             fmt::join(values, ", "));
        }
        return fmt::format("there is no '{}'{}", value, collector::did_you_mean(value, values));
      },
      fmt::format("{{{}}}", fmt::join(values, ",")));
}

CLI::Validator between(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& value) {
        const std::optional<double> number = collector::number_of(value);
        if (number && *number >= low && *number <= high) return std::string();
        return fmt::format("'{}' is no number from {} to {}", value, low, high);
      },
      fmt::format("{} to {}", low, high));
}

std::map<std::string, std::string> labels_of(const std::vector<std::string>& texts,
                                             const collector::Sanitizer& sanitizer) {
  std::map<std::string, std::string> labels;
  for (const std::string& label : texts) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      throw collector::UsageError("--label " + collector::escape(label) + ": give NAME=VALUE");
    labels[sanitizer.text(label.substr(0, equals))] = sanitizer.text(label.substr(equals + 1));
  }
  return labels;
}

std::vector<std::string> grouping_names() {
  return collector::list_of(collector::kGroupings,
                            [](const auto& grouping) { return std::string(grouping.name); });
}

void add_out(CLI::App& verb, std::string& out) {
  add_value(verb, "-o,--out", out, "FILE", "Write to a file instead of standard output");
}

void add_text_options(CLI::App& verb, TextOptions& text) {
  add_choice(verb, "--color", text.color, {"auto", "always", "never"}, "Colours in text");
  verb.add_flag("--bytes", text.bytes, "Sizes in text as plain bytes, to be pasted");
}

void add_rules(CLI::App& verb, collector::RuleChoice& rules) {
  add_list(verb, "--rules", rules.sets, "NAME|FILE",
           "Rules that name phases and tags: a built-in set, a file, none; may be repeated");
  add_list(verb, "--phase", rules.phases, "NAME=[MODULE!]FUNCTION[#]",
           "A phase by a frame on the stack, such as 'load=llama_model_load*'; with # behind it "
           "each call is one");
  add_list(verb, "--tag", rules.tags, "NAME=[MODULE!]FUNCTION",
           "A tag by a frame on the stack, such as 'weights=*SaveInitializedTensors'");
}

void add_symbol_search(CLI::App& verb, collector::SymbolSearch& search) {
  add_value(verb, "--sysroot", search.sysroot, "DIR", "Folder below which the log's paths lie")
      ->check(existing_folder())
      ->group("Symbols");
  add_list(verb, "--debug-dir", search.debug_dirs, "DIR",
           "Folder of debug files or binaries; may be repeated")
      ->check(existing_folder())
      ->group("Symbols");
}

void add_reading(CLI::App& verb, collector::Reading& reading) {
  verb.add_flag_callback(
      "--confidential", [&reading] { reading.sanitizer = confidential(); },
      "Hashes for paths, functions, arguments, hosts, labels and phases (docs/confidential.md)");
  add_symbol_search(verb, reading.search);
}

void add_output(CLI::App& verb, OutputOptions& options) {
  add_out(verb, options.out);
  add_text_and_reading(verb, options);
}

void add_text_and_reading(CLI::App& verb, OutputOptions& options) {
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
      // open() takes the lowest free number, which is this one.
      if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return;
    }
  }
}

}  // namespace gpupeak::tools
