// Finds the verb that a command line asks for, and guesses what was meant by one that makes no
// sense.
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "collector/files/regular_file.h"
#include "collector/log/log_parts.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

using Words = std::vector<std::string>;

namespace fs = std::filesystem;
using collector::escape;

constexpr const char* kLogEndings[] = {".gplog", ".gpbundle", ".gpz", ".zst"};

bool ends_like_log(const std::string& word) {
  return std::ranges::any_of(kLogEndings,
                             [&](const char* ending) { return word.ends_with(ending); });
}

/// The verb's own options, and those of its groups.
std::vector<const CLI::Option*> options_of(const CLI::App& verb) {
  std::vector<const CLI::Option*> found = verb.get_options();
  for (const CLI::App* group : verb.get_subcommands({})) {
    const std::vector<const CLI::Option*> more = options_of(*group);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

Words option_names(const CLI::App& verb) {
  Words names;
  for (const CLI::Option* option : options_of(verb)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The words as `a b 'c d'`, for a shell.
std::string pasteable(const Words& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~") == std::string::npos;
    if (!line.empty()) line += ' ';
    line += plain ? escape(word) : "'" + escape(word) + "'";
  }
  return line;
}

/// Whether the kernel would run the file. Its first bytes count too, since on some file systems all
/// files have the permission to be run.
bool is_program_file(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0) return false;
  char head[4] = {};
  const collector::Descriptor file = collector::open_regular(path);
  if (!file || read(file.get(), head, sizeof head) <= 0) return false;
  const std::string_view begin(head, sizeof head);
  return begin == ELFMAG || begin.starts_with("#!");
}

std::string record_it(const Words& words) {
  return fmt::format("to record a program: `gpupeak run -- {}`", pasteable(words));
}

/// The message about `--html LOG`, where the option takes the log as the file that it writes.
std::string swallowed_log(const CLI::App& verb) {
  for (const CLI::Option* option : options_of(verb)) {
    if (option->get_positional() || option->results().empty()) continue;
    const std::string& value = option->results().back();
    if (ends_like_log(value) && collector::is_regular(value)) {
      return fmt::format("; {} has taken '{}' for its own value", option->get_name(),
                         escape(value));
    }
  }
  return "";
}

/// The message about an argument that the verb needs and that is missing, or that was not given
/// often enough; empty: there is none.
std::string lacking(const CLI::App& verb) {
  for (const CLI::Option* option : options_of(verb)) {
    const size_t given = option->results().size();
    const auto needed = static_cast<size_t>(option->get_items_expected_min());
    if (!option->get_positional()) continue;
    if (given == 0 && option->get_required())
      return fmt::format("no {} is named", option->get_name(true)) + swallowed_log(verb);
    if (given > 0 && given < needed)
      return fmt::format("{} {} are needed, {} is given", needed, option->get_name(true), given);
  }
  return "";
}

bool is_among(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Words verbs_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    names.push_back(verb->get_name());
    names.insert(names.end(), verb->get_aliases().begin(), verb->get_aliases().end());
  }
  return names;
}

/// Whether a word looks like a log: it has a log's ending or a slash, or is a file.
bool looks_like_log(const std::string& word) {
  return word.find('/') != std::string::npos || ends_like_log(word) || collector::is_regular(word);
}

/// The answer to `word`, which is neither a verb nor a log; `words` begins with it.
std::string answer_to_no_verb(const CLI::App& app, const Words& words) {
  const Words meant = collector::nearest(words.front(), verbs_of(app));
  std::string answer = fmt::format("there is no verb '{}'", escape(words.front()));
  if (!meant.empty()) return answer + fmt::format("; did you mean {}?", fmt::join(meant, " or "));
  return is_program_file(program_file(words.front())) ? answer + "; " + record_it(words) : answer;
}

/// The answer to a program's file in the place of a verb or a log; `words` begins with it. None:
/// the word is no program.
std::optional<std::string> answer_to_program(const Words& words) {
  if (ends_like_log(words.front()) || !is_program_file(words.front())) return std::nullopt;
  return fmt::format("{} is a program, not a log; {}", escape(words.front()), record_it(words));
}

/// The answer to an option in front of the verb; `words` begins with it.
std::string answer_to_early_option(const CLI::App& app, const Words& words) {
  const Words verbs = verbs_of(app);
  const std::string name = words.front().substr(0, words.front().find('='));
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  if (is_among(verbs, bare)) return fmt::format("a verb has no dashes: `gpupeak {}`", bare);
  const auto verb =
      std::ranges::find_if(words, [&](const std::string& word) { return is_among(verbs, word); });
  if (verb != words.end())
    return fmt::format("options stand behind the verb: `gpupeak {} {} …`", *verb, escape(name));
  for (const char* known : {"report", "run"}) {
    if (is_among(option_names(*app.get_subcommand(known)), name)) {
      return fmt::format("{} is an option of a verb: did you mean `gpupeak {} {} …`?", name, known,
                         name);
    }
  }
  return fmt::format("there is no option {}{}", escape(name),
                     name == "-v" ? "; did you mean -V?"
                     : collector::nearest(name, {"--help", "--version"}).empty()
                         ? ""
                         : collector::did_you_mean(name, {"--help", "--version"}));
}

/// The message for an error that the parser threw because of a verb's words.
std::string answer_to(const CLI::ParseError& error, const CLI::App& verb) {
  const std::string message = escape(error.what());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const std::string& word : verb.remaining(true)) {
      const std::string name = word.substr(0, word.find('='));
      if (!word.starts_with('-') || word == "-")
        return fmt::format("'{}' is one argument too many", escape(word));
      const Words meant = collector::nearest(name, option_names(verb), 1);
      return fmt::format("there is no option {}{}", escape(name),
                         meant.empty() ? "" : fmt::format("; did you mean {}?", meant.front()));
    }
  }
  const bool is_required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_required) {
    const size_t open = message.find('['), close = message.rfind(']');
    if (message.starts_with("Requires at most 1") && open < close && close != std::string::npos)
      return fmt::format("give one of {} at most", message.substr(open + 1, close - open - 1));
  }
  const bool is_lacking =
      is_required || dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  const std::string lack = is_lacking ? lacking(verb) : "";
  return lack.empty() ? message : lack;
}

