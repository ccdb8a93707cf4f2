#include "collector/export/phase_slices.h"

namespace gpupeak::collector {

void PhaseSlices::on_phase_begin(PhaseTrack track, const PhaseLabel& label, uint64_t ticks) {
  const std::string& name = open(track).emplace_back(phase_text(replay(), label));
  on_slice_begin(replay().thread_of(track), name, ticks);
}

void PhaseSlices::on_phase_end(PhaseTrack track, size_t depth, uint64_t ticks) {
  std::vector<std::string>& names = open(track);
  const uint32_t thread = replay().thread_of(track);
  for (size_t i = depth; i < names.size(); ++i) on_slice_end(thread, ticks);
  names.erase(names.begin() + static_cast<std::ptrdiff_t>(depth));
  for (size_t i = depth; i < names.size(); ++i) on_slice_begin(thread, names[i], ticks);
}

}  // namespace gpupeak::collector
