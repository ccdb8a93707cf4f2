#include "collector/phase_bands.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxBands = 1000;

bool overlaps(const PhaseBand& a, const PhaseBand& b) {
  return a.begin_ns < b.end_ns && b.begin_ns < a.end_ns;
}

}  // namespace

std::vector<PhaseBand> phase_bands(const Profile& profile, size_t max_lanes) {
  const std::vector<Phase>& phases = profile.replay().phases().phases();
  const int64_t end_ns = profile.to_ns(profile.replay().last_ticks());
  std::vector<PhaseBand> bands;
  std::vector<size_t> lanes(phases.size(), 0);  // one beyond that of the phase; 0: outside
  for (PhaseId id = 1; id < phases.size(); ++id) {
    const Phase& phase = phases[id];
    PhaseBand band;
    band.name = profile.sites().phase_name(id).value_or("");
    if (phase.count > 1) band.name += fmt::format(" ×{}", grouped(phase.count));
    band.begin_ns = profile.to_ns(phase.begin_ticks);
    band.end_ns = phase.open > 0 ? end_ns : profile.to_ns(phase.end_ticks);
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
