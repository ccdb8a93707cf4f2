// What an engine for tables is given of runs: rows of seven tables, with columns that are the same
// for every run. `gpupeak tables` writes them; docs/fleet.md describes them.
#pragma once

#include <cstddef>
#include <map>
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
  std::string rows;  ///< a JSON object a line; what was not measured is null
};

/// `ranks`: the logs of the run. `labels`: beside those of the logs.
std::vector<Table> tables_of(const std::string& run, const std::vector<Summary>& ranks,
                             const std::map<std::string, std::string>& labels);

}  // namespace gpupeak::collector
