#include "collector/fit/answer.h"

#include <algorithm>

#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

/// A change of less is not worth a row.
constexpr uint64_t kLeastChange = 1u << 20;

bool is_same(const FitDevice& known, const std::string& host, const DeviceNeed& need) {
  const bool both = !known.need.uuid.empty() && !need.uuid.empty();
  return known.host == host &&
         (both ? known.need.uuid == need.uuid : known.need.device == need.device);
}

std::string arena_advice(const std::string& arena) {
  if (arena == "PyTorch") return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  if (arena.find("Cuda") != std::string::npos || arena.starts_with("ONNX")) {
    return "arena_extend_strategy=kSameAsRequested";
  }
  return "";
}

/// Adds what one process's device has at its peak: first what nobody uses, then who holds the rest.
void add_changes(const Summary& summary, const DeviceSummary& device, FitDevice& out) {
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device != device.ordinal || !arena.at_device_peak) continue;
    out.changes.push_back({"idle in " + arena.name + "'s pool", arena.at_device_peak->idle_bytes(),
                           true, arena_advice(arena.name)});
  }
  if (device.ledger) {
    for (const LedgerRow& row : device.ledger->at_peak.rows) {
      const uint64_t bytes = row.bytes > 0 ? static_cast<uint64_t>(row.bytes) : 0;
      if (row.cause == "pool_slack") {
        out.changes.push_back({"idle in the driver's memory pools", bytes, true,
                               "a lower cudaMemPoolAttrReleaseThreshold"});
      } else if (row.cause == "rounding") {
        out.changes.push_back({"rounding to pages of 2 MiB", bytes, true, ""});
      } else if (row.cause == "local_memory") {
        out.changes.push_back({"local memory of kernels", bytes, false, ""});
      } else if (row.cause == "code") {
        out.changes.push_back({"code", bytes, false, ""});
      }
    }
  }
  const Peak* peak = summary.find_peak(ScopeKey::device(device.ordinal).text());
  if (peak == nullptr) return;
  for (const Holder& holder : peak->holders) {
    if (holder.kind == "device.idle") continue;
    out.changes.push_back({holder.title, holder.bytes, false, holder.temporary ? "temporary" : ""});
  }
  if (peak->tags.empty() || !out.tags.empty()) return;
  out.tags = peak->tags;
}

void sort_changes(std::vector<FitChange>& changes) {
  std::erase_if(changes, [](const FitChange& change) { return change.bytes < kLeastChange; });
  std::stable_sort(changes.begin(), changes.end(),
                   [](const FitChange& a, const FitChange& b) { return a.bytes > b.bytes; });
}

}  // namespace

FitReport answer_fit(const std::vector<LogNeeds>& logs, const FitQuestion& question) {
  FitReport report;
  report.question = question;
  std::vector<std::vector<DeviceNeed>> needs;  // by device of the report
  for (size_t i = 0; i < logs.size(); ++i) {
    const Summary& summary = logs[i].summary;
    report.logs.push_back(summary.log_path);
    for (const DeviceNeed& need : logs[i].devices) {
      auto known =
          std::find_if(report.devices.begin(), report.devices.end(),
                       [&](const FitDevice& of) { return is_same(of, summary.run.host, need); });
      if (known == report.devices.end()) {
        FitDevice& fresh = report.devices.emplace_back();
        fresh.host = summary.run.host;
        fresh.need = need;
        needs.emplace_back();
        known = std::prev(report.devices.end());
      }
      known->logs.push_back(i);
      needs[static_cast<size_t>(known - report.devices.begin())].push_back(need);
      for (const DeviceSummary& device : summary.devices) {
        if (device.ordinal == need.device) add_changes(summary, device, *known);
      }
    }
  }
  const bool asked = question.capacity || question.card != nullptr;
  if (asked) report.fit = report.devices.empty() ? Fit::kUnknown : Fit::kFits;
  for (size_t i = 0; i < report.devices.size(); ++i) {
    FitDevice& device = report.devices[i];
    device.need = together(needs[i]);
    sort_changes(device.changes);
    if (question.capacity) device.answer = fit_on(device.need, *question.capacity);
    if (question.card != nullptr) device.answer = fit_on(device.need, *question.card);
    if (device.answer) report.fit = worse(*report.fit, device.answer->fit);
    for (const Card& card : question.cards) device.cards.push_back(fit_on(device.need, card));
  }
  return report;
}

}  // namespace gpupeak::collector
