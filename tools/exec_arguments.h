// A command line as exec and posix_spawn take it.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

/// The words, then nullptr. They must outlive it; they are not changed.
inline std::vector<char*> exec_arguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace gpupeak::tools
