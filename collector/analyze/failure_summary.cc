#include "collector/analyze/failure_summary.h"

#include <fmt/format.h>

#include "collector/analyze/ledger_summary.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

void add_room_left(const FailedAllocation& failure, OutOfMemory& oom) {
  constexpr uint64_t kPage = 2 << 20;
  const auto beyond = [](uint64_t a, uint64_t b) { return a > b ? a - b : 0; };
  const TrackedBytes& tracked = failure.tracked;
  oom.pool_slack_bytes = beyond(tracked.pool_reserved, tracked.pool_used);
  oom.page_slack_bytes = beyond(failure.linear_page_bytes, tracked.linear);
  oom.unmapped_address_bytes = beyond(failure.reserved_addresses, tracked.vmm);
  if (oom.driver_free_bytes) oom.largest_fit_bytes = *oom.driver_free_bytes / kPage * kPage;
}

}  // namespace

std::vector<OutOfMemory> summarize_failures(const Replay& replay, Attribution& by_site,
                                            size_t top) {
  const LogReader& log = replay.log();
  const Definitions& definitions = log.definitions();
  const TicksToNs to_ns = [&](uint64_t ticks) { return log.clock().to_ns(ticks); };
  std::vector<OutOfMemory> failures;
  for (const FailedAllocation& failure : replay.device().failures()) {
    OutOfMemory& oom = failures.emplace_back();
    oom.time_ns = log.clock().to_ns(failure.ticks);
    oom.api = definitions.shown_string(failure.event.api);
    if (failure.event.device >= 0) oom.device = failure.event.device;
    oom.requested_bytes = failure.event.bytes;
    const std::string_view result = cuda_result_name(failure.event.result);
    oom.result = result.empty() ? fmt::format("CUresult {}", failure.event.result) : result;
    oom.live_bytes = failure.event.live;
    if (failure.event.free_plus_1 > 0) oom.driver_free_bytes = failure.event.free_plus_1 - 1;
    if (failure.event.total_plus_1 > 0) oom.driver_total_bytes = failure.event.total_plus_1 - 1;
    add_room_left(failure, oom);
    if (failure.ledger) oom.ledger = ledger_view(*failure.ledger, to_ns);
    oom.phase = by_site.phase_name(failure.phase);
    const bool defined = failure.event.stack < definitions.nodes().size();
    oom.title = by_site.site_title(defined ? failure.event.stack : 0);
    std::vector<Contribution> held;
    for (const auto& holder : failure.holders)
      held.push_back({holder.group, holder.bytes, holder.count});
    oom.holders = by_site.table(held, top, false).rows;
  }
  return failures;
}

}  // namespace gpupeak::collector
