#include "collector/analyze/metrics.h"

#include <algorithm>
#include <string>

#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

constexpr uint8_t kSummedDeviceKinds[] = {GPUPEAK_KIND_LINEAR, GPUPEAK_KIND_POOL, GPUPEAK_KIND_VMM,
                                          GPUPEAK_KIND_ARRAY, GPUPEAK_KIND_GRAPH};

uint64_t scope_peak(const Replay& replay, const std::string& name) {
  const ScopeId* scope = replay.sites().find_scope(name);
  return scope != nullptr ? replay.peaks().scope(*scope).peak : 0;
}

/// Each device at its own time: what a machine must have where none may be moved to another.
uint64_t sum_of_device_peaks(const Replay& replay) {
  uint64_t sum = 0;
  for (uint32_t device = 0; device < GPUPEAK_LOG_MAX_DEVICES; ++device)
    sum += scope_peak(replay, "device:" + std::to_string(device));
  return sum;
}

uint64_t scope_live(const Replay& replay, const std::string& name) {
  const ScopeId* scope = replay.sites().find_scope(name);
  return scope != nullptr ? replay.peaks().scope(*scope).current : 0;
}

std::optional<uint64_t> if_covered(bool covered, uint64_t value) {
  return covered ? std::optional<uint64_t>(value) : std::nullopt;
}

/// Sums over what counts into a device.
struct DeviceTotals {
  uint64_t alloc_bytes = 0, alloc_count = 0;
};

DeviceTotals device_totals(const Replay& replay, const GroupTotals& totals, int32_t device) {
  DeviceTotals sums;
  for (ContextId id = 0; id < totals.contexts.size(); ++id) {
    const SiteContext& context = replay.sites().contexts()[id];
    if (!is_device_kind(context.kind) || !counts_into_sum(context.kind)) continue;
    if (device >= 0 && context.device != device) continue;
    sums.alloc_bytes += totals.contexts[id].alloc_bytes;
    sums.alloc_count += totals.contexts[id].alloc_count;
  }
  return sums;
}

/// Most that pools had in use, and what they held idle when the driver had handed out most. Null
/// where no pool was seen; idle bytes of several devices are of several instants.
void add_pool_metrics(const Replay& replay, int32_t device, Metrics& metrics) {
  const ArenaTable& table = replay.arenas();
  std::optional<uint64_t>& in_use = metrics["device.pool.in_use.peak_bytes"];
  std::optional<uint64_t>& idle = metrics["device.pool.idle_at_peak_bytes"];
  const ScopeId* pooled = table.pooled_scope(device);
  if (pooled == nullptr) return;
  in_use = table.peaks().scope(*pooled).peak;
  uint64_t sum = 0;
  int32_t only = -1;
  for (GroupId group = 0; group < table.holders().size(); ++group) {
    const ArenaTable::Holder& holder = table.holders()[group];
    if (holder.what != ArenaTable::What::kIdle) continue;
    const int32_t place = table.arenas()[holder.arena].place;
    const ScopeId* driver = table.device_scope(place);
    if (driver == nullptr || (device >= 0 && place != device)) continue;
    if (only >= 0 && only != place) return;
    only = place;
    sum += table.peaks().at_peak(group, *driver).bytes;
  }
  idle = sum;
}

/// What the counters page, which sees every block, bounds the estimate of a sample by: nothing that
/// was asked for is larger than what was usable. None: nothing bounds it, or it is exact.
std::optional<uint64_t> heap_bound(const Replay& replay, const Coverage& coverage) {
  const uint64_t bound = replay.log().counters().heap.peak;
  const bool counted = coverage.heap_counters && bound != 0;  // 0: never written
  return if_covered(coverage.sampled && counted, bound);
}

/// In counters mode the counters page is all there is.
std::optional<uint64_t> heap_peak(const Replay& replay, const Coverage& coverage) {
  if (!coverage.heap_events)
    return if_covered(coverage.heap_counters, replay.log().counters().heap.peak);
  const uint64_t peak = scope_peak(replay, "host/heap");
  return std::min(peak, heap_bound(replay, coverage).value_or(peak));
}

