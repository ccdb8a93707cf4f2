// A thin layer over SQLite: statements are prepared once, and failures throw. Made for sqlite.cc.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gpupeak::collector {

class Database {
 public:
  /// Makes a new file; it is only safe after finish(). Throws std::runtime_error, as all functions
  /// do.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const char* sql);
  /// Commits: the file is whole then.
  void finish();
  sqlite3* handle() { return handle_; }
  /// Throws what SQLite says of the last failure.
  [[noreturn]] void fail() const;

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// An INSERT: the values of its columns are bound, then it runs.
class Insert {
 public:
  Insert(Database& database, std::string_view table, size_t columns, size_t rows = 1);
  ~Insert();
  Insert(const Insert&) = delete;
  Insert& operator=(const Insert&) = delete;

  /// Binds the values of one row and runs.
  template <class... Values>
  void operator()(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    step();
  }

  /// A bound value stays for the next step(). A text must last until then.
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

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Writes a table of millions of rows. One INSERT writes many rows, since to begin and end one
/// takes longer than a row. Only values that differ from the last ones in the same place are bound.
/// Texts must last until finish().
template <class... Columns>
class Rows {
 public:
  Rows(Database& database, std::string_view table)
      : one_(database, table, kColumns), many_(database, table, kColumns, kRows) {
    rows_.reserve(kRows);
  }

  void operator()(const Columns&... values) {
    const Row row(values...);
    const bool first = count_ == rows_.size();
    if (first) rows_.push_back(row);
    bind(row, first, std::index_sequence_for<Columns...>());
    rows_[count_] = row;
    if (++count_ < kRows) return;
    many_.step();
    count_ = 0;
  }
  /// Call it after the last row.
  void finish() {
    for (size_t i = 0; i < count_; ++i) std::apply(one_, rows_[i]);
    count_ = 0;
  }

 private:
  using Row = std::tuple<Columns...>;
  static constexpr size_t kColumns = sizeof...(Columns);
  static constexpr size_t kMostBound = 999;  // every version of SQLite takes so many
  static constexpr size_t kRows = kMostBound / kColumns;

  template <size_t... Places>
  void bind(const Row& row, bool all, std::index_sequence<Places...>) {
    const int before = static_cast<int>(count_ * kColumns) + 1;
    const auto bind_one = [&](int place, const auto& value, const auto& old) {
      if (all || value != old) many_.bind(before + place, value);
    };
    (bind_one(Places, std::get<Places>(row), std::get<Places>(rows_[count_])), ...);
  }

  Insert one_, many_;
  std::vector<Row> rows_;
  size_t count_ = 0;  // rows that are not yet written
};

}  // namespace gpupeak::collector
