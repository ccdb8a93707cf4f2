// Values that both a process and a run of several processes have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gpupeak::collector {

/// Bytes or counts by name; no value: not measured.
using Metrics = std::map<std::string, std::optional<uint64_t>>;

/// The value of a metric; nullopt if it is not measured or not there.
inline std::optional<uint64_t> metric(const Metrics& metrics, const std::string& name) {
  const auto entry = metrics.find(name);
  return entry == metrics.end() ? std::nullopt : entry->second;
}

enum class ExitKind { kUnknown, kExit, kSignal };

/// How a process ended.
struct RunEnd {
  ExitKind kind = ExitKind::kUnknown;
  int32_t code = 0;  ///< the exit code or the signal
  /// If not, its figures are of a part of its work.
  bool in_order() const { return kind == ExitKind::kExit && code == 0; }
};

}  // namespace gpupeak::collector