/// The host's other kinds are exact beside a sample.
uint64_t host_peak(const Replay& replay, const Coverage& coverage) {
  const uint64_t peak = scope_peak(replay, "host");
  const std::optional<uint64_t> heap = heap_bound(replay, coverage);
  if (!heap) return peak;
  uint64_t bound = *heap;
  for (uint8_t kind = 1; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    if (kind == GPUPEAK_KIND_HEAP || is_device_kind(kind) || !counts_into_sum(kind)) continue;
    bound += scope_peak(replay, "host/" + std::string(kind_name(kind)));
  }
  return std::min(peak, bound);
}

std::optional<uint64_t> heap_usable_peak(const Replay& replay, const Coverage& coverage) {
  if (coverage.heap_events && !coverage.sampled) return replay.heap().usable().peak;
  return if_covered(coverage.heap_counters, replay.log().counters().heap.peak);
}

/// What a phase's own allocations hold in the end.
uint64_t owned_bytes(const Replay& replay, PhaseId phase, size_t side) {
  const OwnerId owner = owner_of(phase, side);
  return owner < replay.peaks().owned().size() ? replay.peaks().owned()[owner].live_bytes : 0;
}

uint64_t heap_alloc_count(const Replay& replay, const GroupTotals& totals,
                          const Coverage& coverage) {
  if (!coverage.heap_events || coverage.sampled) return replay.log().counters().heap_alloc_count;
  uint64_t count = 0;
  for (ContextId id = 0; id < totals.contexts.size(); ++id) {
    if (replay.sites().contexts()[id].kind == GPUPEAK_KIND_HEAP)
      count += totals.contexts[id].alloc_count;
  }
  return count;
}

}  // namespace

Metrics device_metrics(const Replay& replay, const GroupTotals& totals, int32_t device) {
  const std::string scope = device < 0 ? "device" : "device:" + std::to_string(device);
  const DeviceTotals sums = device_totals(replay, totals, device);
  const auto reserved = replay.device().pool_reserved().find(device);
  Metrics metrics;
  metrics["device.peak_bytes"] = scope_peak(replay, scope);
  metrics["device.live_bytes"] = scope_live(replay, scope);
  metrics["device.alloc_bytes"] = sums.alloc_bytes;
  metrics["device.alloc_count"] = sums.alloc_count;
  metrics["device.largest_alloc_bytes"] = replay.device().largest_alloc_bytes(device);
  for (const uint8_t kind : kSummedDeviceKinds) {
    const std::string name{kind_name(kind)};
    metrics["device.kind." + name + ".peak_bytes"] = scope_peak(replay, scope + "/" + name);
  }
  metrics["device.kind.pool.reserved_peak_bytes"] =
      reserved == replay.device().pool_reserved().end() ? 0 : reserved->second.peak;
  metrics["device.kind.vmm.reserved_va_bytes"] = scope_peak(replay, scope + "/vmm_va");
  metrics["device.managed.peak_bytes"] = scope_peak(replay, scope + "/managed");
  metrics["device.imported.peak_bytes"] = scope_peak(replay, scope + "/imported");
  add_pool_metrics(replay, device, metrics);
  return metrics;
}

