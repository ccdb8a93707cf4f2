#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_head.h"
#include "collector/text/scope_key.h"
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

namespace {

/// Sets a metric to a counter. A counter of 0 says nothing.
void set(Metrics& metrics, const std::string& name, std::optional<uint64_t> counted) {
  if (counted.value_or(0) > 0) metrics[name] = counted;
}

void raise(Metrics& metrics, const std::string& name, std::optional<uint64_t> counted) {
  if (counted) metrics[name] = std::max(metrics[name].value_or(0), *counted);
}

/// Sets the peak of `scope`, for which the counters have another figure than the log.
void set_peak(Summary& summary, const std::string& scope, const std::string& kind,
              uint64_t counted) {
  auto peak =
      std::ranges::find_if(summary.peaks, [&](const Peak& known) { return known.scope >= scope; });
  const bool known = peak != summary.peaks.end() && peak->scope == scope;
  if (counted == 0 || (known && counted == peak->bytes)) return;
  if (!known) {
    peak = summary.peaks.insert(peak, Peak{});
    peak->scope = scope;
  }
  Holder rest;
  rest.kind = kind;
  if (counted < peak->bytes) {
    rest.title = "not known: frees are missing from the log";
    peak->holders.clear();
    peak->tags.clear();
    peak->bytes = peak->other_bytes = peak->other_sites = 0;
    peak->error_bytes.reset();
  } else {
    rest.title = "not in the log, which could not grow";
  }
  rest.bytes = counted - peak->bytes;
  if (!peak->tags.empty()) peak->tags.push_back({"not in the log", rest.bytes, 0});
  const auto smaller = std::ranges::find_if(
      peak->holders, [&](const Holder& other) { return other.bytes < rest.bytes; });
  peak->holders.insert(smaller, std::move(rest));
  peak->bytes = counted;
  // The log's phase and trigger are those of another peak.
  peak->counted = true;
  peak->phase.reset();
  peak->trigger.reset();
}

}  // namespace

void set_to_counted(const LogHead& head, Summary& summary) {
  const gpupeak_counters_page& page = head.counters;
  for (DeviceSummary& device : summary.devices) {
    for (const std::string& name : counter_metrics()) {
      if (!is_device_metric(name) || !name.ends_with("peak_bytes")) continue;
      const std::optional<uint64_t> counted = counter_metric(head, name, device.ordinal);
      set(device.metrics, name, counted);
      if (summary.devices.size() == 1)
        set(summary.metrics, name, counted);
      else
        raise(summary.metrics, name, counted);  // at least the largest of the devices
    }
    set_peak(summary, ScopeKey::device(device.ordinal).text(), "device.not_recorded",
             counter_metric(head, "device.peak_bytes", device.ordinal).value_or(0));
  }
  if (!coverage_of(head.header, page).heap_events) return;
  const Peak* heap = summary.find_peak("host/heap");
  const Peak* host = summary.find_peak("host");
  // The host held at least its heap. If the log has too much of the heap, no more is known of the
  // host's sum.
  const bool has_too_much = heap != nullptr && heap->bytes > page.heap.peak;
  const uint64_t least_of_host =
      has_too_much || host == nullptr ? page.heap.peak : std::max(host->bytes, page.heap.peak);
  set(summary.metrics, "host.peak_bytes", least_of_host);
  set_peak(summary, "host", "host.not_recorded", least_of_host);
  for (const char* name : {"host.kind.heap.peak_bytes", "host.kind.heap.usable_peak_bytes"})
    set(summary.metrics, name, page.heap.peak);
  set_peak(summary, "host/heap", "host.not_recorded", page.heap.peak);
}

std::optional<PassedBy> passed_by(const Replay& replay) {
  constexpr int64_t kNoise = 32 << 20;
  // For small blocks from before that share the driver's pages.
  constexpr uint64_t kShareOfFreed = 8;
  const DeviceGrowth& growth = replay.device_growth();
  if (!is_of_attached(replay.log().header()) || !growth.is_known()) return std::nullopt;
  PassedBy sum{.bytes = static_cast<int64_t>(growth.given_back()), .knows_others = true};
  bool any = false;
  for (const auto& [device, ledger] : replay.device().ledgers()) {
    if (!ledger.last()) continue;
    any = true;
    sum.bytes += ledger.last()->unexplained;
    sum.knows_others &= ledger.others_at_start().has_value();
  }
  const auto noise = kNoise + static_cast<int64_t>(growth.given_back() / kShareOfFreed);
  if (!any || std::llabs(sum.bytes) <= noise) return std::nullopt;
  return sum;
}

}  // namespace gpupeak::collector
