// One program as `top` knows it: by the counters page of its log, which is read at each look, and
// by replays of the log, which are less frequent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "tools/shared/log_folder.h"

namespace gpupeak::tools {

inline constexpr double kNsPerSecond = 1e9;

struct CurvePoint {
  double seconds = 0;  ///< since the recording began
  uint64_t bytes = 0;
};
using TopCurve = std::vector<CurvePoint>;

/// What a replay of the log has found.
struct TopFindings {
  collector::Summary summary;
  std::map<int32_t, TopCurve> devices;
  TopCurve heap;
  double at_seconds = 0;   ///< end of the replay, since the recording began
  double cpu_seconds = 0;  ///< processor time of the replay
  uint64_t log_bytes = 0;
  std::string problem;  ///< why there is nothing
};

class TopProgram {
 public:
  /// `now`: seconds since 1970.
  void look(const FolderLog& log, double now);
  void take(std::shared_ptr<const TopFindings> findings) { findings_ = std::move(findings); }

  const FolderLog& log() const { return log_; }
  const TopFindings* findings() const { return findings_.get(); }
  /// Seconds since the recording began; if the program has ended, how long it ran; none: not known.
  std::optional<double> seconds() const;
  std::vector<int32_t> devices() const;
  const gpupeak_device_counters& device(int32_t number) const {
    return log_.head.counters.device[number];
  }
  const collector::DeviceInfo* info(int32_t number) const;
  uint64_t device_live() const;
  uint64_t device_peak() const;
  /// Whether the heap is counted from the program's start.
  bool has_heap() const;
  /// The host's peak as the last replay has it: of a program that was attached to, of what was
  /// recorded since then; nullptr: not known.
  const collector::Peak* host_peak() const;

  /// Memory over time, by the last replay and by the looks since then.
  TopCurve curve(int32_t device) const;
  TopCurve heap_curve() const;
  /// Recorded events a second; none before the second look.
  std::optional<double> events_per_second() const;
  /// Growth of a curve in bytes a second, by a straight line through the last minute; none if too
  /// little was seen, or if the program has ended.
  std::optional<double> growth(const TopCurve& curve) const;
  std::optional<double> growth(int32_t device) const { return growth(curve(device)); }
  /// Seconds until the card is full at that growth; none if it does not grow, or if the card's size
  /// is not known.
  std::optional<double> seconds_to_full(int32_t device) const;
  /// Bytes in use on the device by the driver's last reading, plus what was tracked since; none if
  /// there is no reading.
  std::optional<uint64_t> used(int32_t device) const;

 private:
  FolderLog log_;
  double now_ = 0;
  std::map<int32_t, TopCurve> seen_;
  TopCurve heap_seen_;
  std::vector<CurvePoint> events_;  // `bytes` is a count of events here
  std::shared_ptr<const TopFindings> findings_;
};

}  // namespace gpupeak::tools
