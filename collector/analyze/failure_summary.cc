#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/summary/run_text.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

class Failures {
 public:
  Failures(const Replay& replay, Attribution& by_site, const std::vector<GrowthSummary>& growth,
           size_t top)
      : replay_(replay),
        definitions_(replay.log().definitions()),
        by_site_(by_site),
        growth_(growth),
        top_(top) {}

  std::vector<OutOfMemory> list() {
    const std::vector<FailedAllocation>& by_driver = replay_.device().failures();
    auto next = by_driver.begin();
    const auto add_until = [&](uint64_t ticks) {
      for (; next != by_driver.end() && next->ticks <= ticks; ++next) {
        shown_[&*next] = failures_.size();
        failures_.push_back(refused_by_driver(*next));
      }
    };
    for (const ArenaTable::Failure& failure : replay_.arenas().failures()) {
      add_until(failure.ticks);
      failures_.push_back(refused_by_arena(failure));
    }
    add_until(UINT64_MAX);
    for (OutOfMemory& oom : failures_) find_causes(oom);
    return std::move(failures_);
  }

 private:
  int64_t to_ns(uint64_t ticks) const { return replay_.log().clock().to_ns(ticks); }

  ArenaSnapshot arena_snapshot(const ArenaTable::Snapshot& snapshot) const {
    ArenaSnapshot arena;
    arena.name = definitions_.shown(replay_.name(replay_.arenas().arenas()[snapshot.arena].name));
    arena.in_use_bytes = snapshot.level.in_use;
    arena.reserved_bytes = snapshot.level.reserved;
    arena.largest_idle_bytes = snapshot.idle.largest;
    arena.idle_pieces = snapshot.idle.pieces;
    arena.graph_idle_bytes = std::min(snapshot.idle.captured_bytes, snapshot.level.idle());
    arena.largest_graph_idle_bytes = snapshot.idle.captured_largest;
    arena.grows_in_place = snapshot.idle.grows_in_place;
    return arena;
  }

  /// What was growing then: its next step had begun, or was due. (An allocator that is out of
  /// memory may try for long before it says so.)
  std::optional<GrowthSummary> growth_until(const OutOfMemory& oom) const {
    for (const GrowthSummary& growth : growth_) {
      const int64_t period =
          (growth.end_ns - growth.begin_ns) / static_cast<int64_t>(growth.steps());
      const bool goes_on = growth.end_ns <= oom.time_ns &&
                           (growth.to_the_last || oom.time_ns - growth.end_ns <= 2 * period);
      if (goes_on && growth.device == oom.device &&
          growth.side == (oom.on_host ? "host" : "device"))
        return growth;  // the largest comes first
    }
    return std::nullopt;
  }

  void add_total(OutOfMemory& oom) const {
    if (oom.driver_total_bytes || !oom.device) return;
    for (const DeviceInfo& info : definitions_.devices()) {
      if (static_cast<int32_t>(info.ordinal) == *oom.device && info.total_bytes > 0)
        oom.driver_total_bytes = info.total_bytes;
    }
  }

  void add_room_left(const FailedAllocation& failure, OutOfMemory& oom) const {
    const auto beyond = [](uint64_t a, uint64_t b) { return a > b ? a - b : 0; };
    const TrackedBytes& tracked = failure.tracked;
    oom.pool_slack_bytes = beyond(tracked.pool_reserved, tracked.of[GPUPEAK_KIND_POOL]);
    oom.page_slack_bytes = beyond(failure.linear_page_bytes, tracked.of[GPUPEAK_KIND_LINEAR]);
    oom.unmapped_address_bytes = beyond(failure.reserved_addresses, tracked.of[GPUPEAK_KIND_VMM]);
    if (oom.driver_free_bytes)
      oom.largest_fit_bytes = *oom.driver_free_bytes / kDriverPageBytes * kDriverPageBytes;
    for (const ArenaTable::Snapshot& snapshot : failure.arenas)
      oom.arenas.push_back(arena_snapshot(snapshot));
    if (failure.ledger)
      oom.ledger = ledger_view(
          *failure.ledger, [this](uint64_t ticks) { return to_ns(ticks); }, definitions_);
  }

  static void add_host_limit(const HostFailedEvent& failed, OutOfMemory& oom) {
    oom.result = kNoHostMemory;
    oom.host_limit_bytes = failed.limit_bytes;
    oom.host_limit_used_bytes = failed.used;
    oom.host_limit_own_bytes = std::min(failed.own.value_or(0), failed.used);
    switch (failed.limit) {
      case GPUPEAK_LIMIT_ADDRESSES:
        oom.host_limit = "the limit of the process's addresses (RLIMIT_AS, ulimit -v)";
        break;
      case GPUPEAK_LIMIT_DATA:
        oom.host_limit = "the limit of the process's data (RLIMIT_DATA, ulimit -d)";
        break;
      case GPUPEAK_LIMIT_COMMIT:
        oom.host_limit = "what the machine commits at most (vm.overcommit_memory is 2)";
        break;
      default:
        break;
    }
  }

