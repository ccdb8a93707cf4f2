// Guesses what was meant by a command line that makes no sense. parse.cc answers with the guess.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpupeak::tools {

using Words = std::vector<std::string>;
bool contains(const Words& words, const std::string& word);
Words verbs_of(const CLI::App& app);

/// Whether a word looks like a log: it has a log's ending or a slash, or is a file.
bool looks_like_log(const std::string& word);

/// The answer to `word`, which is neither a verb nor a log; `words` begins with it.
std::string answer_to_no_verb(const CLI::App& app, const Words& words);

/// The answer to a program's file in the place of a verb or a log; `words` begins with it. None:
/// the word is no program.
std::optional<std::string> answer_to_program(const Words& words);

/// The answer to an option in front of the verb; `words` begins with it.
std::string answer_to_early_option(const CLI::App& app, const Words& words);

/// The message for an error that the parser threw because of a verb's words.
std::string answer_to(const CLI::ParseError& error, const CLI::App& verb);

/// The answer to a log that does not exist, if another log has a similar name.
std::optional<std::string> answer_to_missing_log(const CLI::App& verb);

}  // namespace gpupeak::tools
