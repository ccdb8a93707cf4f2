// All that `gpupeak merge` keeps of one log: a few KiB, and what was held over time. A set of such
// records is merged, or makes a partial result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/merge/held_curve.h"
#include "collector/summary/summary.h"
#include "collector/text/file_name.h"

namespace gpupeak::collector {

struct HeldPart {
  std::string name;
  uint64_t bytes = 0;
};

/// A process's own peak, and who held it.
struct OwnPeak {
  std::string side;  ///< "device": all GPUs of the process together; "host"
  uint64_t bytes = 0;
  int64_t time_ns = 0;  ///< since the process's start
  std::optional<std::string> phase;
  std::vector<HeldPart> tags;   ///< they add up to `bytes`; empty: nothing is tagged
  std::vector<HeldPart> sites;  ///< largest first; with other_bytes they add up to `bytes`
  uint64_t other_bytes = 0;
};

/// The last request that was refused because memory was short.
struct Refusal {
  std::string api;
  std::optional<int32_t> device;
  uint64_t requested_bytes = 0;
  int64_t time_ns = 0;  ///< since the process's start
  std::optional<std::string> phase;
  std::string site;
  std::string why;     ///< a sentence; empty: nothing is known
  uint64_t count = 0;  ///< refused requests of this kind
};

struct ProcessRecord {
  uint64_t id = 0;  ///< the log's random number
  std::string log_path;
  bool confidential = false;
  RunSummary run;  ///< without labels
  Quality quality;
  std::string boot;                 ///< empty: not known
  uint64_t process_start_time = 0;  ///< with the pid it is unique within a boot
  uint64_t start_realtime_ns = 0;
  // These are on the clock that all processes of a boot share.
  uint64_t start_monotonic_ns = 0;
  uint64_t last_ns = 0;  ///< when the last event was
  uint64_t end_ns = 0;   ///< when the process had ended; 0: not known
  bool host_measured = false;
  std::vector<DeviceSummary> devices;       ///< only their identity, no figures
  std::map<std::string, HeldCurve> curves;  ///< "device:N"; "device" if there are several; "host"
  std::vector<OwnPeak> peaks;
  std::optional<Refusal> refusal;

  /// When the machine was started, in real time.
  uint64_t boot_realtime_ns() const { return start_realtime_ns - start_monotonic_ns; }
  const OwnPeak* find_peak(std::string_view side) const {
    for (const OwnPeak& peak : peaks) {
      if (peak.side == side) return &peak;
    }
    return nullptr;
  }
  /// The program's file name; empty: not known. Some servers overwrite their arguments with a
  /// status ("nginx: worker process", "redis-server unixsocket:/run/redis"); its first word counts
  /// then.
  std::string program() const {
    if (run.command.empty()) return "";
    std::string name = run.command.front();
    if (!name.starts_with('/') && !name.starts_with('.')) {
      name = name.substr(0, name.find(' '));
      if (name.ends_with(':')) name.pop_back();
    }
    return std::string(file_name(name));
  }
};

}  // namespace gpupeak::collector
