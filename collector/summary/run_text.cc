#include "collector/summary/run_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "collector/text/scope_key.h"

namespace gpupeak::collector {

std::string_view access_name(KernelAccess access) {
  constexpr std::string_view kNames[] = {"read", "written", "given"};
  return kNames[static_cast<size_t>(access)];
}

bool Holder::has_no_name() const {
  if (parts.empty() || !parts.front().frame.function.empty()) return false;
  return std::ranges::none_of(parts, [](const SitePart& part) { return part.frame.is_python; });
}

std::optional<uint64_t> error_of(const Summary& summary, std::string_view metric) {
  if (metric == "host.memory.peak_bytes") {
    const auto peak = collector::metric(summary.metrics, "host.memory.peak_bytes");
    const auto seen = collector::metric(summary.metrics, "host.memory.seen_bytes");
    return peak && seen && *peak > *seen ? std::optional(*peak - *seen) : std::nullopt;
  }
  // If the heap was sampled, an exact counter still gives the heap's own peak.
  if (summary.quality.heap_sample_bytes == 0 || metric != "host.peak_bytes") return std::nullopt;
  const Peak* peak = summary.find_peak("host");
  return peak != nullptr ? peak->error_bytes : std::nullopt;
}

std::string signal_name(int signal) {
  constexpr std::string_view kNames[] = {
      "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
      "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
      "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS"};
  if (signal <= 0 || static_cast<size_t>(signal) >= std::size(kNames))
    return fmt::format("signal {}", signal);
  return fmt::format("SIG{}", kNames[signal]);
}

std::string exit_text(const RunEnd& end) {
  switch (end.kind) {
    case ExitKind::kExit:
      return fmt::format("exit {}", end.code);
    case ExitKind::kSignal:
      return "killed by " + signal_name(end.code);
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
  if (quality.only_heap_inexact) return "HEAP FIGURES ARE NOT EXACT";
  if (!quality.exact) return "FIGURES ARE NOT EXACT";
  if (!quality.log_complete)
    return quality.log_end == LogEnd::kRunning  ? "still running: this is as far as it is"
           : quality.log_end == LogEnd::kKilled ? "killed before its end"
                                                : "log without an end";
  return "no record lost";
}

std::string device_text(const DeviceSummary& device) {
  if (device.name.empty()) return fmt::format("GPU {}", device.ordinal);
  constexpr std::string_view kVendor = "NVIDIA ";
  std::string_view name = device.name;
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  return fmt::format("GPU {} ({})", device.ordinal, name);
}

uint64_t heap_peak_bytes(const Metrics& metrics) {
  return metric(metrics, "host.kind.heap.peak_bytes")
      .value_or(metric(metrics, "host.kind.heap.usable_peak_bytes").value_or(0));
}

uint64_t heap_without_sites(const Metrics& metrics) {
  constexpr uint64_t kShare = 20;
  const uint64_t bytes = metric(metrics, "host.before_recording_bytes").value_or(0);
  return bytes > heap_peak_bytes(metrics) / kShare ? bytes : 0;
}

std::string command_text(const RunSummary& run) {
  return fmt::format("{}", fmt::join(run.command, " "));
}

const Peak* largest_device_peak(const Summary& summary) {
  const Peak* largest = nullptr;
  for (const DeviceSummary& device : summary.devices) {
    const Peak* peak = summary.find_peak(ScopeKey::device(device.ordinal).text());
    if (peak != nullptr && (largest == nullptr || peak->bytes > largest->bytes)) largest = peak;
  }
  return largest;
}

bool was_used(const DeviceSummary& device) {
  return std::ranges::any_of(device.metrics,
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

namespace {

std::string growth_of_calls(const PhaseCallsSide& side, const TextStyle& style) {
  if (!side.least_growth || !side.most_growth) return "";
  const auto with_sign = [&style](int64_t bytes) {
    return (bytes > 0 ? "+" : "") + signed_size(bytes, style);
  };
  if (*side.least_growth == *side.most_growth) {
    return *side.least_growth == 0
               ? "the same at each end"
               : fmt::format("{} at each end, {} in all", with_sign(*side.least_growth),
                             with_sign(side.grown_bytes));
  }
  return fmt::format("{} to {} from one end to the next, {} in all", with_sign(*side.least_growth),
                     with_sign(*side.most_growth), with_sign(side.grown_bytes));
}

std::string calls_line(const PhaseSummary& phase, std::string_view side_name,
                       const PhaseCallsSide& side, const TextStyle& style) {
  const std::string growth = growth_of_calls(side, style);
  return fmt::format("{}: {} {} told apart, {}: {}largest [{}], {} above its start", phase.name,
                     grouped(phase.count), phase.count == 1 ? "call" : "calls", side_name,
                     growth.empty() ? "" : growth + "; ", side.largest,
                     size_text(side.largest_rise_bytes, style));
}

constexpr uint64_t kWorthARow = 64;  ///< a 64th of what the heaviest node has

/// The most that one of its own sites held: instances that are folded no longer tell how high each
/// rose.
uint64_t weight(const PhaseSummary& phase) {
  const auto of = [](const std::optional<Holder>& site) { return site ? site->bytes : 0; };
  return std::max(of(phase.biggest_new_device_site), of(phase.biggest_new_host_site));
}

/// The instances that rose furthest, on average: often the first ones, which fill pools.
const PhaseInstances* highest(const PhaseSummary& phase) {
  const auto rise = [](const PhaseInstances& instances) {
    const auto of = [](const PhaseInstanceSide& side) {
      return side.peak_bytes > side.start_bytes ? side.peak_bytes - side.start_bytes : 0;
    };
    return std::max(of(instances.device), instances.host ? of(*instances.host) : 0) /
           std::max<uint64_t>(instances.count, 1);
  };
  const auto found = std::ranges::max_element(phase.instances, {}, rise);
  return found == phase.instances.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> calls_lines(const Summary& summary, const TextStyle& style) {
  std::vector<std::string> lines;
  for (const PhaseSummary& phase : summary.phases) {
    if (!phase.calls) continue;
    if (phase.calls->device.largest_peak_bytes > 0)
      lines.push_back(calls_line(phase, "device", phase.calls->device, style));
    if (phase.calls->host && phase.calls->host->largest_peak_bytes > 0)
      lines.push_back(calls_line(phase, "host", *phase.calls->host, style));
    // A log has stacks of allocations, not calls.
    lines.push_back(
        fmt::format("{0}: calls from one line are one if nothing is recorded between them; each is "
                    "counted with `gpupeak run --phase '{0}=FUNCTION#'` (Python 3.12 on), or "
                    "gpupeak.phase(\"{0}\") in the program",
                    phase.name));
  }
  return lines;
}

PhaseRows phase_rows(const Summary& summary, size_t most_nodes) {
  std::vector<std::pair<uint64_t, const PhaseSummary*>> nodes;
  for (const PhaseSummary& phase : summary.phases) {
    const PhaseInstances* top = phase.source == "node" ? highest(phase) : nullptr;
    if (top != nullptr) nodes.emplace_back(weight(phase), &phase);
  }
  std::ranges::stable_sort(nodes, [](const auto& a, const auto& b) { return a.first > b.first; });
  nodes.resize(std::min(nodes.size(), most_nodes));
  const uint64_t least = nodes.empty() || most_nodes == SIZE_MAX ? 0 : nodes[0].first / kWorthARow;
  std::erase_if(nodes, [&](const auto& node) { return node.first < least; });
  PhaseRows table;
  for (const PhaseSummary& phase : summary.phases) {
    if (phase.source != "node") {
      for (const PhaseInstances& instances : phase.instances)
        table.rows.emplace_back(&phase, &instances);
    } else if (std::ranges::any_of(nodes,
                                   [&](const auto& node) { return node.second == &phase; })) {
      table.rows.emplace_back(&phase, highest(phase));
    } else {
      ++table.nodes_left_out;
    }
  }
  return table;
}

std::string_view kept_note(const PhaseRows& table) {
  for (const auto& [phase, row] : table.rows) {
    for (const PhaseInstanceSide& side : {row->device, row->host.value_or(PhaseInstanceSide{})})
      if (side.kept_bytes.value_or(0) > static_cast<int64_t>(side.peak_bytes))
        return "; kept adds up what each of a row's instances left at its end";
  }
  return "";
}

uint64_t own_when_looked_at(const Metrics& metrics) {
  const auto known = [&](const char* name) {
    return metric(metrics, std::string("host.resident.") + name).value_or(0);
  };
  return known("total_bytes") - known("files_bytes") - known("gpupeak_bytes");
}

/// What more was resident at the peak than at the look that has its causes.
static uint64_t not_looked_at(const Metrics& metrics) {
  const uint64_t most = metric(metrics, "host.memory.peak_bytes").value_or(0);
  return most - std::min(most, own_when_looked_at(metrics));
}

std::vector<ResidentCause> resident_causes(const Metrics& metrics) {
  constexpr std::pair<std::string_view, std::string_view> kLedgerCauses[] = {
      {"heap_bytes", "heap in use"},
      {"kept_by_malloc_bytes", "kept by malloc"},
      {"mappings_bytes", "mappings"},
      {"thread_stacks_bytes", "thread stacks"},
      {"files_bytes", "program code and files"},
      {"static_data_bytes", "static data"},
      {"written_files_bytes", "written pages of files"},
      {"shared_memory_bytes", "shared memory"},
      {"driver_bytes", "the driver's"},
      {"gpupeak_bytes", "gpupeak's own"},
      {"inherited_bytes", "its parent's, from before the fork"},
      {"unexplained_bytes", "unexplained"}};
  std::vector<ResidentCause> causes;
  for (const auto& [name, text] : kLedgerCauses) {
    const auto bytes = metric(metrics, std::string("host.resident.").append(name));
    if (bytes.value_or(0) > 0) causes.push_back({text, *bytes});
  }
  const uint64_t unseen = not_looked_at(metrics);
  if (!causes.empty() && unseen > 0) causes.push_back({"not looked at", unseen});
  std::ranges::stable_sort(causes, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return causes;
}

uint64_t resident_at_most(const Holder& holder, const Metrics& metrics) {
  uint64_t most = holder.bytes;
  if (holder.resident) {
    const uint64_t own = metric(metrics, "host.memory.peak_bytes").value_or(0);
    const uint64_t seen = metric(metrics, "host.memory.by_site_bytes").value_or(0);
    most = std::min(most, holder.resident->most_bytes + own - std::min(own, seen));
  }
  const auto mappings = metric(metrics, "host.resident.mappings_bytes");
  if (holder.kind != "host.mmap_anon" || !mappings) return most;
  const uint64_t shared = metric(metrics, "host.resident.shared_memory_bytes").value_or(0);
  return std::min(most, *mappings + shared + not_looked_at(metrics));
}

std::string resident_mark(const Holder& holder, const Metrics& metrics, const TextStyle& style) {
  constexpr uint64_t kShare = 20;
  const uint64_t resident = resident_at_most(holder, metrics);
  if (holder.bytes - resident < std::max<uint64_t>(holder.bytes / kShare, 1)) return "";
  const std::string text = size_text(resident, style);
  const uint64_t least = holder.resident ? holder.resident->least_bytes : 0;
  const bool is_known = size_text(std::min(least, resident), style) == text;
  return fmt::format("  ({}{} resident)", is_known ? "" : "≤ ", text);
}

std::vector<const Holder*> rows_by_resident(const Peak& peak, const Metrics& metrics) {
  std::vector<const Holder*> rows;
  for (const Holder& holder : peak.holders) rows.push_back(&holder);
  std::ranges::stable_sort(rows, std::greater(),
                           [&](const Holder* row) { return resident_at_most(*row, metrics); });
  return rows;
}

std::string ledger_cause_text(const std::string& cause) {
  if (cause == "start") return "in use before (driver, other processes)";
  if (cause == "start_and_context") return "in use before, and context";
  if (cause == "others_and_context") return "other processes, and context and code";
  if (cause == "several") return "several causes, not read apart";
  if (cause == "host") return "the program's host memory, which is of the same";
  if (cause == "managed") return "managed memory, as far as it is on the device";
  std::string text = cause;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string ledger_sum_text(const LedgerView& view, uint64_t least, const TextStyle& style) {
  std::string text = fmt::format("{}: {} handed out", size_text(view.used_bytes, style),
                                 size_text(view.tracked_bytes, style));
  for (const LedgerRow& row : view.rows) {
    const auto size = static_cast<uint64_t>(std::llabs(row.bytes));
    if (size == 0 || (size < least && row.cause != "unexplained")) continue;
    text += fmt::format(" {} {} {}", row.bytes < 0 ? "-" : "+", size_text(size, style),
                        ledger_cause_text(row.cause));
  }
  return text + others_text(view, style);
}

std::string others_text(const LedgerView& view, const TextStyle& style) {
  if (!view.of_process || view.others_bytes.value_or(0) == 0) return "";
  return fmt::format("; others {}{}; in all {} of the card", size_text(*view.others_bytes, style),
                     others_list(view, style), size_text(view.card_used_bytes, style));
}

std::string others_list(const LedgerView& view, const TextStyle& style) {
  constexpr size_t kMostShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kMostShown, view.others.size()); ++i) {
    const LedgerProcess& other = view.others[i];
    text += fmt::format("{} {}{} {}", i == 0 ? ":" : ",", pid_text(other.pid, other.name),
                        other.of_run ? " of this run" : "", size_text(other.bytes, style));
  }
  return text + (view.others.size() > kMostShown ? ", …" : "");
}

bool is_of_peak(const LedgerView& view, const Peak* peak) {
  return peak != nullptr && view.tracked_bytes >= peak->bytes;
}

std::string carried_on_text(const LedgerView& view) {
  if (!view.read_ns) return "";
  return fmt::format(", by what was read {} before and handed out since",
                     duration(view.time_ns - *view.read_ns));
}

std::string ledger_nearness_text(const LedgerView& view, const Peak* peak, const TextStyle& style) {
  if (view.by_failed_call)
    return fmt::format("when an allocation failed, {}", instant(view.time_ns));
  if (peak == nullptr) return fmt::format("read at {}", instant(view.time_ns));
  if (is_of_peak(view, peak))
    return fmt::format("at the peak, {}{}", instant(view.time_ns), carried_on_text(view));
  const bool before = view.time_ns < peak->time_ns;
  const std::string apart =
      duration(before ? peak->time_ns - view.time_ns : view.time_ns - peak->time_ns);
  return fmt::format("read {} {} the peak, when {} of {} were handed out", apart,
                     before ? "before" : "after", size_text(view.tracked_bytes, style),
                     size_text(peak->bytes, style));
}

std::string ledger_percent(const LedgerView& view, int64_t bytes) {
  return percent(static_cast<uint64_t>(std::llabs(bytes)), view.used_bytes);
}

}  // namespace gpupeak::collector
