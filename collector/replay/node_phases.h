// Phases of ONNX Runtime's nodes. No event of the log has them: they are in a profile with times of
// its own, so they begin and end between events. A node has a phase only while its session runs.
// The phase is in the node's thread; if that thread is the one that runs the session, below that
// run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collector/log/ort_profile.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/name_table.h"
#include "collector/replay/phase_tree.h"

namespace gpupeak::collector {

class NodePhases {
 public:
  NodePhases(const LogReader& log, NameTable& names);

  /// When the next node begins or ends.
  uint64_t next_ticks() const { return next_ticks_; }
  /// Begins and ends all nodes up to `ticks`. `slot_of`: the slot that a thread has now, or
  /// kNoSlot.
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  void pass(uint64_t ticks, const std::function<uint32_t(uint32_t tid)>& slot_of, LiveMemory& live,
            PhaseTree& phases);

  /// What is missing, and why. Call it after the last event.
  std::vector<std::string> problems() const;

 private:
  struct Border {
    uint64_t ticks;
    uint32_t span;
    bool is_end;
  };

  bool runs(const PhaseTree& phases, uint32_t slot, uint64_t session);

  NodeProfiles profiles_;
  const NameTable& names_;
  std::vector<Border> borders_;     // in the order of time
  std::vector<uint32_t> name_ids_;  // of profiles_.names
  std::vector<uint32_t> slots_;     // by span: the slot that has its phase
  std::vector<PhaseId> runs_;       // the phases `run` of all sessions
  // The next of borders_; phases that were looked through for runs_.
  size_t next_ = 0, seen_phases_ = 0;
  uint64_t next_ticks_ = UINT64_MAX;
  uint64_t misplaced_ = 0;
};

}  // namespace gpupeak::collector
