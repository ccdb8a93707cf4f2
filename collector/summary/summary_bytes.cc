#include "collector/summary/summary_bytes.h"

#include <concepts>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "collector/text/byte_pack.h"

namespace gpupeak::collector {
namespace {

/// To write a value its fields are read, to read one they are written: one list of them for both. A
/// structured binding names all fields of a class, so that one that is added later must be added
/// here, or nothing compiles.
template <typename T, typename Of>
concept Any = std::same_as<std::remove_const_t<T>, Of>;

void each_field(auto& io, Any<Warning> auto& value) {
  auto& [code, message, about] = value;
  io(code, message, about);
}

void each_field(auto& io, Any<Frame> auto& value) {
  auto& [address, module, offset, function, file, line, is_python, name_source] = value;
  io(address, module, offset, function, file, line, is_python, name_source);
}

void each_field(auto& io, Any<SitePart> auto& value) {
  auto& [frame, run, of_library] = value;
  io(frame, run, of_library);
}

void each_field(auto& io, Any<Holder> auto& value) {
  auto& [title, kind, bytes, count, api, module, phase, thread_id, stack, temporary,
         longest_life_ns, error_bytes, parts, telling_part] = value;
  io(title, kind, bytes, count, api, module, phase, thread_id, stack, temporary, longest_life_ns,
     error_bytes, parts, telling_part);
}

void each_field(auto& io, Any<TagShare> auto& value) {
  auto& [name, bytes, count] = value;
  io(name, bytes, count);
}

void each_field(auto& io, Any<Peak> auto& value) {
  auto& [scope, bytes, time_ns, phase, trigger, holders, other_bytes, other_sites, error_bytes,
         counted, tags] = value;
  io(scope, bytes, time_ns, phase, trigger, holders, other_bytes, other_sites, error_bytes, counted,
     tags);
}

void each_field(auto& io, Any<PhaseInstanceSide> auto& value) {
  auto& [start_bytes, peak_bytes, end_bytes, kept_bytes, alloc_count] = value;
  io(start_bytes, peak_bytes, end_bytes, kept_bytes, alloc_count);
}

void each_field(auto& io, Any<PhaseInstances> auto& value) {
  auto& [first, last, count, begin_ns, end_ns, open_ns, alike, device, host] = value;
  io(first, last, count, begin_ns, end_ns, open_ns, alike, device, host);
}

void each_field(auto& io, Any<PhaseCallsSide> auto& value) {
  auto& [grown_bytes, least_growth, most_growth, largest, rise_bytes, peak_bytes] = value;
  io(grown_bytes, least_growth, most_growth, largest, rise_bytes, peak_bytes);
}

void each_field(auto& io, Any<PhaseCalls> auto& value) {
  auto& [ended, device, host] = value;
  io(ended, device, host);
}

void each_field(auto& io, Any<PhaseSummary> auto& value) {
  auto& [name, source, of_library, parent, depth, session, count, name_count, begin_ns, end_ns,
         open_ns, metrics, instances, calls, device_site, host_site] = value;
  io(name, source, of_library, parent, depth, session, count, name_count, begin_ns, end_ns, open_ns,
     metrics, instances, calls, device_site, host_site);
}

void each_field(auto& io, Any<MarkSummary> auto& value) {
  auto& [name, source, domain, category, time_ns, thread_id, device_bytes, host_bytes] = value;
  io(name, source, domain, category, time_ns, thread_id, device_bytes, host_bytes);
}

void each_field(auto& io, Any<ArenaSummary::Level> auto& value) {
  auto& [in_use_bytes, reserved_bytes] = value;
  io(in_use_bytes, reserved_bytes);
}

void each_field(auto& io, Any<ArenaSummary::Part> auto& value) {
  auto& [title, bytes, count] = value;
  io(title, bytes, count);
}

void each_field(auto& io, Any<ArenaSummary::Growth> auto& value) {
  auto& [title, time_ns, bytes, asked_bytes, in_use_bytes, reserved_bytes] = value;
  io(title, time_ns, bytes, asked_bytes, in_use_bytes, reserved_bytes);
}

void each_field(auto& io, Any<ArenaSummary::Largest> auto& value) {
  auto& [time_ns, in_use_bytes, parts, other_bytes] = value;
  io(time_ns, in_use_bytes, parts, other_bytes);
}

void each_field(auto& io, Any<ArenaSummary::Cause> auto& value) {
  auto& [title, bytes, segments, largest_bytes, largest_asked_bytes, in_use_bytes, time_ns] = value;
  io(title, bytes, segments, largest_bytes, largest_asked_bytes, in_use_bytes, time_ns);
}

void each_field(auto& io, Any<ArenaSummary> auto& value) {
  auto& [name, device, on_host, at_peak, largest_idle_bytes, at_device_peak, reserved_peak_bytes,
         reserved_bytes, failed_count, checks, contradictions, count, capacity_bytes, live_bytes,
         peak_bytes, peak_time_ns, alloc_count, parts, other_bytes, never_used_bytes, largest,
         growths, causes, other_cause_bytes, idle_in_holes_bytes, idle_for_graphs_bytes] = value;
  io(name, device, on_host, at_peak, largest_idle_bytes, at_device_peak, reserved_peak_bytes,
     reserved_bytes, failed_count, checks, contradictions, count, capacity_bytes, live_bytes,
     peak_bytes, peak_time_ns, alloc_count, parts, other_bytes, never_used_bytes, largest, growths,
     causes, other_cause_bytes, idle_in_holes_bytes, idle_for_graphs_bytes);
}

void each_field(auto& io, Any<DriverPoolsSummary> auto& value) {
  auto& [device, reserved_peak_bytes, reserved_bytes, time_ns, in_use_bytes, growths, causes,
         other_cause_bytes] = value;
  io(device, reserved_peak_bytes, reserved_bytes, time_ns, in_use_bytes, growths, causes,
     other_cause_bytes);
}

void each_field(auto& io, Any<RulesSummary> auto& value) {
  auto& [sets, automatic] = value;
  io(sets, automatic);
}

void each_field(auto& io, Any<LedgerRow> auto& value) {
  auto& [cause, bytes] = value;
  io(cause, bytes);
}

void each_field(auto& io, Any<LedgerView> auto& value) {
  auto& [time_ns, used_bytes, tracked_bytes, rows, by_failed_call] = value;
  io(time_ns, used_bytes, tracked_bytes, rows, by_failed_call);
}

void each_field(auto& io, Any<ArenaSnapshot> auto& value) {
  auto& [name, in_use_bytes, reserved_bytes, largest_idle_bytes, idle_pieces, graph_idle_bytes,
         largest_graph_idle_bytes, grows_in_place] = value;
  io(name, in_use_bytes, reserved_bytes, largest_idle_bytes, idle_pieces, graph_idle_bytes,
     largest_graph_idle_bytes, grows_in_place);
}

void each_field(auto& io, Any<GrowthSummary> auto& value) {
  auto& [phase, source, side, device, title, first, last, grown_bytes, same_each_time, begin_ns,
         end_ns, to_the_last] = value;
  io(phase, source, side, device, title, first, last, grown_bytes, same_each_time, begin_ns, end_ns,
     to_the_last);
}

void each_field(auto& io, Any<OutOfMemory::Cause> auto& value) {
  auto& [cause, bytes] = value;
  io(cause, bytes);
}

void each_field(auto& io, Any<OutOfMemory> auto& value) {
  auto& [time_ns, api, device, requested_bytes, result, live_bytes, driver_free_bytes,
         driver_total_bytes, pool_slack_bytes, page_slack_bytes, unmapped_address_bytes,
         largest_fit_bytes, phase, title, holders, ledger, refused_by, limit_bytes, driver_refusals,
         driver_asked_bytes, told_by_arena, refused_by_run_limit, on_host, host_limit,
         host_limit_bytes, host_limit_used_bytes, only_addresses, for_driver, figures_are_whole,
         of_driver_pool, arenas, growth, causes, parts] = value;
  io(time_ns, api, device, requested_bytes, result, live_bytes, driver_free_bytes,
     driver_total_bytes, pool_slack_bytes, page_slack_bytes, unmapped_address_bytes,
     largest_fit_bytes, phase, title, holders, ledger, refused_by, limit_bytes, driver_refusals,
     driver_asked_bytes, told_by_arena, refused_by_run_limit, on_host, host_limit, host_limit_bytes,
     host_limit_used_bytes, only_addresses, for_driver, figures_are_whole, of_driver_pool, arenas,
     growth, causes, parts);
}

void each_field(auto& io, Any<LedgerItem> auto& value) {
  auto& [cause, name, bytes, count] = value;
  io(cause, name, bytes, count);
}

void each_field(auto& io, Any<DeviceLedgerSummary> auto& value) {
  auto& [source, at_peak, at_exit, overlaps, uncertain_readings, items, readings] = value;
  io(source, at_peak, at_exit, overlaps, uncertain_readings, items, readings);
}

void each_field(auto& io, Any<DeviceMemory> auto& value) {
  auto& [integrated, pageable_access, host_page_tables, concurrent_managed] = value;
  io(integrated, pageable_access, host_page_tables, concurrent_managed);
}

void each_field(auto& io, Any<CardLimit> auto& value) {
  auto& [bytes, real_bytes, card] = value;
  io(bytes, real_bytes, card);
}

void each_field(auto& io, Any<DeviceSummary> auto& value) {
  auto& [ordinal, uuid, name, total_bytes, metrics, ledger, memory, limit] = value;
  io(ordinal, uuid, name, total_bytes, metrics, ledger, memory, limit);
}

void each_field(auto& io, Any<RunEnd> auto& value) {
  auto& [kind, code] = value;
  io(kind, code);
}

void each_field(auto& io, Any<RunSummary> auto& value) {
  auto& [command, host, pid, ppid, rank, start_time, duration_ns, end, labels] = value;
  io(command, host, pid, ppid, rank, start_time, duration_ns, end, labels);
}

void each_field(auto& io, Any<Quality> auto& value) {
  auto& [exact, only_heap_inexact, events_lost, log_complete, log_end, events, device_events,
         host_events, dropped_events, truncated_stacks, unmatched_frees, unknown_heap_frees,
         repairs, hooks_missing, warnings, slow_clock, heap_not_read, heap_sample_bytes] = value;
  io(exact, only_heap_inexact, events_lost, log_complete, log_end, events, device_events,
     host_events, dropped_events, truncated_stacks, unmatched_frees, unknown_heap_frees, repairs,
     hooks_missing, warnings, slow_clock, heap_not_read, heap_sample_bytes);
}

void each_field(auto& io, Any<Lowering::Row> auto& value) {
  auto& [setting, least_bytes, most_bytes, time_ns] = value;
  io(setting, least_bytes, most_bytes, time_ns);
}

void each_field(auto& io, Any<Lowering> auto& value) {
  auto& [scope, before_bytes, untried_requests, rows] = value;
  io(scope, before_bytes, untried_requests, rows);
}

void each_field(auto& io, Any<Summary> auto& value) {
  auto& [log_path, confidential, names_were_looked_for, has_uses, log_bytes, tool_version,
         log_format, run, devices, metrics, grouped_by, peaks, phases, growth, arenas, marks,
         mark_count, rules, oom, oom_count, live_at_exit, temporaries, quality, lowering, whole_run,
         driver_pools] = value;
  static_cast<void>(whole_run);  // other logs' as well: it is made anew
  io(log_path, confidential, names_were_looked_for, has_uses, log_bytes, tool_version, log_format,
     run, devices, metrics, grouped_by, peaks, phases, growth, arenas, marks, mark_count, rules,
     oom, oom_count, live_at_exit, temporaries, quality, lowering, driver_pools);
}

class Writer {
 public:
  void operator()(const auto&... values) { (put(values), ...); }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      out_.number(value);
    else
      each_field(*this, value);
  }
  void put(const std::string& value) { out_.text(value); }
  template <typename A, typename B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    out_.count(values.size());
    for (const T& value : values) put(value);
  }
  template <typename K, typename V>
  void put(const std::map<K, V>& values) {
    out_.count(values.size());
    for (const auto& value : values) put(value);
  }

  BytePacker out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}
  void operator()(auto&... values) { (get(values), ...); }
  bool at_end() const { return in_.at_end(); }

 private:
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = in_.number<uint8_t>() != 0;
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      value = in_.number<T>();
    else
      each_field(*this, value);
  }
  void get(std::string& value) { value = in_.text(); }
  template <typename A, typename B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool has = false;
    get(has);
    value.reset();
    if (has) get(value.emplace(T{}));
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.clear();
    for (size_t count = in_.count(1); count > 0 && !in_.failed(); --count)
      get(values.emplace_back());
  }
  template <typename K, typename V>
  void get(std::map<K, V>& values) {
    values.clear();
    for (size_t count = in_.count(1); count > 0 && !in_.failed(); --count) {
      std::pair<K, V> value;
      get(value);
      values.insert(std::move(value));
    }
  }

  ByteUnpacker in_;
};

}  // namespace

std::string pack_summary(const Summary& summary) {
  Writer out;
  out(summary);
  return out.bytes();
}

std::optional<Summary> unpack_summary(std::string_view bytes) {
  Reader in(bytes);
  Summary summary;
  in(summary);
  if (!in.at_end()) return std::nullopt;
  return summary;
}

}  // namespace gpupeak::collector
