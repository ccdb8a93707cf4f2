#include "collector/export/database.h"

#include <fmt/format.h>

#include <stdexcept>

namespace gpupeak::collector {

Database::Database(const std::string& path) : path_(path) {
  // Only one thread uses it, so it needs no locks.
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    const std::string reason = sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    throw std::runtime_error(fmt::format("cannot write {}: {}", path, reason));
  }
  // An unfinished file is thrown away, so it needs no journal.
  run("PRAGMA journal_mode = OFF");
  run("PRAGMA synchronous = OFF");
  run("PRAGMA locking_mode = EXCLUSIVE");
  run("BEGIN");
}

Database::~Database() {
  sqlite3_close(handle_);
}

void Database::fail() const {
  throw std::runtime_error(fmt::format("cannot write {}: {}", path_, sqlite3_errmsg(handle_)));
}

void Database::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void Database::finish() {
  run("COMMIT");
}

Insert::Insert(Database& database, std::string_view table, size_t columns, size_t rows)
    : database_(database) {
  std::string row = "(?";
  for (size_t i = 1; i < columns; ++i) row += ",?";
  row += ')';
  std::string sql = fmt::format("INSERT INTO {} VALUES {}", table, row);
  for (size_t i = 1; i < rows; ++i) sql += ',' + row;
  if (sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) {
    database.fail();
  }
}

Insert::~Insert() {
  sqlite3_finalize(statement_);
}

void Insert::bind(int column, int64_t value) {
  sqlite3_bind_int64(statement_, column, value);
}

void Insert::bind(int column, std::string_view value) {
  sqlite3_bind_text(statement_, column, value.data(), static_cast<int>(value.size()),
                    SQLITE_STATIC);
}

void Insert::bind(int column, std::nullopt_t) {
  sqlite3_bind_null(statement_, column);
}

void Insert::step() {
  const int result = sqlite3_step(statement_);
  sqlite3_reset(statement_);
  if (result != SQLITE_DONE) database_.fail();
}

}  // namespace gpupeak::collector
