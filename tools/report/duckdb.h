// DuckDB by its C interface, loaded when `tables` needs it to write Parquet. Not needed to build
// gpupeak.
#pragma once

#include <memory>
#include <string>

namespace gpupeak::tools {

class DuckDb {
 public:
  /// `library`: path of a libduckdb.so; empty: the one that the loader finds. Returns nullptr if
  /// none can be loaded.
  static std::unique_ptr<DuckDb> load(const std::string& library);
  virtual ~DuckDb() = default;
  /// Runs statements. Throws std::runtime_error with DuckDB's message.
  virtual void run(const std::string& sql) = 0;
  virtual std::string version() const = 0;
};

/// The text as a string literal of SQL.
std::string sql_text(const std::string& text);

}  // namespace gpupeak::tools
