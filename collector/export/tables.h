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
  /// A JSON object a line; what was not measured is null. Beside the columns it has `day`, which
  /// files of columns have in their folder's name.
  std::string rows;
};

/// A run, or what one of its nodes has of it.
struct TablesRun {
  std::string name;
  std::string part;  ///< whose ranks these are, where it is not the whole run
  std::optional<uint64_t> expected_ranks;
  std::map<std::string, std::string> labels;  ///< beside those of the logs
};

/// Of the rank that began first, in UTC: "2026-11-22".
std::string day_of(const std::vector<Summary>& ranks);

/// `ranks`: the logs of the run, one at least.
std::vector<Table> tables_of(const TablesRun& run, const std::vector<Summary>& ranks);

}  // namespace gpupeak::collector
