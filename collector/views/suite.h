// A row a run: what came of each program of a suite. `gpupeak compare FOLDER` shows it.
//
// in    the summary of each run of a folder, and of last week's
// out   run    exit  device peak   change  who holds it                 would lower it
//       scan      0      768 MiB  +12.0 %  1st buffer of main … 33.3 %  never seen used −33.3 %
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

struct SuiteRow {
  std::string run;      ///< the log's name, without folder and suffix
  std::string command;  ///< program and arguments
  RunEnd end;
  std::optional<uint64_t> device_bytes, host_bytes;  ///< peaks; none: not measured
  std::optional<uint64_t> host_error;                ///< of an estimate
  /// Of the run of this name that it is compared with; none: there is none, or it was not measured
  /// there.
  std::optional<uint64_t> device_before, host_before;
  std::string
      holder;        ///< the largest row of the device's peak, or of the host's if no GPU was used
  std::string role;  ///< of its memory: "copied in · read by add"; empty: not known
  uint64_t holder_bytes = 0, holder_of = 0;  ///< its bytes, and the peak that they are of
  std::string lowered_by;                 ///< the change that saves most; empty: none, or not known
  std::optional<uint64_t> lowered_bytes;  ///< the peak with it
  int64_t duration_ns = 0;
  bool complete = false;  ///< ended in order, and nothing was lost; set by the caller
  std::string error;      ///< why the log could not be read; then nothing else is known but `run`
};

enum class SuiteOrder { kDevice, kHost, kTime, kChange, kName };

SuiteRow suite_row(const std::string& run, const Summary& summary);
/// Largest first, names in their order; what is not known comes last.
void order(std::vector<SuiteRow>& rows, SuiteOrder by);

void write_suite(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out,
                 const TextStyle& style);
void write_suite_csv(const std::vector<SuiteRow>& rows, std::ostream& out);
/// Schema gpupeak.suite/1 (docs/json.md).
void write_suite_json(const std::vector<SuiteRow>& rows, std::ostream& out);
/// A page that needs no script.
void write_suite_html(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out);

}  // namespace gpupeak::collector
