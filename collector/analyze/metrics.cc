#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/text/scope_key.h"
#include "gpupeak/memory_kinds.h"
#include "gpupeak/smaps.h"

namespace gpupeak::collector {
namespace {

/// The sum of the devices' peaks, each at its own time: what a machine must have if nothing can be
/// moved to another device.
uint64_t sum_of_device_peaks(const Replay& replay) {
  uint64_t sum = 0;
  for (uint32_t device = 0; device < GPUPEAK_LOG_MAX_DEVICES; ++device)
    sum += replay.sum(ScopeKey::device(static_cast<int32_t>(device)).text()).peak;
  return sum;
}

std::optional<uint64_t> if_covered(bool covered, uint64_t value) {
  return covered ? std::optional<uint64_t>(value) : std::nullopt;
}

/// Sums of all memory that counts into a device's sum.
struct DeviceTotals {
  uint64_t alloc_bytes = 0, alloc_count = 0;
};

DeviceTotals device_totals(const Replay& replay, const GroupTotals& totals, int32_t device) {
  DeviceTotals sums;
  for (ContextId id{}; id < totals.contexts.size(); ++id) {
    const SiteContext& context = replay.sites().contexts()[id];
    if (!is_device_kind(context.kind) || !counts_into_sum(context.kind)) continue;
    if (device >= 0 && context.device != device) continue;
    sums.alloc_bytes += totals.contexts[id].alloc_bytes;
    sums.alloc_count += totals.contexts[id].alloc_count;
  }
  return sums;
}

/// Adds the most that arenas had in use, and what was idle in them when the driver had handed out
/// most. Null if no arena was seen. Idle bytes of several devices are of several instants.
void add_arena_metrics(const Replay& replay, int32_t device, Metrics& metrics) {
  const ArenaTable& table = replay.arenas();
  std::optional<uint64_t>& in_use = metrics["device.pool.in_use.peak_bytes"];
  std::optional<uint64_t>& idle = metrics["device.pool.idle_at_peak_bytes"];
  const ScopeId* in_arenas = table.in_arenas_scope(device);
  if (in_arenas == nullptr) return;
  in_use = table.peaks().scope(*in_arenas).peak;
  uint64_t sum = 0;
  int32_t only = -1;
  for (GroupId group{0}; group < table.holders().size(); ++group) {
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

/// If the heap was sampled: the most usable bytes by the counters page, which sees every block.
/// Requested bytes are never more. None: it was not counted, or each block is in the log.
std::optional<uint64_t> heap_bound(const Replay& replay, const Coverage& coverage) {
  const uint64_t bound = replay.log().counters().heap.peak;
  const bool counted = coverage.heap_counters && bound != 0;  // 0: it was never written
  return if_covered(coverage.sampled && counted, bound);
}

/// The heap's peak. If not every block is in the log it comes from the counters page: exact, though
/// of usable bytes. A gate on an estimate would hold today and break tomorrow.
std::optional<uint64_t> heap_peak(const Replay& replay, const Coverage& coverage) {
  if (!coverage.heap_events)  // usable bytes; not if the heap is in the log and was only not read
    return if_covered(coverage.heap_counters && !replay.log().left_heap_out(),
                      replay.log().counters().heap.peak);
  return heap_bound(replay, coverage).value_or(replay.sum("host/heap").peak);
}

/// The host's peak. Beside a sampled heap the other kinds are exact.
uint64_t host_peak(const Replay& replay, const Coverage& coverage) {
  const uint64_t peak = replay.sum("host").peak;
  const std::optional<uint64_t> heap = heap_bound(replay, coverage);
  if (!heap) return peak;
  uint64_t bound = *heap;
  for (uint8_t kind = 1; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    if (kind == GPUPEAK_KIND_HEAP || is_device_kind(kind) || !counts_into_sum(kind)) continue;
    bound += replay.sum("host/" + std::string(kind_name(kind))).peak;
  }
  return std::min(peak, bound);
}

std::optional<uint64_t> heap_usable_peak(const Replay& replay, const Coverage& coverage) {
  if (coverage.heap_events && !coverage.sampled) return replay.heap().usable().peak;
  return if_covered(coverage.heap_counters, replay.log().counters().heap.peak);
}

/// What a phase's own allocations hold at the end.
uint64_t owned_bytes(const Replay& replay, PhaseId phase, size_t side) {
  const OwnerId owner = owner_of(phase, side);
  return owner < replay.peaks().owned().size() ? replay.peaks().owned()[owner].live_bytes : 0;
}

uint64_t heap_alloc_count(const Replay& replay, const GroupTotals& totals,
                          const Coverage& coverage) {
  if (!coverage.heap_events || coverage.sampled) return replay.log().counters().heap_alloc_count;
  uint64_t count = 0;
  for (ContextId id{}; id < totals.contexts.size(); ++id) {
    if (replay.sites().contexts()[id].kind == GPUPEAK_KIND_HEAP)
      count += totals.contexts[id].alloc_count;
  }
  return count;
}

}  // namespace

Metrics device_metrics(const Replay& replay, const GroupTotals& totals, int32_t device) {
  const std::string scope = ScopeKey::device(device).text();
  const DeviceTotals sums = device_totals(replay, totals, device);
  const auto* const reserved = value_in(replay.device().pool_reserved(), device);
  Metrics metrics;
  metrics["device.peak_bytes"] = replay.sum(scope).peak;
  metrics["device.live_bytes"] = replay.sum(scope).current;
  metrics["device.alloc_bytes"] = sums.alloc_bytes;
  metrics["device.alloc_count"] = sums.alloc_count;
  metrics["device.largest_alloc_bytes"] = replay.device().largest_alloc_bytes(device);
  for (uint8_t kind = GPUPEAK_FIRST_DEVICE_KIND; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    if (!counts_into_sum(kind)) continue;
    const std::string name{kind_name(kind)};
    metrics["device.kind." + name + ".peak_bytes"] = replay.sum(scope + "/" + name).peak;
  }
  metrics["device.kind.pool.reserved_peak_bytes"] = reserved == nullptr ? 0 : reserved->peak;
  metrics["device.kind.vmm.reserved_va_bytes"] = replay.sum(scope + "/vmm_va").peak;
  metrics["device.managed.peak_bytes"] = replay.sum(scope + "/managed").peak;
  metrics["device.imported.peak_bytes"] = replay.sum(scope + "/imported").peak;
  add_arena_metrics(replay, device, metrics);
  return metrics;
}

void add_resident(const ResidentEvent& event, uint64_t mapped, bool heap_known, Metrics& metrics,
                  uint64_t mapped_least) {
  const bool known = event.rss > 0;
  const auto take = [](uint64_t& from, uint64_t wanted) {
    const uint64_t taken = std::min(from, wanted);
    from -= taken;
    return taken;
  };
  uint64_t left = event.rss;
  const uint64_t files = take(left, event.files), shared = take(left, event.shared);
  const uint64_t driver = take(left, event.driver), stacks = take(left, event.stacks);
  const uint64_t log = take(left, event.log), own = take(left, event.own);
  const uint64_t static_data = take(left, event.static_data);
  const uint64_t written = take(left, event.written);
  // If malloc does not tell: it may have kept all that is neither in use nor a mapping of the
  // program's.
  const uint64_t in_use = event.heap + mapped;
  const uint64_t kept = take(left, event.free_in_malloc_plus_1 > 0 ? event.free_in_malloc_plus_1 - 1
                                   : left > in_use                 ? left - in_use
                                                                   : 0);
  const uint64_t of_mappings = take(left, mapped_least);
  const uint64_t heap = take(left, event.heap);
  const uint64_t mappings = of_mappings + take(left, mapped - std::min(mapped, of_mappings));
  const auto say = [&](const char* name, bool covered, uint64_t bytes) {
    metrics[std::string("host.resident.") + name] = if_covered(known && covered, bytes);
  };
  say("total_bytes", true, event.rss);
  say("heap_bytes", heap_known, heap);
  say("kept_by_malloc_bytes", heap_known, kept);
  say("mappings_bytes", heap_known, mappings);
  say("thread_stacks_bytes", true, stacks);
  say("files_bytes", true, files);
  say("static_data_bytes", true, static_data);
  say("written_files_bytes", true, written);
  say("shared_memory_bytes", true, shared);
  say("driver_bytes", true, driver);
  say("gpupeak_bytes", true, log + own);
  say("unexplained_bytes", heap_known, left);
}

/// What was resident when that was most, and how much of what was asked for was not.
void add_resident(const Replay& replay, const Coverage& coverage, Metrics& metrics) {
  const Replay::Resident& most = replay.resident();
  const bool heap_known = coverage.heap_counters && coverage.mappings;
  metrics["host.memory.by_site_bytes"] =
      if_covered(most.event.places.has_value(), most.event.own_bytes());
  Replay::Resident::InPlaces mapped;
  for (const auto& [group, in] : most.in_places)
    if (replay.sites().context_of(group).kind == GPUPEAK_KIND_MMAP_ANON) mapped.add(in);
  add_resident(most.event, most.then.mapped + most.resting_bytes, heap_known, metrics,
               most.event.places ? mapped.resident(most.event).first : 0);
  const uint64_t asked_for = most.event.heap + most.then.mapped;
  const uint64_t touched = metric(metrics, "host.resident.heap_bytes").value_or(0) +
                           metric(metrics, "host.resident.mappings_bytes").value_or(0);
  metrics["host.never_touched_bytes"] =
      if_covered(most.event.rss > 0 && heap_known, asked_for - std::min(asked_for, touched));
  if (most.event.rss == 0 || !heap_known) return;
  *metrics["host.resident.heap_bytes"] += most.heap_grown();
  *metrics["host.resident.mappings_bytes"] += most.mapped_grown();
  *metrics["host.resident.total_bytes"] += most.heap_grown() + most.mapped_grown();
}

/// What of the host's memory is the process's own: by the kernel's maximum, less what was files'
/// when most was resident. Before a large free, with fewer files, it may have been more.
void add_own_memory(const Replay& replay, uint64_t rss_peak, Metrics& metrics) {
  const Replay::OwnMemory& own = replay.own_memory();
  const uint64_t estimate = own.own + rss_peak - std::min(rss_peak, own.rss);
  const uint64_t most = replay.most_own();
  metrics["host.memory.seen_bytes"] = if_covered(own.rss > 0, most);
  metrics["host.memory.peak_bytes"] = if_covered(own.rss > 0, std::max(most, estimate));
}

/// If the heap's recording began later: adds what was there then and has no call site.
void add_before_recording(const Replay& replay, Metrics& metrics) {
  const bool attached = is_of_attached(replay.log().header());
  if (replay.windows().empty() || attached) return;
  metrics["host.before_recording_bytes"] = most_of(replay.windows(), &Window::before_bytes);
}

uint64_t not_below_0(int64_t bytes) {
  return static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
}

/// Whether there are windows that somebody asked for, and all of them are known. A counted child's
/// window was asked for by nobody: its figures are from its start.
bool knows_windows(const Replay& replay) {
  const size_t known = replay.windows().size();
  const bool was_counted = (replay.log().header().flags & GPUPEAK_FLAG_COUNTED) != 0;
  return known > 0 && replay.log().counters().window_count <= known && !was_counted;
}

/// How much a figure of windows grew within all of them; `now`: of a window that has not ended.
template <typename T>
std::optional<uint64_t> growth_in_windows(const Replay& replay, T Window::*begin, T Window::*end,
                                          T now) {
  if (!knows_windows(replay)) return std::nullopt;
  int64_t sum = 0;
  for (const Window& window : replay.windows())
    sum += static_cast<int64_t>((window.has_ended ? window.*end : now) - window.*begin);
  return not_below_0(sum);
}

/// The heap's growth by the exact counters, whatever is recorded: since the attach, or within all
/// windows.
std::optional<uint64_t> heap_growth(const Replay& replay, bool attached) {
  const auto now = static_cast<int64_t>(replay.log().counters().heap.live);
  if (attached && replay.windows().empty()) return not_below_0(now);
  return growth_in_windows(replay, &Window::heap_at_begin, &Window::heap_at_end, now);
}

std::optional<uint64_t> device_growth(const Replay& replay, bool attached) {
  if (attached) {
    const DeviceGrowth& growth = replay.device_growth();
    return if_covered(growth.is_known() && !passed_by(replay), growth.bytes());
  }
  return growth_in_windows(replay, &Window::device_at_begin, &Window::device_at_end,
                           replay.sum("device").current);
}

/// Adds growth. Null if recording began with the program and never ended: then everything is
/// growth.
void add_growth(const Replay& replay, Metrics& metrics) {
  const bool attached = is_of_attached(replay.log().header());
  const DeviceGrowth& growth = replay.device_growth();
  metrics["host.kind.heap.growth_bytes"] = heap_growth(replay, attached);
  metrics["device.growth_bytes"] = device_growth(replay, attached);
  metrics["device.growth_peak_bytes"] =
      if_covered(attached && growth.is_known() && !passed_by(replay), growth.peak());
}

Metrics process_metrics(const Replay& replay, const GroupTotals& totals, const Coverage& coverage) {
  const gpupeak_counters_page& page = replay.log().counters();
  Metrics metrics = device_metrics(replay, totals, -1);
  metrics["device.sum_of_peaks_bytes"] = sum_of_device_peaks(replay);
  const auto host = [&](const std::string& metric, const std::string& scope) {
    metrics[metric] = if_covered(covers_scope(coverage, scope), replay.sum(scope).peak);
  };
  metrics["host.peak_bytes"] = if_covered(coverage.host(), host_peak(replay, coverage));
  metrics["host.live_bytes"] = if_covered(coverage.host(), replay.sum("host").current);
  metrics["device.outside_phases.live_bytes"] = owned_bytes(replay, 0, kDeviceSide);
  metrics["host.outside_phases.live_bytes"] =
      if_covered(coverage.host(), owned_bytes(replay, 0, kHostSide));
  metrics["host.kind.heap.peak_bytes"] = heap_peak(replay, coverage);
  metrics["host.kind.heap.usable_peak_bytes"] = heap_usable_peak(replay, coverage);
  metrics["host.kind.heap.live_bytes"] =
      if_covered(coverage.heap_events, replay.sum("host/heap").current);
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
  metrics["host.pss.peak_bytes"] = if_covered(replay.pss().peak > 0, replay.pss().peak);
  add_resident(replay, coverage, metrics);
  add_own_memory(replay, rss, metrics);
  add_before_recording(replay, metrics);
  add_growth(replay, metrics);
  metrics["tool.self_bytes"] = if_covered(page.self_bytes > 0, page.self_bytes);
  return metrics;
}

std::vector<std::array<uint64_t, kPhaseSides>> phase_alloc_counts(const Replay& replay,
                                                                  const GroupTotals& totals) {
  std::vector<std::array<uint64_t, kPhaseSides>> counts(replay.phases().phases().size());
  for (ContextId id{}; id < totals.contexts.size(); ++id) {
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
  // A phase has a larger number than the one around it.
  for (size_t id = phases.size(); id-- > 0;) {
    for (size_t side = 0; side < kPhaseSides; ++side) {
      live[id][side] += owned_bytes(replay, static_cast<PhaseId>(id), side);
      if (id > 0) live[phases[id].parent][side] += live[id][side];
    }
  }
  return live;
}

Metrics phase_metrics(const Phase& phase, const std::array<uint64_t, kPhaseSides>& alloc_counts,
                      const std::array<uint64_t, kPhaseSides>& live_bytes, bool kept_is_known,
                      bool covers_host) {
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
  add("host", kHostSide, covers_host);
  return metrics;
}

/// Rows that are always metrics; the others are metrics only if they are not 0.
constexpr std::array<std::string_view, 7> kStandingRows = {
    "context", "code", "local_memory", "streams", "rounding", "pool_slack", "unexplained"};

LedgerView ledger_view(const LedgerSnapshot& snapshot, const TicksToNs& to_ns,
                       const Definitions& definitions) {
  LedgerView view;
  view.time_ns = to_ns(snapshot.ticks);
  view.used_bytes = snapshot.used;
  view.tracked_bytes = snapshot.tracked.total();
  view.by_failed_call = snapshot.by_failed_call;
  if (snapshot.read_ticks) view.read_ns = to_ns(*snapshot.read_ticks);
  view.of_process = snapshot.of_process;
  view.card_used_bytes = snapshot.card_used;
  view.others_bytes = snapshot.others;
  for (const DriverReadingEvent::Process& other : snapshot.processes)
    view.others.push_back({other.pid, definitions.shown_string(other.name), other.bytes, false});
  const auto row = [&](std::string_view cause, int64_t bytes) {
    const bool stands =
        !snapshot.others_moved && std::ranges::find(kStandingRows, cause) != kStandingRows.end();
    if (bytes != 0 || stands) view.rows.push_back({std::string(cause), bytes});
  };
  if (snapshot.start && !snapshot.of_process) row("start", static_cast<int64_t>(*snapshot.start));
  for (uint8_t cause = GPUPEAK_LEDGER_CONTEXT; cause <= kSeveralCauses; ++cause) {
    if (cause == GPUPEAK_LEDGER_ARRAYS) continue;  // it is in "rounding"
    // Without a reading before the first context, both are one.
    const bool with_start =
        cause == GPUPEAK_LEDGER_CONTEXT && !snapshot.start && !snapshot.of_process;
    row(!with_start             ? ledger_cause_name(cause)
        : snapshot.others_moved ? "others_and_context"
                                : "start_and_context",
        snapshot.causes[cause]);
  }
  row("rounding", snapshot.linear_rounding + snapshot.causes[GPUPEAK_LEDGER_ARRAYS]);
  row("pool_slack", static_cast<int64_t>(snapshot.tracked.pool_reserved) -
                        static_cast<int64_t>(snapshot.tracked.of[GPUPEAK_KIND_POOL]));
  row("host", snapshot.host);
  row("unexplained", snapshot.unexplained);
  return view;
}

std::optional<DeviceLedgerSummary> summarize_ledger(const DeviceLedger& ledger,
                                                    const TicksToNs& to_ns,
                                                    const Definitions& definitions,
                                                    const LedgerItemName& name_of, size_t top) {
  if (!ledger.at_peak() || !ledger.last()) return std::nullopt;
  DeviceLedgerSummary summary;
  summary.source = ledger.by_nvml() ? "nvml" : "cuMemGetInfo";
  summary.at_peak = ledger_view(*ledger.at_peak(), to_ns, definitions);
  summary.at_exit = ledger_view(*ledger.last(), to_ns, definitions);
  summary.overlaps = ledger.overlaps();
  summary.uncertain_readings = ledger.uncertain();
  std::map<std::pair<uint8_t, std::string>, LedgerItem> items;
  for (const auto& [key, item] : ledger.items()) {
    if (ledger.last()->others_moved) break;  // what these calls took is not known
    const auto& [cause, name, api, stack] = key;
    const std::string title = name_of(cause, name, api, stack);
    LedgerItem& row = items[{cause, title}];
    row.cause = ledger_cause_name(cause);
    row.name = title;
    add_part(row, item);
  }
  for (auto& [key, item] : items) {
    if (item.bytes != 0) summary.items.push_back(std::move(item));
  }
  std::ranges::stable_sort(summary.items, std::ranges::greater(), &LedgerItem::bytes);
  if (summary.items.size() > top) summary.items.resize(top);
  for (const DeviceLedger::Point& point : ledger.curve())
    summary.readings.emplace_back(to_ns(point.ticks), point.used);
  return summary;
}

void add_ledger_metrics(const DeviceLedger* ledger,
                        const std::optional<DeviceLedgerSummary>& summary, Metrics& metrics) {
  metrics["device.driver_used.peak_bytes"] = std::nullopt;
  metrics["device.external_start_bytes"] = std::nullopt;
  metrics["device.nvml_process.peak_bytes"] = std::nullopt;
  metrics["device.driver_reserve_bytes"] = std::nullopt;
  for (const std::string_view row : kStandingRows)
    metrics["device.ledger." + std::string(row) + "_bytes"] = std::nullopt;
  metrics["device.ledger.graph_reserve_bytes"] = std::nullopt;
  if (ledger == nullptr || !summary) return;
  metrics["device.driver_used.peak_bytes"] = ledger->highest()->used;
  metrics["device.external_start_bytes"] = ledger->others_at_start();
  metrics["device.nvml_process.peak_bytes"] = ledger->own_peak();
  metrics["device.driver_reserve_bytes"] = ledger->reserved();
  metrics["device.ledger.graph_reserve_bytes"] = ledger->at_peak()->tracked.of[GPUPEAK_KIND_GRAPH];
  for (const LedgerRow& row : summary->at_peak.rows) {
    // Metrics have no sign. Unexplained bytes are as bad in either direction. A cause that gave
    // back more than it took is only in the rows.
    std::optional<uint64_t>& value = metrics["device.ledger." + row.cause + "_bytes"];
    if (row.bytes >= 0 || row.cause == "unexplained")
      value = static_cast<uint64_t>(std::llabs(row.bytes));
  }
}

namespace {

constexpr int32_t kMaxDevices = GPUPEAK_LOG_MAX_DEVICES;
constexpr std::string_view kHeapPeak = "host.kind.heap.usable_peak_bytes";
constexpr std::string_view kPinnedPeak = "host.kind.pinned.peak_bytes";
constexpr std::string_view kResidentPeak = "host.rss.peak_bytes";

/// A device's metric. Kind GPUPEAK_KIND_NONE: all kinds that count into a device's sum.
struct DeviceMetric {
  std::string_view name;
  uint8_t kind;
  bool peak;
};
constexpr DeviceMetric kDeviceMetrics[] = {
    {"device.peak_bytes", GPUPEAK_KIND_NONE, true},
    {"device.live_bytes", GPUPEAK_KIND_NONE, false},
    {"device.kind.linear.peak_bytes", GPUPEAK_KIND_LINEAR, true},
    {"device.kind.pool.peak_bytes", GPUPEAK_KIND_POOL, true},
    {"device.kind.vmm.peak_bytes", GPUPEAK_KIND_VMM, true},
    {"device.kind.array.peak_bytes", GPUPEAK_KIND_ARRAY, true},
    {"device.kind.graph.peak_bytes", GPUPEAK_KIND_GRAPH, true},
    {"device.managed.peak_bytes", GPUPEAK_KIND_MANAGED, true},
    {"device.imported.peak_bytes", GPUPEAK_KIND_IMPORTED, true},
};

/// The kernel's own maximum: at the process's end or, if it still runs, until now.
std::optional<uint64_t> resident_peak(const LogHead& head) {
  if (head.counters.rss_peak_bytes != 0) return head.counters.rss_peak_bytes;
  if (state_of(head) != LogState::kRunning) return std::nullopt;
  const std::string most = fields_of(fmt::format("/proc/{}/status", head.header.pid))["VmHWM"];
  return most.empty() ? std::nullopt : std::optional(smaps::bytes_at(most.c_str()));
}

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

std::vector<std::string> counter_metrics() {
  std::vector<std::string> names;
  for (const DeviceMetric& metric : kDeviceMetrics) names.emplace_back(metric.name);
  for (const std::string_view name : {kHeapPeak, kPinnedPeak, kResidentPeak})
    names.emplace_back(name);
  return names;
}

bool is_device_metric(std::string_view metric) {
  return metric.starts_with("device.");
}

std::optional<uint64_t> counter_metric(const LogHead& head, std::string_view metric,
                                       int32_t device) {
  const gpupeak_counters_page& page = head.counters;
  if (metric == kHeapPeak) {
    const bool counted = coverage_of(head.header, page).heap_counters;
    return counted ? std::optional(page.heap.peak) : std::nullopt;
  }
  if (metric == kPinnedPeak) return page.pinned.peak;
  if (metric == kResidentPeak) return resident_peak(head);
  if (device < 0 || device >= kMaxDevices) return std::nullopt;
  for (const DeviceMetric& known : kDeviceMetrics) {
    if (known.name != metric) continue;
    const gpupeak_gauge& gauge =
        known.kind == GPUPEAK_KIND_NONE
            ? page.device[device].total
            : device_gauge(page, static_cast<uint32_t>(device), known.kind);
    return known.peak ? gauge.peak : gauge.live;
  }
  return std::nullopt;
}

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
