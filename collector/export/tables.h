// What a table engine gets of runs: rows of seven tables, with the same columns for every run.
// `gpupeak tables` writes them; docs/fleet.md describes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

class DuckDb;

/// Writes a file for each table below a folder, in place of earlier files of the same run.
class TablesFolder {
 public:
  /// `format`: parquet, which takes DuckDB's library, ndjson, or auto: Parquet if that is there.
  /// `duckdb`: path of the library; empty: the one that the loader finds. Throws UsageError if what
  /// was asked for cannot be loaded.
  TablesFolder(std::string folder, const std::string& format, const std::string& duckdb);
  ~TablesFolder();
  /// `ranks`: the logs of the run, one at least. Throws std::runtime_error.
  void write(const TablesRun& run, const std::vector<Summary>& ranks) const;
  /// "Parquet by DuckDB v1.2.0".
  std::string form() const;

 private:
  const std::string folder_;
  std::unique_ptr<DuckDb> duckdb_;  // none: newline JSON
};

}  // namespace gpupeak::collector
