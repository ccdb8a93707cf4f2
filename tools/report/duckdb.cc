#include "tools/report/duckdb.h"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

#include "collector/text/system_library.h"

namespace gpupeak::tools {
namespace {

/// The declarations of DuckDB's duckdb.h that are used. They are of its stable interface.
struct Result {
  uint64_t column_count, row_count, rows_changed;
  void *columns, *error_message, *internal_data;
};
struct Interface {
  const char* (*library_version)();
  int (*open)(const char* path, void** database);
  void (*close)(void** database);
  int (*connect)(void* database, void** connection);
  void (*disconnect)(void** connection);
  int (*query)(void* connection, const char* sql, Result* result);
  const char* (*result_error)(Result* result);
  void (*destroy_result)(Result* result);
};

class Loaded : public DuckDb {
 public:
  explicit Loaded(const Interface& api) : api_(api) {
    if (api_.open(nullptr, &database_) != 0 || api_.connect(database_, &connection_) != 0)
      throw std::runtime_error("DuckDB does not start");
  }
  ~Loaded() override {
    if (connection_ != nullptr) api_.disconnect(&connection_);
    if (database_ != nullptr) api_.close(&database_);
  }
  void run(const std::string& sql) override {
    Result result{};
    const bool failed = api_.query(connection_, sql.c_str(), &result) != 0;
    const char* said = failed ? api_.result_error(&result) : nullptr;
    const std::string problem = said != nullptr ? said : "DuckDB does not say what is wrong";
    api_.destroy_result(&result);
    if (failed) throw std::runtime_error(problem);
  }
  std::string version() const override { return api_.library_version(); }

 private:
  const Interface api_;
  void *database_ = nullptr, *connection_ = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<DuckDb> DuckDb::load(const std::string& library) {
  void* const loaded = library.empty() ? collector::open_system_library("libduckdb.so")
                                       : dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Interface api{};
  const bool is_whole =
      loaded != nullptr && find(loaded, "duckdb_library_version", api.library_version) &&
      find(loaded, "duckdb_open", api.open) && find(loaded, "duckdb_close", api.close) &&
      find(loaded, "duckdb_connect", api.connect) &&
      find(loaded, "duckdb_disconnect", api.disconnect) &&
      find(loaded, "duckdb_query", api.query) &&
      find(loaded, "duckdb_result_error", api.result_error) &&
      find(loaded, "duckdb_destroy_result", api.destroy_result);
  return is_whole ? std::make_unique<Loaded>(api) : nullptr;
}

std::string sql_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace gpupeak::tools
