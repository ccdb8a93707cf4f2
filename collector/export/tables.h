// What a table engine gets of runs: rows of seven tables, with the same columns for every run.
// `gpupeak tables` writes them; docs/fleet.md describes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct TableColumn {
  std::string name;
  std::string type;  ///< in SQL
};

struct Table {
  const char* name;
  std::vector<TableColumn> columns;
  /// Each row is one line, a JSON object with the columns; what was not measured is null. It also
  /// has `day`, which Parquet files have in the name of their folder.
  std::string rows;
};

/// A run, or a part of it, such as the logs of one node.
struct TablesRun {
  std::string name;
  std::string part;  ///< name of the part; empty: the whole run
  std::optional<uint64_t> expected_ranks;
  std::map<std::string, std::string> labels;  ///< added to those of the logs
};

/// The day on which the first rank began, in UTC: "2026-11-22".
std::string day_of(const std::vector<Summary>& ranks);

/// `ranks`: the logs of the run, one at least.
std::vector<Table> tables_of(const TablesRun& run, const std::vector<Summary>& ranks);

}  // namespace gpupeak::collector
