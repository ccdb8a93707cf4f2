#include "parse.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "collector/text/nearest.h"
#include "collector/text/sanitize.h"
#include "exit_codes.h"

namespace gpupeak::tools {
namespace {

using Words = std::vector<std::string>;

Words verbs_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

Words options_of(const CLI::App& verb) {
  Words names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : verb.get_subcommands({})) {  // groups of options
    const Words more = options_of(*group);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

bool looks_like_log(const std::string& word) {
  std::error_code error;
  if (word.find('/') != std::string::npos) return true;
  for (const char* ending : {".gplog", ".gpbundle", ".gpz", ".zst"}) {
    if (word.ends_with(ending)) return true;
  }
  return std::filesystem::is_regular_file(word, error);
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// `gpupeak help report`, `gpupeak version`, `gpupeak LOG`. Else an unknown verb stays as it is.
void understand(Words& words, const Words& verbs) {
  if (words.empty()) return;
  const std::string first = words.front();
  if (first == "help") {
    words.erase(words.begin());
    if (words.empty() || !contains(verbs, words.front())) {
      words.insert(words.begin(), "--help");
    } else {
      words.resize(1);
      words.emplace_back("--help");
    }
  } else if (first == "version") {
    words = {"--version"};
  } else if (!first.starts_with('-') && !contains(verbs, first) && looks_like_log(first)) {
    words.insert(words.begin(), "report");
  }
}

/// What the user should read, of what the parser threw.
std::string message_of(const CLI::ParseError& error, const CLI::App& verb) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const std::string& word : verb.remaining(true)) {
      const std::string name = collector::escape(word.substr(0, word.find('=')));
      if (!word.starts_with('-') || word == "-") {
        return fmt::format("'{}' is one argument too many", collector::escape(word));
      }
      const Words meant = collector::nearest(name, options_of(verb), 1);
      return fmt::format("there is no option {}{}", name,
                         meant.empty() ? "" : fmt::format("; did you mean {}?", meant.front()));
    }
  }
  return collector::escape(error.what());
}

int fail(const std::string& message, const std::string& verb) {
  spdlog::error("{}. `gpupeak {}--help` tells more", message, verb.empty() ? "" : verb + " ");
  return kUsage;
}

}  // namespace

std::optional<int> parse(CommandLine& line, int argc, char** argv) {
  const Words verbs = verbs_of(line.app);
  Words words(argv + 1, argv + argc);
  understand(words, verbs);
  if (words.empty()) {
    return fail(
        "what is to be done? `gpupeak run -- PROGRAM` records, `gpupeak report LOG` shows what was "
        "recorded",
        "");
  }
  const std::string first = words.front();
  const bool is_verb = contains(verbs, first);
  if (!is_verb && !first.starts_with('-')) {
    const Words meant = collector::nearest(first, verbs);
    return fail(
        fmt::format(
            "there is no verb '{}'{}", collector::escape(first),
            meant.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(meant, " or "))),
        "");
  }
  std::reverse(words.begin(), words.end());  // as the parser takes them
  try {
    line.app.parse(words);
    return std::nullopt;
  } catch (const CLI::Success& success) {  // --help, --version
    line.app.exit(success);
    return kOk;
  } catch (const CLI::ParseError& error) {
    const CLI::App& asked = is_verb ? *line.app.get_subcommand(first) : line.app;
    return fail(message_of(error, asked), is_verb ? first : "");
  }
}

}  // namespace gpupeak::tools
