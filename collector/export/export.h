// The formats of other tools: one file and one function for each, and the list of them. `gpupeak
// export` calls them; docs/export.md says what each holds.
//
// in    a Profile: a replayed log with its symbols; a scope
// out   the file of the other tool, whose sums are the log's peak
//
//   folded   main;load_weights;cuMemAlloc 1048576
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

struct ExportOptions {
  std::string scope;  ///< which memory; empty: Profile::scope() chooses
  Progress progress;  ///< called by formats that replay the events once more
  /// The run's name, by which logs_of_run() finds more about the process; empty: none.
  std::string run = {};
  /// A moment as held_at() takes it, for formats with `has_moment`; empty: the peak.
  std::string at = {};
};

void export_massif(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_heaptrack(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_pprof(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_chrome(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_speedscope(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_folded(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_torch_snapshot(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_mxnet_csv(Profile& profile, const ExportOptions& options, std::ostream& out);
void export_csv(Profile& profile, const ExportOptions& options, std::ostream& out);
/// Makes the file `path`, which must not exist. Throws std::runtime_error.
void export_sqlite(Profile& profile, const ExportOptions& options, const std::string& path);

struct ExportFormat {
  std::string_view name;
  std::string_view description;
  bool binary;  ///< it must not go to a terminal
  void (*write)(Profile&, const ExportOptions&, std::ostream&);
  /// If there is no `write`.
  void (*write_file)(Profile&, const ExportOptions&, const std::string&);
  std::string_view alias = {};  ///< another name of the format
  bool packed = false;          ///< the format itself is compressed
  bool has_moment = false;      ///< it shows who held memory at the peak, or at another moment
};

std::span<const ExportFormat> export_formats();

}  // namespace gpupeak::collector
