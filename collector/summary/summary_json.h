// Which fields of a Summary JSON has, described once for its writer
// (collector/write/json_values.cc) and its reader (collector/analyze/load_summary.cc).
// docs/summary.schema.json says what each key means.
//
// A class without a json_fields() has all its fields in JSON, by their names (GPUPEAK_FIELDS).
// `io` is the writer or the reader:
//
//   io("bytes, count", bytes, count)   keys and fields; an optional without a value is null
//   io.if_any("api", api)              no key if it is empty, zero, false or none
//   io.or_null("module", module)       null if it is empty, or if the last argument is true
//   io.in("tool", fields)              an object of its own
//   io.written("tags", tags)           not read, since nothing that compares summaries needs it
//   io.written_if_any("calls", calls)  the same, and no key if it is empty
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collector/summary/run_text.h"
#include "collector/summary/summary.h"
#include "collector/summary/what_if.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

// The fields of those parts that are in JSON as they are, in the order of their declaration.
//
//   each_field(io, tag_share)   io("name, bytes, count", name, bytes, count)

/// T is Of, const or not: a writer reads the fields of a value, a reader sets them, and one list
/// serves both.
template <typename T, typename Of>
concept Any = std::same_as<std::remove_const_t<T>, Of>;

/// Gives the names in "name, bytes, count" one by one.
class FieldNames {
 public:
  explicit constexpr FieldNames(std::string_view names) : rest_(names) {}
  constexpr std::string_view next() {
    const std::string_view name = rest_.substr(0, rest_.find(','));
    rest_.remove_prefix(name.size() == rest_.size() ? name.size() : name.size() + 2);
    return name;
  }

 private:
  std::string_view rest_;
};

/// Of WholeRun::Process.
struct HeldMost {
  std::string site;
  uint64_t bytes = 0;
};

