#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/rules/rule_book.h"
#include "collector/run/run_logs.h"

namespace gpupeak::tools {

// The page about one log or several, for the verbs that write one.

struct PageTab {
  std::string log;
  /// The run that the log stands for, as the log of the process that held the most does. The page
  /// then says what `report` says of the run.
  std::optional<collector::RunLogs> run = {};
};

/// For each run: the process that held the most, then the other processes that used a GPU.
std::vector<PageTab> tabs_of(const std::vector<std::string>& names, const std::string& process);

/// Reads the logs one after the other and writes the page to `path`. `with_source`: the page has
/// the source lines of its calls. Returns whether the runs are whole (strict.h).
bool write_page(const std::vector<PageTab>& tabs, const collector::Reading& reading,
                bool with_source, const std::string& path);

}  // namespace gpupeak::tools
