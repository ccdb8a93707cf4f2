#include "collector/summary/run_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpupeak::collector {

std::string exit_text(const RunEnd& end) {
  switch (end.kind) {
    case ExitKind::kExit:
      return fmt::format("exit {}", end.code);
    case ExitKind::kSignal:
      return fmt::format("killed by signal {}", end.code);
    case ExitKind::kUnknown:
      break;
  }
  return "";
}

std::string events_text(const Quality& quality) {
  return fmt::format("{} device + {} host events", grouped(quality.device_events),
                     grouped(quality.host_events));
}

std::string losses_text(const Quality& quality) {
  if (quality.dropped_events > 0)
    return fmt::format("{} EVENTS LOST", grouped(quality.dropped_events));
  if (!quality.exact) return "FIGURES ARE NOT EXACT";
  if (!quality.log_complete) return "log without an end";
  return "nothing lost";
}

std::string device_text(const DeviceSummary& device) {
  if (device.name.empty()) return fmt::format("GPU {}", device.ordinal);
  constexpr std::string_view kVendor = "NVIDIA ";
  std::string_view name = device.name;
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  return fmt::format("GPU {} ({})", device.ordinal, name);
}

bool was_used(const DeviceSummary& device) {
  return std::any_of(device.metrics.begin(), device.metrics.end(),
                     [](const auto& metric) { return metric.second.value_or(0) > 0; });
}

std::string instances_text(const PhaseSummary& phase, const PhaseInstances& instances) {
  std::string text = phase.name;
  if (phase.name_count > 1) return text + fmt::format(" ×{}", grouped(phase.count));
  if (phase.count > 1) {
    text += instances.first == instances.last
                ? fmt::format("[{}]", instances.first)
                : fmt::format("[{}..{}]", instances.first, instances.last);
  }
  if (phase.session > 1) text += fmt::format(" #{}", phase.session);
  return text;
}

}  // namespace gpupeak::collector
