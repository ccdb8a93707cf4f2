// The formats of other tools: one file and one function each, and the list of them. `gpupeak
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
  std::string scope;  ///< which memory; empty: Profile::scope chooses
  Progress progress;  ///< told by formats that replay the events once more
  /// The run's name, from which logs_of_run() knows more of the process; empty: none.
  std::string run = {};
  std::string at = {};  ///< a moment as held_at() takes it, if `has_moment`; empty: the peak
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
/// Makes the file `path`, which must not be there. Throws std::runtime_error.
void export_sqlite(Profile& profile, const ExportOptions& options, const std::string& path);

struct ExportFormat {
  std::string_view name;
  std::string_view description;
  bool binary;  ///< not to be written to a terminal
  void (*write)(Profile&, const ExportOptions&, std::ostream&);
  void (*write_file)(Profile&, const ExportOptions&, const std::string&);  ///< if not `write`
  std::string_view alias = {};                                             ///< another name for it
  bool packed = false;      ///< the format itself is compressed
  bool has_moment = false;  ///< it shows who held the peak, or another moment
};

std::span<const ExportFormat> export_formats();

}  // namespace gpupeak::collector
