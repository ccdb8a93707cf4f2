// The formats of other tools: one file and one function for each, and the list of them. `gpupeak
// export` calls them; docs/export.md says what each holds.
//
// in    a Profile: a replayed log with its symbols; a scope
// out   the file of the other tool, whose sums are the log's peak
//
//   folded   main;load_weights;cuMemAlloc 1048576
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "collector/analyze/profile.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

struct ExportOptions {
  std::string scope;  ///< which memory; empty: Profile::scope() chooses
  Progress progress;  ///< called by formats that replay the events once more
  /// The run's name, by which logs_of_run() finds more about the process; empty: none.
  std::string run = {};
  /// A moment as held_at() takes it, for formats with `has_moment`; empty: the peak.
  std::string at = {};
};

using Export = void(Profile& profile, const ExportOptions& options, std::ostream& out);
Export export_massif, export_heaptrack, export_pprof, export_chrome, export_speedscope,
    export_folded, export_torch_snapshot, export_mxnet_csv, export_csv;
/// Makes the file `path`, which must not exist. Throws std::runtime_error.
void export_sqlite(Profile& profile, const ExportOptions& options, const std::string& path);

struct ExportFormat {
  std::string_view name;
  std::string_view description;
  bool binary = false;  ///< it must not go to a terminal
  Export* write = nullptr;
  bool has_moment = false;      ///< it shows who held memory at the peak, or at another moment
  std::string_view alias = {};  ///< another name of the format
  bool packed = false;          ///< the format itself is compressed
  /// If there is no `write`.
  void (*write_file)(Profile&, const ExportOptions&, const std::string&) = nullptr;
  /// The same without analysis, so also of a damaged log.
  void (*write_events)(const LogReader&, std::ostream&, const Progress&) = nullptr;
};

std::span<const ExportFormat> export_formats();

// Open phases as nested slices, which is all that trace viewers know. If a phase ends while others
// that began later are open, their slices end and begin again.
//
//   phases   |== load ======|              slices   |== load ======|
//               |= copy =======|                       |= copy ====|= copy =|
class PhaseSlices : public ReplayObserver {
 protected:
  static constexpr uint32_t kProcessTrack = 0;

  /// `track`: a thread's id, or kProcessTrack.
  virtual void on_slice_begin(uint32_t track, std::string_view name, uint64_t ticks) = 0;
  virtual void on_slice_end(uint32_t track, uint64_t ticks) = 0;

 private:
  /// How many slices may begin again. Their number grows with the square of the phases that
  /// overlap: without a limit the export of a small log could fill a disk.
  static constexpr uint64_t kMostAgain = UINT64_C(1) << 22;

  void on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                      uint64_t ticks) final;
  void on_phase_end(PhaseTrack track, uint64_t number, uint64_t ticks) final;
  std::map<uint64_t, std::string>& open(PhaseTrack track) {
    return track.of_process ? of_process_ : of_slots_[track.slot];
  }

  std::map<uint64_t, std::string> of_process_;  // names by number; the innermost phase is last
  std::unordered_map<uint32_t, std::map<uint64_t, std::string>> of_slots_;
  uint64_t again_ = 0;
};

// Compresses an export while it is written, if the file's name ends in `.gz` or `.zst`.

enum class OutputPacking { kNone, kGzip, kZstd };

/// The packing for the ending of the path: `.gz`, `.zst`; else kNone.
OutputPacking packing_of(std::string_view path);

/// Calls `write` with a stream, and writes to `out` what the stream gets, compressed. Throws
/// std::runtime_error if the compressor fails.
void write_packed(OutputPacking packing, std::ostream& out,
                  const std::function<void(std::ostream&)>& write);

// What a table engine gets of runs: rows of seven tables, with the same columns for every run.
// `gpupeak tables` writes them; docs/fleet.md describes them.

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
