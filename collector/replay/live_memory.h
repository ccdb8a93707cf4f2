// All live memory, by who holds it. The parts of the replay (heap, device, mappings) count blocks
// in and out here and nowhere else, so that an observer is told of every change.
//
// in    "group 7 got a block of 100 bytes"
// out   PeakFinder counts it for each scope of the group; the observer, if there is one, is told
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "collector/replay/peak_finder.h"
#include "collector/replay/phase_tree.h"
#include "collector/replay/replay_observer.h"
#include "collector/replay/site_table.h"

namespace gpupeak::collector {

class LiveMemory {
 public:
  /// `integrated`: devices whose memory is the host's, a bit each.
  LiveMemory(ReplayObserver* observer, uint32_t integrated);
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  /// Heap blocks.
  void count_in(const PeakFinder::NewBlock& block, uint64_t ticks) {
    const GroupId group = peaks_.add(block, ticks);
    if (observer_ != nullptr) [[unlikely]]
      tell({group, static_cast<int64_t>(block.bytes), +1, true});
  }
  /// `temporary`: the block was temporary.
  void count_out(const PeakFinder::OldBlock& block, bool temporary = false) {
    const GroupId group = peaks_.remove(block, temporary);
    if (observer_ != nullptr) [[unlikely]]
      tell({group, -static_cast<int64_t>(block.bytes), -1, false});
  }
  void replace(const PeakFinder::OldBlock& old_block, const PeakFinder::NewBlock& new_block,
               uint64_t ticks) {
    const auto [old_group, new_group] = peaks_.replace(old_block, new_block, ticks);
    if (observer_ == nullptr) [[likely]]
      return;
    const std::array<PeakFinder::Change, 2> step{
        {{old_group, -static_cast<int64_t>(old_block.bytes), -1, false},
         {new_group, static_cast<int64_t>(new_block.bytes), +1, true}}};
    observer_->on_step(step);
  }
  /// True if there is an observer, since it is told of groups. Groups are then found on this
  /// thread, so it must fetch their lines.
  bool finds_groups_at_once() const { return peaks_.finds_groups_at_once(); }
  void prefetch(const Site& site, BlockNumber block) const {
    peaks_.sites().prefetch(site);
    peaks_.sites().prefetch(block);
  }
  // Other memory.
  void count_in(GroupId group, uint64_t bytes, uint64_t ticks) {
    peaks_.add(group, bytes, ticks);
    if (observer_ != nullptr) tell({group, static_cast<int64_t>(bytes), +1, true});
  }
  void count_out(GroupId group, uint64_t bytes) {
    peaks_.remove(group, bytes);
    if (observer_ != nullptr) tell({group, -static_cast<int64_t>(bytes), -1, false});
  }
  /// Applies all parts of `step` at once.
  void apply(std::span<const PeakFinder::Change> step, uint64_t ticks) {
    peaks_.apply(step, ticks);
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_step(step);
  }
  void finish() { peaks_.finish(); }

  PeakFinder& peaks() { return peaks_; }
  const PeakFinder& peaks() const { return peaks_; }
  SiteTable& sites() { return sites_; }
  const SiteTable& sites() const { return sites_; }

  uint64_t device_bytes() const { return peaks_.scope(device_scope_).current; }
  uint64_t host_bytes() const { return peaks_.scope(host_scope_).current; }
  uint64_t bytes_of(int32_t device, uint8_t kind) const;
  uint64_t host_bytes_of(uint8_t kind) const;
  /// When the device's sum was at its peak so far.
  uint64_t peak_ticks_of(int32_t device) const;
  /// The figures for a border of phases. The maximum since the last border begins anew.
  PhaseMoment moment(uint64_t ticks);

 private:
  void tell(const PeakFinder::Change& change) { observer_->on_step({&change, 1}); }

  ReplayObserver* const observer_;
  PeakFinder peaks_;
  SiteTable sites_;
  const ScopeId device_scope_, host_scope_;
};

}  // namespace gpupeak::collector
