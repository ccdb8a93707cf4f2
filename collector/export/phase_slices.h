// Open phases as nested slices, which is all that trace viewers know. If a phase ends while others
// that began later are open, their slices end and begin again.
//
//   phases   |== load ======|              slices   |== load ======|
//               |= copy =======|                       |= copy ====|= copy =|
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

class PhaseSlices : public ReplayObserver {
 protected:
  static constexpr uint32_t kProcessTrack = 0;

  /// `track`: a thread's id, or kProcessTrack.
  virtual void on_slice_begin(uint32_t track, std::string_view name, uint64_t ticks) = 0;
  virtual void on_slice_end(uint32_t track, uint64_t ticks) = 0;

 private:
  /// How many slices may begin again. Their number grows with the square of the phases that
  /// overlap: without a limit the export of a small log could fill a disk.
  static constexpr uint64_t kMostAgain = UINT64_C(1) << 22;

  void on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                      uint64_t ticks) final;
  void on_phase_end(PhaseTrack track, uint64_t number, uint64_t ticks) final;
  std::map<uint64_t, std::string>& open(PhaseTrack track) {
    return track.of_process ? of_process_ : of_slots_[track.slot];
  }

  std::map<uint64_t, std::string> of_process_;  // names by number; the innermost phase is last
  std::unordered_map<uint32_t, std::map<uint64_t, std::string>> of_slots_;
  uint64_t again_ = 0;
};

}  // namespace gpupeak::collector
