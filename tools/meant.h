// What a command line was meant to be that makes no sense as it stands. parse.cc answers with it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpupeak::tools {

using Words = std::vector<std::string>;
bool contains(const Words& words, const std::string& word);
Words verbs_of(const CLI::App& app);

/// It ends as logs do, holds a slash, or is a file.
bool looks_like_log(const std::string& word);

/// `word`, which is neither a verb nor a log. `words` begins with it.
std::string answer_to_no_verb(const CLI::App& app, const Words& words);

/// A program's file that stands where a verb or a log should; `words` begins with it. No value: it
/// is none.
std::optional<std::string> answer_to_program(const Words& words);

/// An option in front of the verb; `words` begins with it.
std::string answer_to_early_option(const CLI::App& app, const Words& words);

/// What the user should read, of what the parser threw at a verb's words.
std::string answer_to(const CLI::ParseError& error, const CLI::App& verb);

/// A log that is not there, where another one's name is much like it.
std::optional<std::string> answer_to_missing_log(const CLI::App& verb);

}  // namespace gpupeak::tools
