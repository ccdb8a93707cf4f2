#include "collector/export/phase_slices.h"

#include <iterator>

#include "collector/text/error.h"

namespace gpupeak::collector {

void PhaseSlices::on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                                 uint64_t ticks) {
  const std::string& name = open(track).emplace(number, phase_text(replay(), label)).first->second;
  on_slice_begin(replay().thread_of(track), name, ticks);
}

void PhaseSlices::on_phase_end(PhaseTrack track, uint64_t number, uint64_t ticks) {
  std::map<uint64_t, std::string>& names = open(track);
  const auto ended = names.find(number);
  if (ended == names.end()) return;
  const uint32_t thread = replay().thread_of(track);
  for (auto above = ended; above != names.end(); ++above) on_slice_end(thread, ticks);
  for (auto above = names.erase(ended); above != names.end(); ++above) {
    if (++again_ > kMostAgain)
      throw LogError("too many phases end below others, as slices of a trace cannot", 0);
    on_slice_begin(thread, above->second, ticks);
  }
}

}  // namespace gpupeak::collector
