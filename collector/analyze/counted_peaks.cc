#include <algorithm>
#include <string>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_head.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
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
