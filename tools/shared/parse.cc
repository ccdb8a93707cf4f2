#include "tools/shared/parse.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "collector/text/name_match.h"
#include "tools/shared/exit_codes.h"
#include "tools/shared/meant.h"

namespace gpupeak::tools {
namespace {

/// Turns `gpupeak help report`, `gpupeak version` and `gpupeak LOG` into what is meant. Any other
/// unknown verb stays as it is.
void understand(Words& words, const Words& verbs) {
  if (words.empty()) return;
  const std::string first = words.front();
  if (first == "help") {
    words.erase(words.begin());
    if (words.empty()) {
      words = {"--help"};
    } else if (!contains(verbs, words.front())) {
      if (collector::nearest(words.front(), verbs).empty()) words = {"--help"};
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

int fail(const std::string& message, const std::string& verb) {
  spdlog::error("{} (`gpupeak {}--help` tells more)", message, verb.empty() ? "" : verb + " ");
  return kUsage;
}

}  // namespace

std::optional<int> parse(CommandLine& line, int argc, char** argv) {
  const Words verbs = verbs_of(line.app);
  Words words(argv + 1, argv + argc);
  if (!words.empty() && !contains(verbs, words.front())) {
    if (const auto answer = answer_to_program(words)) return fail(*answer, "");
  }
  understand(words, verbs);
  if (words.empty()) {
    return fail(
        "what is to be done? `gpupeak run -- PROGRAM` records, `gpupeak report LOG` shows what was "
        "recorded",
        "");
  }
  const std::string first = words.front();
  const bool is_verb = contains(verbs, first);
  if (!is_verb && !first.starts_with('-')) return fail(answer_to_no_verb(line.app, words), "");
  const Words given = words;
  std::reverse(words.begin(), words.end());  // CLI11 takes the words in reverse order
  try {
    line.app.parse(words);
    const CLI::App& verb = *line.app.get_subcommand(first);
    if (const auto answer = answer_to_missing_log(verb)) {
      spdlog::error("{}", *answer);
      return kUnreadableLog;
    }
    return std::nullopt;
  } catch (const CLI::Success& success) {  // --help, --version
    line.app.exit(success);
    return kOk;
  } catch (const CLI::ParseError& error) {
    if (!is_verb) return fail(answer_to_early_option(line.app, given), "");
    return fail(answer_to(error, *line.app.get_subcommand(first)), first);
  }
}

}  // namespace gpupeak::tools
