// A thin layer over SQLite: statements that are prepared once and whose failures throw. Made for
// sqlite.cc.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpupeak::collector {

class Database {
 public:
  /// Makes a new file; nothing of it is safe until finish(). Throws std::runtime_error, as all do.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const char* sql);
  void finish();
  sqlite3* handle() { return handle_; }
  [[noreturn]] void fail() const;

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// An INSERT: columns are bound in turn, then it runs.
class Insert {
 public:
  Insert(Database& database, std::string_view table, int columns);
  ~Insert();
  Insert(const Insert&) = delete;
  Insert& operator=(const Insert&) = delete;

  template <class... Values>
  void operator()(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    step();
  }

 private:
  void bind(int column, int64_t value);
  void bind(int column, uint64_t value) { bind(column, static_cast<int64_t>(value)); }
  void bind(int column, uint32_t value) { bind(column, static_cast<int64_t>(value)); }
  void bind(int column, int value) { bind(column, static_cast<int64_t>(value)); }
  void bind(int column, std::string_view value);
  void bind(int column, const std::string& value) { bind(column, std::string_view(value)); }
  void bind(int column, const char* value) { bind(column, std::string_view(value)); }
  void bind(int column, std::nullopt_t);
  template <class T>
  void bind(int column, const std::optional<T>& value) {
    if (value) {
      bind(column, *value);
    } else {
      bind(column, std::nullopt);
    }
  }
  void step();

  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace gpupeak::collector
