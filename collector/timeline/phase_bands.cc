#include "collector/timeline/phase_bands.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxBands = 1000;

bool overlaps(const PhaseBand& a, const PhaseBand& b) {
  return a.begin_ns < b.end_ns && b.begin_ns < a.end_ns;
}

/// The instances of each phase whose instances are all known.
std::vector<std::vector<std::pair<int64_t, int64_t>>> instances_of(const Profile& profile) {
  const PhaseTree& tree = profile.replay().phases();
  std::vector<std::vector<std::pair<int64_t, int64_t>>> of(tree.phases().size());
  for (const PhaseSpan& span : tree.spans()) {
    of[span.phase].emplace_back(profile.to_ns(span.begin_ticks), profile.to_ns(span.end_ticks));
  }
  for (PhaseId id = 0; id < of.size(); ++id) {
    if (of[id].size() != tree.phases()[id].count || of[id].size() == 1) of[id].clear();
    std::sort(of[id].begin(), of[id].end());
  }
  return of;
}

}  // namespace

std::string PhaseBand::label() const {
  return count > 1 ? fmt::format("{} ×{}", name, grouped(count)) : name;
}

std::vector<PhaseBand> phase_bands(const Profile& profile, size_t max_lanes) {
  const std::vector<Phase>& phases = profile.replay().phases().phases();
  const int64_t end_ns = profile.to_ns(profile.replay().last_ticks());
  std::vector<std::vector<std::pair<int64_t, int64_t>>> instances = instances_of(profile);
  std::vector<PhaseBand> bands;
  std::vector<size_t> lanes(phases.size(), 0);  // lane of the phase + 1; 0: it has none
  for (PhaseId id = 1; id < phases.size(); ++id) {
    const Phase& phase = phases[id];
    PhaseBand band;
    band.name = profile.sites().phase_name(id).value_or("");
    band.count = phase.count;
    band.begin_ns = profile.to_ns(phase.begin_ticks);
    band.end_ns = phase.open > 0 ? end_ns : profile.to_ns(phase.end_ticks);
    band.instances = std::move(instances[id]);
    band.lane = lanes[phase.parent];
    const auto taken = [&](const PhaseBand& other) {
      return other.lane == band.lane && overlaps(other, band);
    };
    while (band.lane < max_lanes && std::any_of(bands.begin(), bands.end(), taken)) ++band.lane;
    lanes[id] = band.lane + 1;
    if (band.lane < max_lanes && bands.size() < kMaxBands) bands.push_back(std::move(band));
  }
  std::stable_sort(bands.begin(), bands.end(),
                   [](const PhaseBand& a, const PhaseBand& b) { return a.begin_ns < b.begin_ns; });
  return bands;
}

}  // namespace gpupeak::collector