/// The answer to a log that does not exist, if another log has a similar name.
std::optional<std::string> answer_to_missing_log(const CLI::App& verb) {
  for (const CLI::Option* option : options_of(verb)) {
    const std::string& type = option->get_type_name();
    if (!option->get_positional() || !(type.starts_with("FILE") || type.starts_with("LOG")))
      continue;
    for (const std::string& log : option->results()) {
      std::error_code error;
      const bool is_pid = log.find_first_not_of("0123456789") == std::string::npos;
      if (is_pid && verb.get_name() == "report") continue;  // it looks for the process's log
      if (fs::exists(collector::part_name(log).log, error)) continue;
      const fs::path path(log);
      Words there;
      for (fs::directory_iterator at(path.has_parent_path() ? path.parent_path() : ".", error), end;
           !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (ends_like_log(name)) there.push_back(name);
      }
      std::ranges::sort(there);
      const Words meant = collector::nearest(path.filename().string(), there, 1);
      if (meant.empty()) continue;
      return fmt::format("cannot open {}: No such file or directory; did you mean {}?", escape(log),
                         escape((path.parent_path() / meant.front()).string()));
    }
  }
  return std::nullopt;
}

/// Verbs of earlier releases, which go on working, and what does the same now.
struct OldVerb {
  std::string_view name;
  Words now;
};
const OldVerb kOldVerbs[] = {
    {"compare", {"diff", "--side-by-side"}}, {"compress", {"bundle", "--log"}},
    {"dump", {"export", "events"}},          {"flame", {"tree", "--flame"}},
    {"held", {"report", "--held"}},          {"start", {"attach", "--heap"}},
    {"stop", {"detach", "--heap"}},          {"symbolize", {"bundle", "--symbols"}}};

/// Puts what does the same now in the place of an old verb, and says so.
void renew(Words& words) {
  for (const OldVerb& old : kOldVerbs) {
    if (words.empty() || words.front() != old.name) continue;
    spdlog::info("`gpupeak {}` is `gpupeak {}` now", old.name, fmt::join(old.now, " "));
    words.erase(words.begin());
    words.insert(words.begin(), old.now.begin(), old.now.end());
    return;
  }
}

/// Turns `gpupeak help report`, `gpupeak version` and `gpupeak LOG` into what is meant. Any other
/// unknown verb stays as it is.
void understand(Words& words, const Words& verbs) {
  if (words.empty()) return;
  const std::string first = words.front();
  if (first == "help") {
    words.erase(words.begin());
    renew(words);
    if (words.empty()) {
      words = {"--help"};
    } else if (!is_among(verbs, words.front())) {
      if (collector::nearest(words.front(), verbs).empty()) words = {"--help"};
    } else {
      words.resize(1);
      words.emplace_back("--help");
    }
  } else if (first == "version") {
    words = {"--version"};
  } else if (!first.starts_with('-') && !is_among(verbs, first) && looks_like_log(first)) {
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
  renew(words);
  if (!words.empty() && !is_among(verbs, words.front())) {
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
  const bool is_verb = is_among(verbs, first);
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
