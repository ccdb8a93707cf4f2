// What an engine for tables is given of runs: rows of seven tables, with columns that are the same
// for every run. `gpupeak tables` writes them; docs/fleet.md describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct TableColumn {
  const char* name;
  const char* type;  ///< in SQL
};

struct Table {
  const char* name;
  std::vector<TableColumn> columns;
  /// Each row as one line, a JSON object; what was not measured is null. It has the columns, and
  /// `day`, which Parquet files have in the name of their folder.
  std::string rows;
};

/// The logs of a run, or of a part of it, such as one node's.
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
