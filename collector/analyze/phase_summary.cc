#include "collector/analyze/phase_summary.h"

#include <optional>
#include <utility>

#include "collector/analyze/metrics.h"
#include "collector/analyze/phase_names.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

class PhaseLister {
 public:
  PhaseLister(const Replay& replay, const GroupTotals& totals, Attribution& by_site,
              const Coverage& coverage, PhaseListing listing)
      : replay_(replay),
        totals_(totals),
        by_site_(by_site),
        coverage_(coverage),
        listing_(listing) {}

  std::vector<PhaseSummary> list() {
    const std::vector<Phase>& phases = replay_.phases().phases();
    const std::vector<GroupId> biggest_device = biggest_new_groups(true);
    const std::vector<GroupId> biggest_host = biggest_new_groups(false);
    const auto alloc_counts = phase_alloc_counts(replay_, totals_);
    const auto live = phase_live_bytes(replay_);
    std::vector<int> depths(phases.size());
    // By phase: its place in the list; of one that is not listed, its parent's.
    std::vector<uint32_t> places(phases.size(), ListedPhase::kNoParent);
    std::vector<ListedPhase> listed;
    if (listing_.with_library) listed.reserve(phases.size());
    for (PhaseId id = 1; id < phases.size(); ++id) {
      const Phase& phase = phases[id];
      depths[id] = phase.parent == 0 ? 0 : depths[phase.parent] + 1;
      places[id] = places[phase.parent];
      if (!listing_.with_library && by_site_.is_of_library(id)) continue;
      places[id] = static_cast<uint32_t>(listed.size());
      ListedPhase& entry = listed.emplace_back();
      entry.parent = places[phase.parent];
      if (phase.source == GPUPEAK_PHASE_NVTX) entry.domain = phase.instance;
      PhaseSummary& out = entry.phase;
      out.name = by_site_.phase_name(id).value_or("");
      out.source = phase_source_name(phase.source);
      out.of_library = by_site_.is_of_library(id);
      out.parent = by_site_.phase_name(phase.parent);
      out.depth = depths[id];
      out.count = phase.count;
      if (phase.source == GPUPEAK_PHASE_ORT || phase.source == kPhaseNode)
        out.session = phase.instance;
      out.begin_ns = replay_.log().clock().to_ns(phase.begin_ticks);
      const bool ended_with_process = phase.open > 0 && replay_.log().counters().ended != 0;
      if (phase.open == 0) {
        out.end_ns = replay_.log().clock().to_ns(phase.end_ticks);
      } else if (ended_with_process) {
        out.end_ns = listing_.run_duration_ns;
      }
      out.open_ns = duration_ns(phase.open_ticks);
      out.metrics = phase_metrics(phase, alloc_counts[id], live[id],
                                  replay_.phases().kept_is_known(), covers_host(phase));
      out.instances = instances(phase);
      if (phase.by_call) out.calls = calls(phase);
      out.biggest_new_device_site = biggest_new_site(biggest_device[id]);
      if (coverage_.host() && listing_.with_host_sites)
        out.biggest_new_host_site = biggest_new_site(biggest_host[id]);
    }
    return fold_phase_names(std::move(listed));
  }

 private:
  /// For each phase: the group of its allocations that held most at once.
  std::vector<GroupId> biggest_new_groups(bool device_side) const {
    std::vector<GroupId> biggest(replay_.phases().phases().size(), kNoGroup);
    std::vector<uint64_t> most_bytes(biggest.size());
    for (ContextId id{}; id < totals_.contexts.size(); ++id) {
      const SiteContext& context = replay_.sites().contexts()[id];
      const GroupTotals::OfContext& of = totals_.contexts[id];
      const bool of_side = is_device_kind(context.kind) == device_side;
      if (!of_side || !counts_into_sum(context.kind) || of.biggest == kNoGroup) continue;
      GroupId& most = biggest[context.phase];
      uint64_t& most_held = most_bytes[context.phase];
      const bool is_earlier = of.biggest_bytes == most_held && of.biggest < most;
      if (of.biggest_bytes <= most_held && !is_earlier) continue;
      most = of.biggest;
      most_held = of.biggest_bytes;
    }
    return biggest;
  }

