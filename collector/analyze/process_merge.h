// Several processes of one run taken together: what each GPU and the host held at once. Two
// figures: the sum of the processes' own peaks, an upper bound that always holds, and the peak of
// the sum, which needs one clock for all, so logs of one host and one boot. `gpupeak merge` calls
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/log/event_stream.h"
#include "collector/rules/reading.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct MergedProcess {
  std::string log_path;
  RunSummary run;
  Quality quality;
};

/// Of one process within a sum.
struct MergedPart {
  size_t process = 0;
  std::optional<uint64_t> peak_bytes;     ///< its own peak; none: not measured
  std::optional<uint64_t> at_peak_bytes;  ///< what it held at the peak of the sum
};

struct MergedSum {
  std::string scope;  ///< "device:N" of the first process that uses that GPU, "device", "host"
  std::string name;   ///< for people: "GPU 0 (H200)", "all GPUs", "host"
  std::string uuid;   ///< of a GPU; empty: not known
  std::optional<uint64_t> sum_of_peaks_bytes;  ///< none: some process did not measure it
  /// None: no common clock, or not measured by all. Of the host an upper bound: its events have
  /// coarse times.
  std::optional<uint64_t> peak_bytes;
  int64_t peak_time_ns = 0;       ///< since the first process's start
  std::vector<MergedPart> parts;  ///< of the processes that have such memory
};

struct Merged {
  std::vector<MergedProcess> processes;  ///< as given
  std::vector<MergedSum> sums;
  std::string no_common_clock;     ///< why there are no exact peaks; empty: there are
  std::vector<std::string> notes;  ///< what makes an "exact" peak an upper bound
};

/// GPUs are told apart by their UUIDs, since processes may number them differently. Throws
/// LogError, and UsageError if a log is given twice.
Merged merge_processes(const std::vector<std::string>& paths, const Reading& reading = {},
                       const Progress& progress = {});

}  // namespace gpupeak::collector
