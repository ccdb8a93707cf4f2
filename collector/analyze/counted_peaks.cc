#include "collector/analyze/counted_peaks.h"

#include <algorithm>
#include <string>

#include "collector/analyze/counter_metrics.h"
#include "collector/log/coverage.h"

namespace gpupeak::collector {
namespace {

void raise(Metrics& metrics, const std::string& name, std::optional<uint64_t> counted) {
  if (!counted) return;
  std::optional<uint64_t>& value = metrics[name];
  value = std::max(value.value_or(0), *counted);
}

void raise_peak(Summary& summary, const std::string& scope, const std::string& kind,
                uint64_t counted) {
  auto peak = std::find_if(summary.peaks.begin(), summary.peaks.end(),
                           [&](const Peak& known) { return known.scope >= scope; });
  const bool known = peak != summary.peaks.end() && peak->scope == scope;
  if (counted <= (known ? peak->bytes : 0)) return;
  if (!known) {
    peak = summary.peaks.insert(peak, Peak{});
    peak->scope = scope;
  }
  Holder rest;
  rest.title = "not in the log, which could not grow";
  rest.kind = kind;
  rest.bytes = counted - peak->bytes;
  if (!peak->tags.empty()) peak->tags.push_back({"not in the log", rest.bytes, 0});
  const auto smaller = std::find_if(peak->holders.begin(), peak->holders.end(),
                                    [&](const Holder& other) { return other.bytes < rest.bytes; });
  peak->holders.insert(smaller, std::move(rest));
  peak->bytes = counted;
  // These are of the smaller peak that the log has.
  peak->counted = true;
  peak->phase.reset();
  peak->trigger.reset();
}

}  // namespace

void raise_to_counted(const LogHead& head, Summary& summary) {
  const gpupeak_counters_page& page = head.counters;
  for (DeviceSummary& device : summary.devices) {
    for (const std::string& name : counter_metrics()) {
      if (!is_device_metric(name) || !name.ends_with("peak_bytes")) continue;
      const std::optional<uint64_t> counted = counter_metric(head, name, device.ordinal);
      raise(device.metrics, name, counted);
      raise(summary.metrics, name, counted);  // of several devices at least the largest
    }
    raise_peak(summary, "device:" + std::to_string(device.ordinal), "device.not_recorded",
               counter_metric(head, "device.peak_bytes", device.ordinal).value_or(0));
  }
  if (!coverage_of(head.header, page).heap_events) return;
  for (const char* name :
       {"host.peak_bytes", "host.kind.heap.peak_bytes", "host.kind.heap.usable_peak_bytes"})
    raise(summary.metrics, name, page.heap.peak);
  for (const char* scope : {"host", "host/heap"})
    raise_peak(summary, scope, "host.not_recorded", page.heap.peak);
}

}  // namespace gpupeak::collector
