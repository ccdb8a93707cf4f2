
#include <fmt/format.h>

#include <fstream>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_head.h"
#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {
namespace {

constexpr int32_t kMaxDevices = GPUPEAK_LOG_MAX_DEVICES;
constexpr std::string_view kHeapPeak = "host.kind.heap.usable_peak_bytes";
constexpr std::string_view kPinnedPeak = "host.kind.pinned.peak_bytes";
constexpr std::string_view kResidentPeak = "host.rss.peak_bytes";

/// A device's metric. Kind GPUPEAK_KIND_NONE: all kinds that count into a device's sum.
struct DeviceMetric {
  std::string_view name;
  uint8_t kind;
  bool peak;
};
constexpr DeviceMetric kDeviceMetrics[] = {
    {"device.peak_bytes", GPUPEAK_KIND_NONE, true},
    {"device.live_bytes", GPUPEAK_KIND_NONE, false},
    {"device.kind.linear.peak_bytes", GPUPEAK_KIND_LINEAR, true},
    {"device.kind.pool.peak_bytes", GPUPEAK_KIND_POOL, true},
    {"device.kind.vmm.peak_bytes", GPUPEAK_KIND_VMM, true},
    {"device.kind.array.peak_bytes", GPUPEAK_KIND_ARRAY, true},
    {"device.kind.graph.peak_bytes", GPUPEAK_KIND_GRAPH, true},
    {"device.managed.peak_bytes", GPUPEAK_KIND_MANAGED, true},
    {"device.imported.peak_bytes", GPUPEAK_KIND_IMPORTED, true},
};

/// The kernel's own maximum: at the process's end or, if it still runs, until now.
std::optional<uint64_t> resident_peak(const LogHead& head) {
  if (head.counters.rss_peak_bytes != 0) return head.counters.rss_peak_bytes;
  if (state_of(head) != LogState::kRunning) return std::nullopt;
  std::ifstream status(fmt::format("/proc/{}/status", head.header.pid));
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  uint64_t kib = 0;
  return status >> kib ? std::optional(kib << 10) : std::nullopt;
}

}  // namespace

std::vector<std::string> counter_metrics() {
  std::vector<std::string> names;
  for (const DeviceMetric& metric : kDeviceMetrics) names.emplace_back(metric.name);
  for (const std::string_view name : {kHeapPeak, kPinnedPeak, kResidentPeak})
    names.emplace_back(name);
  return names;
}

bool is_device_metric(std::string_view metric) {
  return metric.starts_with("device.");
}

std::vector<int32_t> counted_devices(const gpupeak_counters_page& counters) {
  std::vector<int32_t> devices;
  for (int32_t device = 0; device < kMaxDevices; ++device) {
    if (counters.device[device].alloc_count > 0) devices.push_back(device);
  }
  return devices;
}

std::optional<uint64_t> counter_metric(const LogHead& head, std::string_view metric,
                                       int32_t device) {
  const gpupeak_counters_page& page = head.counters;
  if (metric == kHeapPeak) {
    const bool counted = coverage_of(head.header, page).heap_counters;
    return counted ? std::optional(page.heap.peak) : std::nullopt;
  }
  if (metric == kPinnedPeak) return page.pinned.peak;
  if (metric == kResidentPeak) return resident_peak(head);
  if (device < 0 || device >= kMaxDevices) return std::nullopt;
  for (const DeviceMetric& known : kDeviceMetrics) {
    if (known.name != metric) continue;
    const gpupeak_gauge& gauge =
        known.kind == GPUPEAK_KIND_NONE
            ? page.device[device].total
            : device_gauge(page, static_cast<uint32_t>(device), known.kind);
    return known.peak ? gauge.peak : gauge.live;
  }
  return std::nullopt;
}

}  // namespace gpupeak::collector
