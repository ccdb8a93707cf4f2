#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/log/kinds.h"
#include "collector/replay/phase_tree.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kKeptApart = 64;
constexpr uint32_t kNoParent = ListedPhase::kNoParent;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The name with "…" for each number.
std::string without_numbers(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) {
      out += name[i];
    } else if (i == 0 || !is_digit(name[i - 1])) {
      out += "…";
    }
  }
  return out;
}

/// The name that phases of one row share. The program's own names and a model's nodes are not
/// changed: the user chose them.
std::string pattern_of(const PhaseSummary& phase) {
  return phase.source == "api" || phase.source == "node" ? phase.name : without_numbers(phase.name);
}

/// Joins the metrics of two phases: by sum, by the larger one, or by the later one.
void join_metrics(Metrics& to, const Metrics& from) {
  for (const auto& [name, value] : from) {
    std::optional<uint64_t>& both = to[name];
    if (name.ends_with(".start_bytes") || !value) continue;  // the first phase's stays
    if (!both || name.ends_with(".end_bytes")) {
      both = value;
    } else {
      both = name.ends_with(".peak_bytes") ? std::max(*both, *value) : *both + *value;
    }
  }
}

void join_sides(PhaseInstanceSide& to, const PhaseInstanceSide& from) {
  to.peak_bytes = std::max(to.peak_bytes, from.peak_bytes);
  to.end_bytes = from.end_bytes;
  if (from.kept_bytes) to.kept_bytes = wrapping_sum(to.kept_bytes.value_or(0), *from.kept_bytes);
  if (from.alloc_count) to.alloc_count = to.alloc_count.value_or(0) + *from.alloc_count;
}

/// Joins the instances of two phases into one row.
void join_instances(PhaseInstances& to, const PhaseInstances& from) {
  to.count += from.count;
  to.last = to.first + to.count - 1;
  if (to.end_ns) to.end_ns = from.end_ns ? std::max(*to.end_ns, *from.end_ns) : from.end_ns;
  to.open_ns += from.open_ns;
  to.alike = false;
  join_sides(to.device, from.device);
  if (to.host && from.host) join_sides(*to.host, *from.host);
}

void keep_larger(std::optional<Holder>& to, std::optional<Holder>& from) {
  if (from && (!to || from->bytes > to->bytes)) to = std::move(from);
}

void join(PhaseSummary& to, PhaseSummary& from) {
  to.count += from.count;
  to.calls.reset();
  to.end_ns = to.end_ns && from.end_ns ? std::max(to.end_ns, from.end_ns) : std::nullopt;
  to.open_ns += from.open_ns;
  join_metrics(to.metrics, from.metrics);
  for (const PhaseInstances& more : from.instances) {
    if (to.instances.empty()) {
      to.instances.push_back(more);
    } else {
      join_instances(to.instances.front(), more);
    }
  }
  to.instances.resize(std::min<size_t>(to.instances.size(), 1));
  keep_larger(to.biggest_new_device_site, from.biggest_new_device_site);
  keep_larger(to.biggest_new_host_site, from.biggest_new_host_site);
}

class Folder {
 public:
  explicit Folder(std::vector<ListedPhase> phases)
      : phases_(std::move(phases)), group_of_(phases_.size()) {}

  std::vector<PhaseSummary> fold() {
    int deepest = 0;
    for (const ListedPhase& listed : phases_) deepest = std::max(deepest, listed.phase.depth);
    std::vector<std::vector<uint32_t>> levels(static_cast<size_t>(deepest) + 1);
    for (uint32_t i = 0; i < phases_.size(); ++i)
      levels[static_cast<size_t>(phases_[i].phase.depth)].push_back(i);
    for (const std::vector<uint32_t>& level : levels) fold_level(level);
    return take();
  }

 private:
  /// Where a phase is: under which group, from which source.
  using Place = std::tuple<uint32_t, std::string, uint64_t, uint64_t>;
  struct Group {
    std::string name;
    std::set<std::string> names;
    std::vector<uint32_t> members;
  };

  Place place_of(const ListedPhase& listed) const {
    const uint32_t parent = listed.parent == kNoParent ? kNoParent : group_of_[listed.parent];
    return {parent, listed.phase.source, listed.domain, listed.phase.session};
  }

  void fold_level(const std::vector<uint32_t>& level) {
    std::map<Place, std::map<std::string, std::set<std::string>>> alike;  // by name without numbers
    for (const uint32_t i : level) {
      const PhaseSummary& phase = phases_[i].phase;
      alike[place_of(phases_[i])][pattern_of(phase)].insert(phase.name);
    }
    // By domain: how many rows its phases make, with names that differ only in numbers folded.
    std::map<uint64_t, size_t> rows;
    for (const auto& [place, names] : alike) {
      size_t& count = rows[std::get<2>(place)];
      for (const auto& [text, same] : names) count += same.size() > kKeptApart ? 1 : same.size();
    }
    std::map<std::pair<Place, std::string>, uint32_t> groups;
    for (const uint32_t i : level) {
      const ListedPhase& listed = phases_[i];
      const Place place = place_of(listed);
      std::string name = listed.phase.name;
      std::string less = pattern_of(listed.phase);
      if (alike.at(place).at(less).size() > kKeptApart) name = std::move(less);
      if (listed.domain != 0 && rows.at(listed.domain) > kKeptApart)
        name = name.substr(0, name.find(':')) + ":…";
      const auto next = static_cast<uint32_t>(groups_.size());
      const auto [entry, added] = groups.try_emplace({place, name}, next);
      if (added) groups_.push_back({name, {}, {}});
      group_of_[i] = entry->second;
      groups_[entry->second].names.insert(listed.phase.name);
      groups_[entry->second].members.push_back(i);
    }
  }

  std::vector<PhaseSummary> take() {
    std::vector<PhaseSummary> folded;
    for (uint32_t i = 0; i < phases_.size(); ++i) {
      Group& group = groups_[group_of_[i]];
      if (group.members.front() != i) continue;
      PhaseSummary& all = phases_[i].phase;
      for (size_t k = 1; k < group.members.size(); ++k) join(all, phases_[group.members[k]].phase);
      all.name = group.name;
      all.name_count = group.names.size();
      if (phases_[i].parent != kNoParent) all.parent = groups_[group_of_[phases_[i].parent]].name;
      folded.push_back(std::move(all));
    }
    return folded;
  }

  std::vector<ListedPhase> phases_;
  std::vector<uint32_t> group_of_;
  std::vector<Group> groups_;
};

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

std::vector<PhaseSummary> fold_phase_names(std::vector<ListedPhase> phases) {
  return Folder(std::move(phases)).fold();
}

std::string_view phase_source_name(uint8_t source) {
  constexpr std::string_view kNames[] = {"auto", "api", "nvtx", "ort", "rule", "mark", "pjrt"};
  if (source == kPhaseNode) return "node";
  return source < std::size(kNames) ? kNames[source] : kNames[GPUPEAK_PHASE_API];
}

std::vector<PhaseSummary> summarize_phases(const Replay& replay, const GroupTotals& totals,
                                           Attribution& by_site, const Coverage& coverage,
                                           PhaseListing listing) {
  return PhaseLister(replay, totals, by_site, coverage, listing).list();
}

}  // namespace gpupeak::collector