  OutOfMemory refused_by_driver(const FailedAllocation& failure) {
    const DeviceFailedEvent& event = failure.event;
    OutOfMemory oom;
    oom.time_ns = to_ns(failure.ticks);
    oom.api = definitions_.shown_string(event.api);
    if (event.device >= 0) oom.device = event.device;
    oom.requested_bytes = event.bytes;
    const std::string_view result = cuda_result_name(event.result);
    oom.result = result.empty() ? fmt::format("CUresult {}", event.result) : result;
    oom.live_bytes = event.live;
    if (event.free_plus_1 > 0) oom.driver_free_bytes = event.free_plus_1 - 1;
    if (event.total_plus_1 > 0) oom.driver_total_bytes = event.total_plus_1 - 1;
    oom.on_host = event.kind != GPUPEAK_KIND_NONE && !is_device_kind(event.kind);
    oom.only_addresses = event.kind == GPUPEAK_KIND_VMM_VA;
    oom.of_driver_pool = event.kind == GPUPEAK_KIND_POOL;
    if (failure.host) add_host_limit(*failure.host, oom);
    oom.for_driver = event.kind == GPUPEAK_KIND_NONE && event.bytes == 0;
    oom.figures_are_whole = failure.whole;
    oom.refused_by_run_limit = event.by_run_limit;
    add_total(oom);
    add_room_left(failure, oom);
    oom.phase = by_site_.phase_name(failure.phase);
    const bool defined = event.stack < definitions_.logged_node_count();
    oom.title = by_site_.site_title(defined ? event.stack : 0);
    oom.holders = by_site_.table(failure.holders, top_, false).rows;
    oom.growth = growth_until(oom);
    return oom;
  }

  OutOfMemory refused_by_arena(const ArenaTable::Failure& failure) {
    OutOfMemory oom;
    oom.time_ns = to_ns(failure.ticks);
    oom.refused_by = arena_snapshot(failure.snapshot);
    oom.api = oom.refused_by->name;
    if (failure.device >= 0) oom.device = failure.device;
    oom.on_host = failure.device < 0;
    oom.requested_bytes = failure.event.bytes;
    oom.result = cuda_result_name(2);
    oom.live_bytes = failure.driver_bytes;
    oom.limit_bytes = failure.event.limit;
    if (failure.event.device == failure.device) {
      oom.driver_free_bytes = failure.event.free;
      oom.driver_total_bytes = failure.event.total;
    }
    add_total(oom);
    oom.unmapped_address_bytes = failure.requester.unmapped_addresses;
    take_over_driver_refusals(failure, oom);
    oom.phase = by_site_.phase_name(failure.requester.phase);
    oom.title = by_site_.site_title(failure.requester.stack);
    oom.holders = holders_of(failure);
    oom.growth = growth_until(oom);
    return oom;
  }

  /// Counts the driver's refusals for an arena's refusal. Before an arena refuses, it asks the
  /// driver, gives back what it can, and asks again. So what the driver refused this thread since
  /// the arena last answered a request was for this request.
  void take_over_driver_refusals(const ArenaTable::Failure& failure, OutOfMemory& oom) {
    if (failure.device < 0) return;
    const FailedAllocation* last = nullptr;
    for (const FailedAllocation& refused : replay_.device().failures()) {
      const bool before = refused.ticks > failure.since_ticks && refused.ticks <= failure.ticks;
      if (!before || refused.tid != failure.requester.tid || refused.event.device != failure.device)
        continue;
      ++oom.driver_refusals;
      oom.driver_asked_bytes = refused.event.bytes;
      failures_[shown_.at(&refused)].told_by_arena = true;
      oom.refused_by_run_limit = refused.event.by_run_limit;
      last = &refused;
    }
    if (last == nullptr) return;
    if (!oom.driver_free_bytes && last->event.free_plus_1 > 0)
      oom.driver_free_bytes = last->event.free_plus_1 - 1;
    add_room_left(*last, oom);
  }

  std::vector<Holder> holders_of(const ArenaTable::Failure& failure) {
    std::map<std::string, Holder> rows;
    for (const ArenaTable::Held& held : failure.holders) {
      const ArenaTable::Holder& holder = replay_.arenas().holder(held.holder);
      Holder row = holder.what == ArenaTable::What::kOutside
                       ? by_site_.holder({holder.outside, held.bytes, held.count}, false)
                       : arena_holder_row(replay_, by_site_, holder,
                                          failure.device < 0 ? "host.pooled" : "device.pooled");
      Holder& known = rows[row_key(row)];
      row.bytes = known.bytes + held.bytes;
      row.count = known.count + held.count;
      known = std::move(row);
    }
    std::vector<Holder> holders = largest_first(std::move(rows));
    if (holders.size() > top_) holders.resize(top_);
    return holders;
  }

  const Replay& replay_;
  const Definitions& definitions_;
  Attribution& by_site_;
  const std::vector<GrowthSummary>& growth_;
  const size_t top_;
  std::vector<OutOfMemory> failures_;
  std::map<const FailedAllocation*, size_t> shown_;  // index into failures_
};

}  // namespace

std::vector<OutOfMemory> summarize_failures(const Replay& replay, Attribution& by_site,
                                            const std::vector<GrowthSummary>& growth, size_t top) {
  return Failures(replay, by_site, growth, top).list();
}

}  // namespace gpupeak::collector