Metrics process_metrics(const Replay& replay, const GroupTotals& totals, const Coverage& coverage) {
  const gpupeak_counters_page& page = replay.log().counters();
  Metrics metrics = device_metrics(replay, totals, -1);
  metrics["device.sum_of_peaks_bytes"] = sum_of_device_peaks(replay);
  const auto host = [&](const std::string& metric, const std::string& scope) {
    metrics[metric] = if_covered(covers_scope(coverage, scope), scope_peak(replay, scope));
  };
  metrics["host.peak_bytes"] =
      if_covered(covers_scope(coverage, "host"), host_peak(replay, coverage));
  metrics["host.live_bytes"] = if_covered(coverage.host(), scope_live(replay, "host"));
  metrics["device.outside_phases.live_bytes"] = owned_bytes(replay, 0, kDeviceSide);
  metrics["host.outside_phases.live_bytes"] =
      if_covered(coverage.host(), owned_bytes(replay, 0, kHostSide));
  metrics["host.kind.heap.peak_bytes"] = heap_peak(replay, coverage);
  metrics["host.kind.heap.usable_peak_bytes"] = heap_usable_peak(replay, coverage);
  metrics["host.kind.heap.live_bytes"] =
      if_covered(coverage.heap_events, scope_live(replay, "host/heap"));
  metrics["host.kind.heap.alloc_count"] =
      if_covered(coverage.heap_counters, heap_alloc_count(replay, totals, coverage));
  host("host.kind.mmap_anon.peak_bytes", "host/mmap_anon");
  host("host.kind.mmap_file.peak_bytes", "host/mmap_file");
  host("host.kind.pinned.peak_bytes", "host/pinned");
  host("host.kind.vmm.peak_bytes", "host/vmm");
  host("host.overlay.registered.peak_bytes", "host/registered");
  host("host.backing.peak_bytes", "host/backing");
  host("host.driver.peak_bytes", "host/driver");
  metrics["host.brk_growth.peak_bytes"] =
      if_covered(coverage.mappings && replay.brk_growth().peak > 0, replay.brk_growth().peak);
  const uint64_t rss = std::max(page.rss_peak_bytes, replay.rss().peak);
  metrics["host.rss.peak_bytes"] = if_covered(rss > 0, rss);
  metrics["tool.self_bytes"] = if_covered(page.self_bytes > 0, page.self_bytes);
  return metrics;
}

std::vector<std::array<uint64_t, kPhaseSides>> phase_alloc_counts(const Replay& replay,
                                                                  const GroupTotals& totals) {
  std::vector<std::array<uint64_t, kPhaseSides>> counts(replay.phases().phases().size());
  for (ContextId id = 0; id < totals.contexts.size(); ++id) {
    const SiteContext& context = replay.sites().contexts()[id];
    if (!counts_into_sum(context.kind)) continue;
    counts[context.phase][is_device_kind(context.kind) ? kDeviceSide : kHostSide] +=
        totals.contexts[id].alloc_count;
  }
  return counts;
}

std::vector<std::array<uint64_t, kPhaseSides>> phase_live_bytes(const Replay& replay) {
  const std::vector<Phase>& phases = replay.phases().phases();
  std::vector<std::array<uint64_t, kPhaseSides>> live(phases.size());
  for (size_t id = phases.size(); id-- > 0;) {  // a phase comes after the one around it
    for (size_t side = 0; side < kPhaseSides; ++side) {
      live[id][side] += owned_bytes(replay, static_cast<PhaseId>(id), side);
      if (id > 0) live[phases[id].parent][side] += live[id][side];
    }
  }
  return live;
}

Metrics phase_metrics(const Phase& phase, const std::array<uint64_t, kPhaseSides>& alloc_counts,
                      const std::array<uint64_t, kPhaseSides>& live_bytes, bool kept_is_known,
                      const Coverage& coverage) {
  Metrics metrics;
  const auto add = [&](const std::string& side, PhaseSide index, bool covered) {
    metrics[side + ".start_bytes"] = if_covered(covered, phase.start_bytes[index]);
    metrics[side + ".peak_bytes"] = if_covered(covered, phase.peak_bytes[index]);
    metrics[side + ".end_bytes"] = if_covered(covered, phase.end_bytes[index]);
    // A range has no allocations of its own.
    const bool owns = covered && !phase.is_range;
    const auto kept = static_cast<uint64_t>(std::max<int64_t>(phase.kept_bytes[index], 0));
    metrics[side + ".alloc_count"] = if_covered(owns, alloc_counts[index]);
    metrics[side + ".kept_bytes"] = if_covered(owns && kept_is_known, kept);
    metrics[side + ".live_at_exit_bytes"] = if_covered(owns, live_bytes[index]);
  };
  add("device", kDeviceSide, true);
  add("host", kHostSide, coverage.host());
  return metrics;
}

}  // namespace gpupeak::collector
