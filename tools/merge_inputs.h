// What `merge` is given: logs, partial results, folders of both.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::tools {

struct MergeInputs {
  std::vector<std::string> logs, partials;
  size_t unreadable = 0;  ///< files in folders that are named as such and cannot be read

  std::vector<std::string> all() const;
};

/// Throws UsageError for a folder without any.
MergeInputs find_merge_inputs(const std::vector<std::string>& paths);

/// `out` with %h replaced by this machine's name, so that one command of a launcher names a file on
/// each node; %% is a %.
std::string expand_host(const std::string& out);

}  // namespace gpupeak::tools
