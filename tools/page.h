// The page about one log or several, for the verbs that write one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/rules/reading.h"
#include "collector/run/run_logs.h"

namespace gpupeak::tools {

struct PageTab {
  std::string log;
  /// If the log stands for a run, as that of the process that held the most does: the page says of
  /// it what `report` says of the run.
  std::optional<collector::RunLogs> run = {};
};

/// The lead of each run, and its other processes that used a GPU.
std::vector<PageTab> tabs_of(const std::vector<std::string>& names, const std::string& process);

/// Reads the logs one after the other and writes the page to `path`. `with_source`: with the lines
/// of source that its calls are at. Returns whether the runs are whole, as strict.h has it.
bool write_page(const std::vector<PageTab>& tabs, const collector::Reading& reading,
                bool with_source, const std::string& path);

}  // namespace gpupeak::tools
