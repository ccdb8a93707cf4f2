// The fields of a Summary and of all its parts, in the order of their declaration. Everything that
// packs, writes or reads them asks here. `io` packs, writes or reads; it gets the names, then the
// fields.
//
//   each_field(io, tag_share)   io("name, bytes, count", name, bytes, count)
//
// JSON has these names, unless summary_json.h says otherwise.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

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

// A structured binding names all fields of a class: a field that is added later must be added here,
// or nothing compiles.
#define GPUPEAK_FIELDS(Class, ...)                    \
  void each_field(auto& io, Any<Class> auto& value) { \
    auto& [__VA_ARGS__] = value;                      \
    io(#__VA_ARGS__, __VA_ARGS__);                    \
  }

GPUPEAK_FIELDS(Warning, code, message, about)
GPUPEAK_FIELDS(Frame, address, module, offset, function, file, line, call, one_block, is_python,
               name_source)
GPUPEAK_FIELDS(SitePart, frame, run, of_library)
GPUPEAK_FIELDS(BufferRole::Kernel, name, library, access, arguments, launches)
GPUPEAK_FIELDS(BufferRole, copied_in, copied_out, copied_to, copied_from, filled, textures, kernels,
               passed_on, unused_bytes, launches_sampled, first_use_ns, last_use_ns, allocated_ns,
               freed_ns)
GPUPEAK_FIELDS(Holder, title, kind, bytes, count, api, module, phase, thread_id, stack, temporary,
               longest_life_ns, error_bytes, parts, telling_part, role)
GPUPEAK_FIELDS(TagShare, name, bytes, count)
GPUPEAK_FIELDS(Peak, scope, bytes, time_ns, phase, trigger, holders, other_bytes, other_sites,
               error_bytes, counted, tags)
GPUPEAK_FIELDS(PhaseInstanceSide, start_bytes, peak_bytes, end_bytes, kept_bytes, alloc_count)
GPUPEAK_FIELDS(PhaseInstances, first, last, count, begin_ns, end_ns, open_ns, alike, device, host)
GPUPEAK_FIELDS(PhaseCallsSide, grown_bytes, least_growth_bytes, most_growth_bytes, largest,
               largest_rise_bytes, largest_peak_bytes)
GPUPEAK_FIELDS(PhaseCalls, ended, device, host)
GPUPEAK_FIELDS(PhaseSummary, name, source, of_library, parent, depth, session, count, name_count,
               begin_ns, end_ns, open_ns, metrics, instances, calls, device_site, host_site)
GPUPEAK_FIELDS(MarkSummary, name, source, domain, category, time_ns, thread_id, device_bytes,
               host_bytes)
GPUPEAK_FIELDS(ArenaSummary::Level, in_use_bytes, reserved_bytes)
GPUPEAK_FIELDS(ArenaSummary::Part, title, bytes, count)
GPUPEAK_FIELDS(ArenaSummary::Growth, title, time_ns, bytes, asked_bytes, in_use_bytes,
               reserved_bytes)
GPUPEAK_FIELDS(ArenaSummary::Largest, time_ns, in_use_bytes, parts, other_bytes)
GPUPEAK_FIELDS(ArenaSummary::Cause, title, bytes, segments, largest_bytes, largest_asked_bytes,
               in_use_bytes, time_ns)
GPUPEAK_FIELDS(ArenaSummary::Older, in_use_bytes)
GPUPEAK_FIELDS(ArenaSummary, name, device, on_host, at_peak, largest_idle_bytes, at_device_peak,
               reserved_peak_bytes, reserved_bytes, failed_count, checks, contradictions, count,
               capacity_bytes, older, live_bytes, peak_bytes, peak_time_ns, alloc_count, parts,
               other_bytes, never_used_bytes, largest, growths, causes, other_cause_bytes,
               idle_in_holes_bytes, idle_for_graphs_bytes)
GPUPEAK_FIELDS(DriverPoolsSummary, device, reserved_peak_bytes, time_ns, in_use_bytes,
               reserved_bytes, growths, causes, other_cause_bytes)
GPUPEAK_FIELDS(RulesSummary, sets, automatic)
GPUPEAK_FIELDS(LedgerRow, cause, bytes)
GPUPEAK_FIELDS(LedgerProcess, pid, name, bytes, of_run)
GPUPEAK_FIELDS(LedgerView, time_ns, used_bytes, of_process, card_used_bytes, tracked_bytes, rows,
               by_failed_call, others_bytes, others)
GPUPEAK_FIELDS(ArenaSnapshot, name, in_use_bytes, reserved_bytes, largest_idle_bytes, idle_pieces,
               graph_idle_bytes, largest_graph_idle_bytes, grows_in_place)
GPUPEAK_FIELDS(GrowthSummary, phase, source, side, device, title, first, last, grown_bytes,
               same_each_time, begin_ns, end_ns, to_the_last, blocks_each)
GPUPEAK_FIELDS(OutOfMemory::Cause, cause, bytes)
GPUPEAK_FIELDS(OutOfMemory, time_ns, api, device, requested_bytes, result, live_bytes,
               driver_free_bytes, driver_total_bytes, pool_slack_bytes, page_slack_bytes,
               unmapped_address_bytes, largest_fit_bytes, phase, title, holders, ledger, refused_by,
               limit_bytes, driver_refusals, driver_asked_bytes, told_by_arena,
               refused_by_run_limit, on_host, host_limit, host_limit_bytes, host_limit_used_bytes,
               host_limit_own_bytes, only_addresses, for_driver, figures_are_whole, of_driver_pool,
               arenas, growth, causes, parts)
GPUPEAK_FIELDS(LedgerItem, cause, name, bytes, count)
GPUPEAK_FIELDS(DeviceLedgerSummary, source, at_peak, at_exit, overlaps, uncertain_readings, items,
               readings)
GPUPEAK_FIELDS(DeviceMemory, integrated, pageable_access, host_page_tables, concurrent_managed)
GPUPEAK_FIELDS(CardLimit, bytes, real_bytes, card)
GPUPEAK_FIELDS(DeviceSummary, ordinal, uuid, name, total_bytes, metrics, ledger, memory, limit)
GPUPEAK_FIELDS(RunEnd, kind, code)
GPUPEAK_FIELDS(RunSummary, command, host, pid, ppid, rank, start_time, duration_ns, exit, labels)
GPUPEAK_FIELDS(Quality, exact, only_heap_inexact, events_lost, log_complete, log_end, events,
               device_events, host_events, dropped_events, truncated_stacks, unmatched_frees,
               unknown_heap_frees, repairs, hooks_missing, warnings, slow_clock, heap_not_read,
               heap_sample_bytes)
GPUPEAK_FIELDS(Lowering::Row, setting, least_bytes, most_bytes, time_ns, about)
GPUPEAK_FIELDS(Lowering, scope, before_bytes, untried_requests, rows)
GPUPEAK_FIELDS(WholeRun::NotRecorded::Held, name, uuid, nvml_bytes)

#undef GPUPEAK_FIELDS

void each_field(auto& io, Any<Summary> auto& value) {
  auto& [log_path, confidential, names_were_looked_for, has_uses, log_bytes, tool_version,
         log_format, run, devices, metrics, grouped_by, peaks, phases, growth, arenas, marks,
         mark_count, rules, oom, oom_count, live_at_exit, temporaries, quality, lowering, whole_run,
         driver_pools] = value;
  static_cast<void>(whole_run);  // it is of other logs as well, and is made anew
  io("", log_path, confidential, names_were_looked_for, has_uses, log_bytes, tool_version,
     log_format, run, devices, metrics, grouped_by, peaks, phases, growth, arenas, marks,
     mark_count, rules, oom, oom_count, live_at_exit, temporaries, quality, lowering, driver_pools);
}

}  // namespace gpupeak::collector
