// The metrics that the library itself counts while the program runs (docs/metrics.md has them all).
// They are at the front of the log, so that a run that goes on can be watched without a replay.
// `gpupeak watch` asks for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/log_head.h"

namespace gpupeak::collector {

/// Their names.
std::vector<std::string> counter_metrics();
bool is_device_metric(std::string_view metric);
/// The GPUs that have had memory.
std::vector<int32_t> counted_devices(const gpupeak_counters_page& counters);
/// The metric's value. `device` is needed only for a device's metric. nullopt: not one of
/// counter_metrics(), or not measured in this run.
std::optional<uint64_t> counter_metric(const LogHead& head, std::string_view metric,
                                       int32_t device);

}  // namespace gpupeak::collector
