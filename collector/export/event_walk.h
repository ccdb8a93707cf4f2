// The base of exports that need a log's events in their order. Profile has replayed the log once,
// so that peaks and stacks are known; a walk replays it again and tells a derived class what
// happens as it happens, so that it can write as it goes: no event is kept.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

/// A change of live memory: what changes, where it was allocated and under which circumstances.
struct LiveChange {
  int64_t bytes;
  int32_t blocks;  ///< +1 or -1
  uint32_t stack;
  const SiteContext& context;
};

/// A block that the driver handed out: of device memory, or pinned.
struct DriverBlock {
  DeviceAllocEvent alloc;
  uint64_t ticks;  ///< of its allocation
  uint32_t tid;
};

class EventWalk : private StepObserver {
 public:
  explicit EventWalk(Profile& profile);
  void walk(const Progress& progress);

  // EventStream's visitor.
  void prefetch(const Event& event) const { replay_.prefetch(event); }
  void prefetch_next(const Event& event) const { replay_.prefetch_next(event); }
  void on_event(const Event& event);

 protected:
  static constexpr uint32_t kProcessTrack = 0;

  Profile& profile() { return profile_; }
  const Profile& profile() const { return profile_; }
  /// Of the event under way.
  uint64_t ticks() const { return ticks_; }
  int64_t now_ns() const { return profile_.to_ns(ticks_); }
  /// A sum as it is now. Scopes have the same ids as in the profile; those of kinds not yet seen
  /// are missing.
  uint64_t current(ScopeId scope) const {
    return scope < replay_.sites().scopes().size() ? replay_.peaks().scope(scope).current : 0;
  }

  /// Live memory changes. The parts of one step come in the order in which they were made: pieces
  /// that a split makes before what becomes of them, and never more at once than before or after.
  virtual void on_change(const LiveChange& /*change*/) {}
  virtual void on_driver_alloc(const DriverBlock& /*block*/) {}
  virtual void on_driver_free(const DriverBlock& /*block*/) {}
  /// Phases nest within their track: a thread id, or kProcessTrack. One that ends below others ends
  /// them too, and they begin again.
  virtual void on_phase_begin(uint32_t /*track*/, std::string_view /*name*/) {}
  virtual void on_phase_end(uint32_t /*track*/) {}
  /// Ranges overlap freely.
  virtual void on_range_begin(uint64_t /*id*/, std::string_view /*name*/) {}
  virtual void on_range_end(uint64_t /*id*/, std::string_view /*name*/) {}
  virtual void on_sample(const SampleEvent& /*sample*/) {}
  /// After what the event changed was told.
  virtual void after_event() {}

 private:
  struct OpenPhase {
    uint8_t source;
    uint64_t instance;
    std::string name;
  };
  using Phases = std::vector<OpenPhase>;

  void on_step(std::span<const PeakFinder::Change> step) final;
  void driver_alloc(const DeviceAllocEvent& alloc, const Event& event);
  void driver_free(const DeviceFreeEvent& free, const Event& event);
  void driver_revive(const DeviceReviveEvent& revive, const Event& event);
  void push_phase(const PhaseEvent& phase, const Event& event);
  void pop_phase(const PhaseEvent& phase, const Event& event);
  void change_rule_phase(const Event& event, bool rested);
  void end_rule_phase(uint32_t slot, bool rested);
  void close_phases(uint32_t track, Phases& open);
  std::string name_of(const PhaseEvent& phase) const;

  Profile& profile_;
  Replay replay_;
  uint64_t ticks_ = 0;
  std::unordered_map<uint64_t, DriverBlock> blocks_;
  std::vector<std::vector<DriverBlock>> just_freed_;  // by slot: what a failed free brings back
  std::vector<uint32_t> tids_;                        // by slot
  std::vector<Phases> thread_phases_;                 // by slot
  std::vector<PhaseId> rule_phases_;                  // by slot; 0: none
  std::vector<uint64_t> last_ticks_;                  // by slot: of its last event, with rules
  uint32_t active_slot_ = UINT32_MAX;                 // whose event was the last, with rules
  Phases process_phases_;
  std::map<uint64_t, std::string> ranges_;
};

}  // namespace gpupeak::collector
