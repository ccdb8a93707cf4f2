// Open phases as slices that nest, which is all that trace viewers know: one that ends below others
// has these end and begin again.
//
//   phases   |== load ======|              slices   |== load ======|
//               |= copy =======|                       |= copy ====|= copy =|
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

class PhaseSlices : public ReplayObserver {
 protected:
  static constexpr uint32_t kProcessTrack = 0;

  /// `track`: a thread's id, or kProcessTrack.
  virtual void on_slice_begin(uint32_t track, std::string_view name, uint64_t ticks) = 0;
  virtual void on_slice_end(uint32_t track, uint64_t ticks) = 0;

 private:
  void on_phase_begin(PhaseTrack track, const PhaseLabel& label, uint64_t ticks) final;
  void on_phase_end(PhaseTrack track, size_t depth, uint64_t ticks) final;
  std::vector<std::string>& open(PhaseTrack track) {
    return track.of_process ? of_process_ : of_slots_[track.slot];
  }

  std::vector<std::string> of_process_;  // names, the innermost last
  std::unordered_map<uint32_t, std::vector<std::string>> of_slots_;
};

}  // namespace gpupeak::collector
