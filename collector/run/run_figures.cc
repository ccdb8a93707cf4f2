#include "collector/run/run_figures.h"

#include <algorithm>
#include <utility>

#include "collector/summary/run_text.h"

namespace gpupeak::collector {
namespace {

/// Counts of several processes are added up. If the sum of a figure at one instant is not known,
/// the largest process's figure stands for it: no process was above.
void fold(const Metrics& from, Metrics& into) {
  for (const auto& [name, value] : from) {
    const auto [entry, added] = into.try_emplace(name, value);
    if (added) continue;
    std::optional<uint64_t>& sum = entry->second;
    if (!name.ends_with("_count"))
      sum = std::max(sum, value);
    else if (sum && value)
      *sum += *value;
    else
      sum.reset();
  }
}

void set_sum(const WholeRun::Sum& sum, const std::string& side, Metrics& metrics) {
  metrics[side + ".peak_bytes"] = sum.peak_bytes;
  if (metrics.contains(side + ".sum_of_peaks_bytes"))
    metrics[side + ".sum_of_peaks_bytes"] = sum.sum_of_peaks_bytes;
}

}  // namespace

void add_run_metrics(WholeRun& run) {
  for (const WholeRun::Process& process : run.processes) fold(process.metrics, run.metrics);
  if (!run.has_several()) return;
  if (run.all_devices)
    set_sum(*run.all_devices, "device", run.metrics);
  else if (run.devices.size() == 1)
    set_sum(run.devices.front(), "device", run.metrics);
  if (run.host) set_sum(*run.host, "host", run.metrics);
}

Summary figures_of_run(Summary lead) {
  if (!lead.whole_run || !lead.whole_run->has_several()) return lead;
  const WholeRun& run = *lead.whole_run;
  lead.metrics = run.metrics;
  lead.devices.clear();
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const WholeRun::Sum& sum = run.devices[i];
    DeviceSummary& device = lead.devices.emplace_back();
    device.ordinal = sum.ordinal.value_or(static_cast<int32_t>(i));
    device.uuid = sum.uuid;
    device.name = sum.name;
    device.total_bytes = sum.total_bytes;
    for (const WholeRun::Process& process : run.processes) {
      for (const WholeRun::OfDevice& held : process.devices) {
        if (held.device == i) fold(held.metrics, device.metrics);
      }
    }
    set_sum(sum, "device", device.metrics);
  }
  for (const WholeRun::Process& process : run.processes) {
    lead.quality.exact &= process.exact;
    lead.quality.events_lost |= process.events_lost;
    lead.quality.log_complete &= process.complete;
  }
  return lead;
}

}  // namespace gpupeak::collector
