// A command line as exec and posix_spawn take it.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

/// Pointers to the words, then nullptr. The words must outlive the result. exec does not change
/// them.
inline std::vector<char*> exec_arguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace gpupeak::tools
