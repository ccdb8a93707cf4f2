// DuckDB by its C interface, loaded when it is wanted: `tables` has it write Parquet. Nothing of it
// is needed to build gpupeak.
#pragma once

#include <memory>
#include <string>

namespace gpupeak::tools {

class DuckDb {
 public:
  /// `library`: a libduckdb.so; empty: the loader's. Null if there is none that can be loaded.
  static std::unique_ptr<DuckDb> load(const std::string& library);
  virtual ~DuckDb() = default;
  /// Throws std::runtime_error with what DuckDB says.
  virtual void run(const std::string& sql) = 0;
  virtual std::string version() const = 0;
};

/// A text as SQL writes it.
std::string sql_text(const std::string& text);

}  // namespace gpupeak::tools
