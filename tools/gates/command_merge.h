#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

// The inputs of `merge`: logs, partial results, and folders of both.

struct MergeInputs {
  std::vector<std::string> logs, partials;
  /// Files in folders that are named like logs or results and cannot be read.
  size_t unreadable = 0;

  std::vector<std::string> all() const;
};

/// Throws UsageError for a folder that has neither logs nor partial results.
MergeInputs find_merge_inputs(const std::vector<std::string>& paths);

/// `out` with %h replaced by this machine's name, so that one command line names another file on
/// each node; %% stands for %.
std::string expand_host(const std::string& out);

}  // namespace gpupeak::tools
