// What several processes of one run come to, as plain values: what each node held at once, who has
// more than the others, what ended the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/merge/process_record.h"

namespace gpupeak::collector {

/// What one process has of a sum.
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
  std::optional<uint64_t> peak_bytes;          ///< at once; none: not measured by all
  uint64_t error_bytes = 0;                    ///< of the curves, added up
  int64_t peak_time_ns = 0;                    ///< of the job
  std::vector<MergedPart> parts;               ///< of the processes that have such memory
  /// At least peak_bytes minus this were held at one instant. None: no bound is known. The host has
  /// none, since its events have coarse times.
  std::optional<uint64_t> error() const {
    return peak_bytes && scope != "host" ? std::optional(error_bytes) : std::nullopt;
  }
};

/// A machine since one boot: its processes share a clock.
struct MergedNode {
  std::vector<std::string> hosts;  ///< names, several where containers have their own
  std::string boot;                ///< empty: not known
  std::vector<size_t> processes;
  std::vector<MergedSum> sums;

  std::string name() const;
  const MergedSum* find_sum(std::string_view scope) const {
    for (const MergedSum& sum : sums) {
      if (sum.scope == scope) return &sum;
    }
    return nullptr;
  }
};

/// A peak, tag or site of which one process has more or less than the processes that do the same
/// work.
struct Outlier {
  size_t process = 0;
  std::string side;  ///< "device", "host"
  std::string by;    ///< "peak", "tag", "site"
  std::string name;  ///< of the tag or site
  uint64_t bytes = 0;
  std::optional<uint64_t> median_bytes;  ///< none: few have it among what was kept
  int64_t excess_bytes = 0;              ///< beyond the median: at least
  size_t compared = 0;                   ///< number of processes, this one included
};

/// A process that did not end in order.
struct Casualty {
  enum class How {
    kRefused,    ///< a request was refused, and then it ended
    kFailed,     ///< an exit code, or a signal of its own doing
    kSignalled,  ///< by a signal that others send: a launcher, the kernel, a person
  };
  size_t process = 0;
  How how = How::kFailed;
  int64_t time_ns = 0;  ///< of the job: when the request was refused, or when it had ended
};

struct JobEnd {
  std::vector<Casualty> casualties;  ///< the first one first
  size_t in_order = 0;               ///< processes
  size_t not_said = 0;               ///< ended, but nobody saw how: recorded without `gpupeak run`
  size_t without_end = 0;            ///< killed, or still running
};

struct Merged {
  std::vector<ProcessRecord> processes;  ///< by rank, then by their start
  std::vector<MergedNode> nodes;         ///< by the first of their processes
  std::vector<size_t> node_of;           ///< beside processes
  std::vector<Outlier> outliers;         ///< largest difference first
  JobEnd end;
  std::vector<std::string> notes;  ///< what makes an "exact" peak an upper bound
};

}  // namespace gpupeak::collector