// A structured binding names all fields of a class: a field that is added later must be added here,
// or nothing compiles.
#define GPUPEAK_FIELDS(Class, ...)                    \
  void each_field(auto& io, Any<Class> auto& value) { \
    auto& [__VA_ARGS__] = value;                      \
    io(#__VA_ARGS__, __VA_ARGS__);                    \
  }

GPUPEAK_FIELDS(BufferRole::Kernel, name, library, access, arguments, launches)
GPUPEAK_FIELDS(BufferRole, copied_in, copied_out, copied_to, copied_from, filled, textures,
               addresses_copied, kernels, passed_on, unused_bytes, launches_sampled, first_use_ns,
               last_use_ns, allocated_ns, freed_ns, alike)
GPUPEAK_FIELDS(BlocksAlike, bytes, count, role)
GPUPEAK_FIELDS(TagShare, name, bytes, count)
GPUPEAK_FIELDS(PhaseInstanceSide, start_bytes, peak_bytes, end_bytes, kept_bytes, alloc_count)
GPUPEAK_FIELDS(PhaseInstances, first, last, count, begin_ns, end_ns, open_ns, alike, device, host)
GPUPEAK_FIELDS(PhaseCallsSide, grown_bytes, least_growth_bytes, most_growth_bytes, largest,
               largest_rise_bytes, largest_peak_bytes)
GPUPEAK_FIELDS(PhaseCalls, ended, device, host)
GPUPEAK_FIELDS(ArenaSummary::Level, in_use_bytes, reserved_bytes)
GPUPEAK_FIELDS(ArenaSummary::Part, title, bytes, count)
GPUPEAK_FIELDS(ArenaSummary::Growth, title, time_ns, bytes, asked_bytes, in_use_bytes,
               reserved_bytes)
GPUPEAK_FIELDS(ArenaSummary::Largest, time_ns, in_use_bytes, parts, other_bytes)
GPUPEAK_FIELDS(ArenaSummary::Cause, title, bytes, segments, largest_bytes, largest_asked_bytes,
               in_use_bytes, time_ns)
GPUPEAK_FIELDS(ArenaSummary::Older, in_use_bytes)
GPUPEAK_FIELDS(DriverPoolsSummary, device, reserved_peak_bytes, time_ns, in_use_bytes,
               reserved_bytes, growths, causes, other_cause_bytes)
GPUPEAK_FIELDS(RulesSummary, sets, automatic)
GPUPEAK_FIELDS(LedgerRow, cause, bytes)
GPUPEAK_FIELDS(LedgerProcess, pid, name, bytes, of_run)
GPUPEAK_FIELDS(OutOfMemory::Cause, cause, bytes)
GPUPEAK_FIELDS(LedgerItem, cause, name, bytes, count)
GPUPEAK_FIELDS(DeviceLedgerSummary, source, at_peak, at_exit, overlaps, uncertain_readings, items,
               readings)
GPUPEAK_FIELDS(DeviceMemory, integrated, pageable_access, host_page_tables, concurrent_managed)
GPUPEAK_FIELDS(RunSummary, command, host, pid, ppid, rank, start_time, duration_ns, exit, labels)
GPUPEAK_FIELDS(Lowering, scope, before_bytes, untried_requests, rows)
GPUPEAK_FIELDS(WhatIfSum::Holder, title, bytes, count)
GPUPEAK_FIELDS(WholeRun::NotRecorded::Held, name, uuid, nvml_bytes)
GPUPEAK_FIELDS(WholeRun::Small, count, program, rss_bytes)
GPUPEAK_FIELDS(HeldMost, site, bytes)
GPUPEAK_FIELDS(ResidentCause, cause, bytes)
GPUPEAK_FIELDS(Holder::Resident, least_bytes, most_bytes)

void json_fields(auto& io, Any<Warning> auto& warning) {
  io("code, message", warning.code, warning.message);
}

void json_fields(auto& io, Any<Holder> auto& holder) {
  io("kind, bytes, count, site", holder.kind, holder.bytes, holder.count, holder.title);
  io.if_any("parts", holder.parts);
  io.if_any("api", holder.api);
  io.or_null("module", holder.module);
  io("phase, thread, temporary", holder.phase, holder.thread_id, holder.temporary);
  io.if_any("error_bytes", holder.error_bytes);
  io.if_any("role", holder.role);
  io.if_any("resident", holder.resident);
  io.written_if_any("stack", holder.stack);
}

void json_fields(auto& io, Any<Peak> auto& peak) {
  io("scope, bytes", peak.scope, peak.bytes);
  io.or_null("time_ns", peak.time_ns, peak.counted);
  io("phase", peak.phase);
  io.written_if_any("trigger", peak.trigger);
  io("holders, other_bytes, other_sites", peak.holders, peak.other_bytes, peak.other_sites);
  io.if_any("error_bytes", peak.error_bytes);
  io.written("tags", peak.tags);
}

void json_fields(auto& io, Any<PhaseSummary> auto& phase) {
  io("name, source", phase.name, phase.source);
  io.written_if_any("library", phase.of_library);
  io("parent", phase.parent);
  io.written("depth", phase.depth);
  io.written_if_any("session", phase.session);
  io("count", phase.count);
  io.written_if_any("names", phase.name_count > 1 ? phase.name_count : 0);
  io("begin_ns, end_ns", phase.begin_ns, phase.end_ns);
  io.written("open_ns, instances", phase.open_ns, phase.instances);
  io.written_if_any("calls", phase.calls);
  io("metrics, biggest_new_device_site, biggest_new_host_site", phase.metrics,
     phase.biggest_new_device_site, phase.biggest_new_host_site);
}

void json_fields(auto& io, const LedgerView& view) {
  io("time_ns, used_bytes, of_process, card_used_bytes, tracked_bytes, rows, others_bytes, others",
     view.time_ns, view.used_bytes, view.of_process, view.card_used_bytes, view.tracked_bytes,
     view.rows, view.others_bytes, view.others);
  io.if_any("by_failed_call", view.by_failed_call);
  io.if_any("read_ns", view.read_ns);
}

void json_fields(auto& io, const CardLimit& limit) {
  io("bytes, real_bytes", limit.bytes, limit.real_bytes);
  io.or_null("card", limit.card);
}

void json_fields(auto& io, Any<DeviceSummary> auto& device) {
  io("ordinal, uuid, name, total_bytes", device.ordinal, device.uuid, device.name,
     device.total_bytes);
  io.written("memory, limit", device.memory, device.limit);
  io("metrics", device.metrics);
  io.written("ledger", device.ledger);
}

void json_fields(auto& io, Any<Quality> auto& quality) {
  io("exact, events_lost, log_complete", quality.exact, quality.events_lost, quality.log_complete);
  io.written("log_end", quality.log_end);
  io.if_any("heap_sample_bytes", quality.heap_sample_bytes);
  io("events, device_events, host_events, dropped_events", quality.events, quality.device_events,
     quality.host_events, quality.dropped_events);
  io.written("truncated_stacks, unmatched_frees, unknown_heap_frees, repairs, hooks_missing",
             quality.truncated_stacks, quality.unmatched_frees, quality.unknown_heap_frees,
             quality.repairs, quality.hooks_missing);
  io("warnings", quality.warnings);
}

void json_fields(auto& io, const MarkSummary& mark) {
  io("name, source", mark.name, mark.source);
  io.if_any("domain", mark.domain);
  io.if_any("category", mark.category);
  io("time_ns, thread_id, device_bytes, host_bytes", mark.time_ns, mark.thread_id,
     mark.device_bytes, mark.host_bytes);
}

void json_fields(auto& io, const ArenaSummary::Level& level) {
  each_field(io, level);
  io("idle_bytes", level.idle_bytes());
}

void json_fields(auto& io, const ArenaSummary& arena) {
  io("name", arena.name);
  if (arena.device || arena.on_host) io("device", arena.device);
  const bool is_whole = !arena.older;
  const auto of_whole = [is_whole](uint64_t bytes) {
    return is_whole ? std::optional(bytes) : std::nullopt;
  };
  io.in("at_peak", [&](auto& in) {
    in("in_use_bytes, reserved_bytes, idle_bytes, largest_idle_bytes", arena.at_peak.in_use_bytes,
       of_whole(arena.at_peak.reserved_bytes), of_whole(arena.at_peak.idle_bytes()),
       of_whole(arena.largest_idle_bytes));
  });
  if (arena.at_device_peak) {
    io.in("at_device_peak", [&](auto& in) {
      json_fields(in, *arena.at_device_peak);
      in("never_used_bytes, idle_in_holes_bytes, idle_for_graphs_bytes", arena.never_used_bytes,
         arena.idle_in_holes_bytes, arena.idle_for_graphs_bytes);
    });
  }
  io("reserved_peak_bytes, reserved_bytes, failed_count, checks, contradictions, count",
     of_whole(arena.reserved_peak_bytes), of_whole(arena.reserved_bytes), arena.failed_count,
     arena.checks, arena.contradictions, arena.count);
  io("capacity_bytes, live_bytes, peak_bytes, peak_time_ns, alloc_count, parts, other_bytes",
     arena.capacity_bytes, arena.live_bytes, arena.peak_bytes, arena.peak_time_ns,
     arena.alloc_count, arena.parts, arena.other_bytes);
  if (arena.older)
    io.in("from_before", [&](auto& in) { in("in_use_bytes", arena.older->in_use_bytes); });
  if (!is_whole) return;
  io.in("at_largest", [&](auto& in) {
    in("time_ns, in_use_bytes, reserved_bytes, parts, other_bytes", arena.largest.time_ns,
       arena.largest.in_use_bytes, arena.reserved_peak_bytes, arena.largest.parts,
       arena.largest.other_bytes);
  });
  io("growths, causes, other_cause_bytes", arena.growths, arena.causes, arena.other_cause_bytes);
}

void json_fields(auto& io, const ArenaSnapshot& arena) {
  io("name, in_use_bytes, reserved_bytes, idle_bytes", arena.name, arena.in_use_bytes,
     arena.reserved_bytes, arena.idle_bytes());
  io("largest_idle_bytes, idle_pieces, graph_idle_bytes, grows_in_place", arena.largest_idle_bytes,
     arena.idle_pieces, arena.graph_idle_bytes, arena.grows_in_place);
}

void json_fields(auto& io, const GrowthSummary& growth) {
  io("phase, source, side", growth.phase, growth.source, growth.side);
  io.if_any("device", growth.device);
  io("site, first, last, steps, grown_bytes, bytes_each, same_each_time, begin_ns, end_ns, text",
     growth.title, growth.first, growth.last, growth.steps(), growth.grown_bytes,
     growth.bytes_each(), growth.same_each_time, growth.begin_ns, growth.end_ns,
     growth_text(growth, {}));
  io.if_any("blocks_each", growth.blocks_each);
  io.if_any("error_bytes", growth.error_bytes);
}

void json_fields(auto& io, const OutOfMemory& oom) {
  io("time_ns, api", oom.time_ns, oom.api);
  io.if_any("device", oom.device);
  io("requested_bytes, result, live_bytes, driver_free_bytes, driver_total_bytes",
     oom.requested_bytes, oom.result, oom.live_bytes, oom.driver_free_bytes,
     oom.driver_total_bytes);
  io("pool_slack_bytes, page_slack_bytes, unmapped_address_bytes", oom.pool_slack_bytes,
     oom.page_slack_bytes, oom.unmapped_address_bytes);
  if (!oom.host_limit.empty()) {
    io.in("host_limit", [&](auto& in) {
      in("name, bytes, used_bytes, gpupeak_bytes", oom.host_limit, oom.host_limit_bytes,
         oom.host_limit_used_bytes, oom.host_limit_own_bytes);
    });
  }
  io("largest_fit_bytes, phase, site, holders, ledger", oom.largest_fit_bytes, oom.phase, oom.title,
     oom.holders, oom.ledger);
  const auto first = oom.causes.empty() ? std::nullopt : std::optional(oom.causes.front().cause);
  io("cause, causes", first, oom.causes);
  io.if_any("together", oom.parts);
  io("why, help", why_text(oom, {}), help_text(oom, {}));
  io.if_any("told_by_pool", oom.told_by_arena);
  io.if_any("refused_by_run_limit", oom.refused_by_run_limit);
  if (oom.refused_by) {
    io.in("refused_by", [&](auto& in) {
      json_fields(in, *oom.refused_by);
      in("limit_bytes, driver_refusals", oom.limit_bytes, oom.driver_refusals);
    });
  }
  io("pools", oom.arenas);
}

/// A row of a Lowering, and the Lowering that it belongs to.
struct LoweringRow {
  const Lowering& of;
  const Lowering::Row& row;
};
void json_fields(auto& io, const LoweringRow& value) {
  const Lowering::Row& row = value.row;
  const bool exact = row.most_bytes == row.least_bytes;
  io("setting, text, scope, before_bytes, exact", setting_name(row.setting),
     setting_text(row.setting, row.about), value.of.scope, value.of.before_bytes, exact);
  io("peak_bytes, least_bytes, most_bytes, time_ns",
     exact ? std::optional(row.least_bytes) : std::nullopt, row.least_bytes, row.most_bytes,
     row.time_ns);
  io.if_any("about", row.about);
}
/// nullopt: nothing was tried.
inline std::optional<std::vector<LoweringRow>> rows_of(const std::optional<Lowering>& lowering) {
  if (!lowering || lowering->untried_requests > 0) return std::nullopt;
  return list_of(lowering->rows, [&](const auto& row) { return LoweringRow{*lowering, row}; });
}

void json_fields(auto& io, Any<WholeRun::Sum> auto& sum) {
  io.if_any("node", sum.node);
  io("name", sum.name);
  io.if_any("uuid", sum.uuid);
  io.if_any("ordinal", sum.ordinal);
  io.if_any("total_bytes", sum.total_bytes);
  io("peak_bytes, error_bytes, peak_time_ns, sum_of_peaks_bytes", sum.peak_bytes, sum.error_bytes,
     sum.peak_time_ns, sum.sum_of_peaks_bytes);
}

void json_fields(auto& io, Any<WholeRun::OfDevice> auto& held) {
  io("device, peak_bytes, at_peak_bytes", held.device, held.peak_bytes, held.at_peak_bytes);
}

inline std::optional<HeldMost> held_most(const WholeRun::Process& process) {
  return process.holder.empty() ? std::nullopt
                                : std::optional(HeldMost{process.holder, process.holder_bytes});
}

/// None where nobody looked into the process's log.
inline std::optional<std::vector<GrowthSummary>> growth_of(const WholeRun::Process& process) {
  return process.holder.empty() ? std::nullopt : std::optional(process.growth);
}

void json_fields(auto& io, Any<WholeRun::Process> auto& process) {
  io("log, pid, rank", process.log, process.pid, process.rank);
  io.or_null("program", process.program);
  io("started", process.started);
  io.written("exit, begin_ns", process.end, process.begin_ns);
  io("devices, device_peak_bytes, host_peak_bytes, heap_peak_bytes", process.devices,
     process.device_peak_bytes, process.host_peak_bytes, process.heap_peak_bytes);
  io("forked, rss_peak_bytes", process.forked, process.rss_peak_bytes);
  io.written("holder, growth", held_most(process), growth_of(process));
  io("exact, events_lost, log_complete", process.exact, process.events_lost, process.complete);
}

void json_fields(auto& io, Any<WholeRun::NotRecorded> auto& process) {
  io("pid", process.pid);
  io.or_null("program", process.program);
  io.or_null("why", process.why);
  io("used_gpu, went_on, rss_bytes, devices", process.used_gpu, process.went_on, process.rss_bytes,
     process.held);
}

void json_fields(auto& io, Any<WholeRun::StillRunning> auto& process) {
  io("pid", process.pid);
  io.or_null("program", process.program);
  io.or_null("log", process.log);
  io.or_null("why", process.why);
  io("rss_bytes", process.rss_bytes);
}

void json_fields(auto& io, const WholeRun::MemoryKill& kill) {
  io("limit_bytes", kill.limit_bytes);
  io.or_null("cgroup", kill.cgroup);
  io("kills, started_process, likely", kill.kills, kill.started_process, kill.likely);
}

/// `summary`: the one that `run` is a part of.
void whole_run_fields(auto& io, Any<WholeRun> auto& run, const Summary& summary) {
  io("log", run.log);
  io.written("complete, missing", is_complete(summary), missing_from(run, {}));
  io("recorded_by_run, descendants_watched, lost_logs, lead, processes, devices", run.is_recorded,
     run.watched, run.lost_logs, run.lead, run.processes, run.devices);
  io("all_devices, host, not_recorded, unseen_rss_bytes, still_running", run.all_devices, run.host,
     run.not_recorded, run.unseen_rss_bytes, run.still_running);
  io("small", run.small);
  io.written("memory_kill", run.memory_kill);
  io("metrics", run.metrics);
}

/// The errors of the metrics that are estimates, bytes.
inline std::map<std::string, uint64_t> metric_errors(const Summary& summary) {
  std::map<std::string, uint64_t> errors;
  for (const auto& [name, value] : summary.metrics) {
    if (const auto error = error_of(summary, name)) errors[name] = *error;
  }
  return errors;
}

void json_fields(auto& io, Any<Summary> auto& summary) {
  io.in("tool",
        [&](auto& in) { in("version, log_format", summary.tool_version, summary.log_format); });
  io.if_any("confidential", summary.confidential);
  io("run, quality, devices, metrics", summary.run, summary.quality, summary.devices,
     summary.metrics);
  io.written("resident", resident_causes(summary.metrics));
  io.written_if_any("metric_errors", metric_errors(summary));
  io("grouped_by, peaks, phases", summary.grouped_by, summary.peaks, summary.phases);
  io.written("growth, arenas, driver_pools, marks, mark_count, rules, oom", summary.growth,
             summary.arenas, summary.driver_pools, summary.marks, summary.mark_count, summary.rules,
             summary.oom);
  io("oom_count", summary.oom_count);
  io.written("lowering", rows_of(summary.lowering));
  io("live_at_exit", summary.live_at_exit);
  io.written("temporary", summary.temporaries);
  io.if_any("whole_run", summary.whole_run,
            [&](auto& in, auto& run) { whole_run_fields(in, run, summary); });
}

}  // namespace gpupeak::collector
