// The fields of those parts of a Summary that are in JSON as they are, in the order of their
// declaration; summary_json.h has the others. `io` writes or reads; it gets the names, then the
// fields.
//
//   each_field(io, tag_share)   io("name, bytes, count", name, bytes, count)
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

GPUPEAK_FIELDS(BufferRole::Kernel, name, library, access, arguments, launches)
GPUPEAK_FIELDS(BufferRole, copied_in, copied_out, copied_to, copied_from, filled, textures, kernels,
               passed_on, unused_bytes, launches_sampled, first_use_ns, last_use_ns, allocated_ns,
               freed_ns, alike)
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
GPUPEAK_FIELDS(WholeRun::NotRecorded::Held, name, uuid, nvml_bytes)

#undef GPUPEAK_FIELDS

}  // namespace gpupeak::collector
