// All that `gpupeak merge` keeps of one log: a few KiB, and what was held over time. A set of such
// records is merged, or makes a partial result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

// What one process held over time, in bounded memory: steps of a few bytes each. If there are too
// many, neighbours that differ little become one step, as high as the higher of them. So the curve
// is never below the truth, and error_bytes() tells how far above it may be.

/// Steps by time. Each is stored as the difference from the one before.
class StepList {
 public:
  void add(uint64_t ns, uint64_t bytes);
  size_t coded_bytes() const { return data_.size(); }
  uint64_t last_ns() const { return last_ns_; }

  class Reader {
   public:
    explicit Reader(const StepList& steps)
        : at_(steps.data_.data()), end_(at_ + steps.data_.size()) {}
    bool next();
    uint64_t ns() const { return ns_; }
    uint64_t bytes() const { return bytes_; }
    bool grows() const { return grows_; }

   private:
    const uint8_t* at_;
    const uint8_t* end_;
    uint64_t ns_ = 0, bytes_ = 0;
    bool grows_ = false;
  };

 private:
  void put(uint64_t value);

  std::vector<uint8_t> data_;
  uint64_t last_ns_ = 0, last_bytes_ = 0;
};

class HeldCurve {
 public:
  /// Bytes that the curves of one process may take together.
  static constexpr size_t kRoomBytes = 128 << 10;

  HeldCurve() = default;
  /// Makes a curve again from its steps(), peak_bytes() and error_bytes().
  HeldCurve(StepList steps, uint64_t peak_bytes, uint64_t error_bytes)
      : steps_(std::move(steps)), peak_bytes_(peak_bytes), error_bytes_(error_bytes) {}

  /// A time that runs backwards, as in a damaged log, counts as the last one.
  void add(uint64_t ns, uint64_t bytes);
  /// Call it after the last add(). Joins steps until they fit into so many bytes.
  void finish(size_t room_bytes) { coarsen(room_bytes); }
  /// Call it after finish(). Nothing is held from this time on.
  void end_at(uint64_t ns) { steps_.add(std::max(ns, steps_.last_ns()), 0); }
  /// Tells that the value was at least this between the last step and the next one.
  void raise_peak(uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }

  /// Call these after finish().
  const StepList& steps() const { return steps_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t error_bytes() const { return error_bytes_; }

 private:
  void gather(uint64_t ns, uint64_t bytes);
  void flush();
  void coarsen(size_t room_bytes);

  struct Bucket {
    uint64_t ns, least, most;
  };
  StepList steps_;
  std::optional<Bucket> bucket_;  ///< changes that are not in steps_ yet
  uint64_t last_ns_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t tolerance_ = 0;  ///< by how much the values of one step may differ
  uint64_t error_bytes_ = 0;
};

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
