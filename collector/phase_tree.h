// The phases of a run, and for each the bytes at its borders and the peak within, on the device
// side and on the host side. Phases of the process (start, main, exit) are the base; every thread
// has a stack of its own on top. Replay drives it, the summary reads it.
//
// A phase opened again under the same parent is the same phase: it is counted, its time runs from
// the first begin to the last end, its peak is the largest of all. Ranges are phases that overlap
// freely and that any thread may end: they hang below the process's phase and own no allocations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

using PhaseId = uint32_t;  ///< index into PhaseTree::phases(); 0: outside of all phases

enum PhaseSide : uint8_t { kDeviceSide = 0, kHostSide = 1 };
inline constexpr size_t kPhaseSides = 2;

/// What the sums say when a phase begins or ends, device side and host side.
struct PhaseGauges {
  std::array<uint64_t, kPhaseSides> now{};
  std::array<uint64_t, kPhaseSides> max{};  ///< since the border before
};

struct Phase {
  PhaseId parent = 0;
  uint32_t name = 0;  ///< string of the log
  uint8_t source = 0;
  uint64_t instance = 0;  ///< session, domain …
  uint64_t count = 0;
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint32_t open = 0;  ///< how often it is open now; not 0 in the end: the log ended inside it
  std::array<uint64_t, kPhaseSides> start_bytes{}, peak_bytes{}, end_bytes{};
};

class PhaseTree {
 public:
  PhaseTree() : phases_(1) {}

  /// Thread phases are told apart by the writer's slot.
  PhaseId push(bool of_process, uint32_t slot, uint8_t source, uint32_t name, uint64_t ticks,
               const PhaseGauges& gauges, uint64_t instance = 0);
  /// Closes the innermost open phase with this source and instance. If there is none and the source
  /// is AUTO, the innermost of all: so older logs mean it.
  /// A pop without a push changes nothing but unbalanced_pops().
  void pop(bool of_process, uint32_t slot, uint64_t ticks, const PhaseGauges& gauges,
           uint8_t source = GPUPEAK_PHASE_AUTO, uint64_t instance = 0);
  PhaseId begin_range(uint64_t range, uint8_t source, uint32_t name, uint64_t ticks,
                      const PhaseGauges& gauges, uint64_t instance = 0);
  void end_range(uint64_t range, uint64_t ticks, const PhaseGauges& gauges);
  /// The thread of this slot has ended: so have its phases.
  void end_thread(uint32_t slot, uint64_t ticks, const PhaseGauges& gauges);
  /// After the last event.
  void finish(const PhaseGauges& gauges);

  /// The phase that an allocation made now by this slot's thread belongs to.
  PhaseId innermost(uint32_t slot) const;
  const std::vector<Phase>& phases() const { return phases_; }
  uint64_t unbalanced_pops() const { return unbalanced_pops_; }

 private:
  struct Open {
    PhaseId phase;
    std::array<uint64_t, kPhaseSides> peak_bytes;
    uint64_t range = 0;  ///< of ranges_ only
  };
  using Stack = std::vector<Open>;

  void border(const PhaseGauges& gauges);
  PhaseId open(Stack& stack, PhaseId parent, uint8_t source, uint32_t name, uint64_t instance,
               uint64_t ticks, const PhaseGauges& gauges, uint64_t range = 0);
  void close(Stack& stack, size_t at, uint64_t ticks, const PhaseGauges& gauges, bool ended);
  void close_all(Stack& stack, uint64_t ticks, const PhaseGauges& gauges, bool ended);

  std::vector<Phase> phases_;
  std::map<std::tuple<PhaseId, uint32_t, uint8_t, uint64_t>, PhaseId> ids_;
  Stack process_;
  Stack ranges_;                       // in the order in which they began
  std::map<uint32_t, Stack> threads_;  // those with open phases
  uint64_t unbalanced_pops_ = 0;
};

}  // namespace gpupeak::collector