  /// Whether the host's figures of a phase are known. A window is a range of ours in which the heap
  /// was recorded, whatever was before.
  bool covers_host(const Phase& phase) const {
    const bool is_window =
        coverage_.windows && phase.is_range && phase.source == GPUPEAK_PHASE_AUTO;
    return coverage_.host() || is_window;
  }

  std::optional<Holder> biggest_new_site(GroupId biggest) {
    if (biggest == kNoGroup) return std::nullopt;
    const PeakFinder::Group& group = replay_.peaks().group(biggest);
    return by_site_.holder({biggest, group.max_live_bytes, group.alloc_count}, false);
  }

  int64_t duration_ns(uint64_t ticks) const {
    return replay_.log().clock().to_ns(replay_.log().header().start_ticks + ticks);
  }

  /// The figures of a phase's calls. The call in which the process ended has ended with it.
  PhaseCalls calls(const Phase& phase) const {
    const bool last_ended = phase.open == 1 && replay_.log().counters().ended != 0;
    const uint64_t ended = phase.ended_calls + (last_ended ? 1 : 0);
    const auto side = [&](PhaseSide index) {
      CallFigures from = phase.calls[index];
      if (last_ended && phase.ended_calls > 0)
        from.add_growth(phase.ended_bytes[index], phase.end_bytes[index], phase.ended_calls == 1);
      PhaseCallsSide to{from.grown_bytes, {}, {}, from.largest, from.largest_rise,
                        from.largest_peak};
      if (ended > 1) {
        to.least_growth = from.least_growth;
        to.most_growth = from.most_growth;
      }
      return to;
    };
    PhaseCalls found{ended, side(kDeviceSide), {}};
    if (covers_host(phase)) found.host = side(kHostSide);
    return found;
  }

  std::vector<PhaseInstances> instances(const Phase& phase) const {
    std::vector<PhaseInstances> found;
    for (const FoldRow& row : phase.instances.rows()) {
      PhaseInstances& out = found.emplace_back();
      out.first = row.first;
      out.last = row.last;
      out.count = row.count;
      out.begin_ns = replay_.log().clock().to_ns(row.begin_ticks);
      out.open_ns = duration_ns(row.open_ticks);
      const bool ended = !row.open || replay_.log().counters().ended != 0;
      if (ended) out.end_ns = replay_.log().clock().to_ns(row.end_ticks);
      out.alike = row.is_alike();
      const auto side = [&](PhaseSide index) -> PhaseInstanceSide {
        const FoldSide& from = row.sides[index];
        PhaseInstanceSide to{from.start_bytes, from.peak_bytes, from.end_bytes, {}, {}};
        if (phase.is_range) return to;
        to.alloc_count = from.alloc_count;
        if (replay_.phases().kept_is_known()) to.kept_bytes = from.kept_bytes;
        return to;
      };
      out.device = side(kDeviceSide);
      if (covers_host(phase)) out.host = side(kHostSide);
    }
    return found;
  }

  const Replay& replay_;
  const GroupTotals& totals_;
  Attribution& by_site_;
  const Coverage& coverage_;
  const PhaseListing listing_;
};

}  // namespace

std::string_view phase_source_name(uint8_t source) {
  switch (source) {
    case GPUPEAK_PHASE_AUTO:
      return "auto";
    case GPUPEAK_PHASE_NVTX:
      return "nvtx";
    case GPUPEAK_PHASE_ORT:
      return "ort";
    case GPUPEAK_PHASE_RULE:
      return "rule";
    case GPUPEAK_PHASE_MARK:
      return "mark";
    case GPUPEAK_PHASE_PJRT:
      return "pjrt";
    case kPhaseNode:
      return "node";
    default:
      return "api";
  }
}

std::vector<PhaseSummary> summarize_phases(const Replay& replay, const GroupTotals& totals,
                                           Attribution& by_site, const Coverage& coverage,
                                           PhaseListing listing) {
  return PhaseLister(replay, totals, by_site, coverage, listing).list();
}

}  // namespace gpupeak::collector
