// All live memory, by who holds it. The parts of the replay (heap, device, mappings) count blocks
// in and out here and nowhere else, so that an observer is told of every change.
//
// in    "group 7 got a block of 100 bytes"
// out   PeakFinder counts it for each scope of the group; the observer, if there is one, is told
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/log/kinds.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/phase_tree.h"
#include "collector/replay/replay_observer.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {

// The groups by which holders are told apart while a log is replayed. A group is a stack together
// with a context: kind, device, phase, thread, API, tag. attribution.h later adds groups up as the
// user asks.
//
//   stack 7, heap, phase "load"          group 0   scopes: host/heap, host, total
//   stack 9, linear on GPU 0, "load"     group 1   scopes: device:0/linear, device:0, device, total
//   stack 7, heap, phase "train"         group 2   scopes: host/heap, host, total

/// All that a group is but its stack.
struct SiteContext {
  uint8_t kind = 0;
  int32_t device = -1;  ///< ordinal; -1: host or unknown
  PhaseId phase = 0;
  uint32_t tid = 0;
  uint32_t api = 0;  ///< string of the log; 0: none
  uint32_t tag = 0;  ///< Replay::name() of what the program says that it is for; 0: it says nothing
  /// Its blocks are a Poisson sample with this mean, which stands for all blocks; 0: they are all
  /// blocks.
  uint64_t sample_bytes = 0;
  auto operator<=>(const SiteContext&) const = default;
};

/// A sum that has a peak. The names are those of the summary's "scope" field.
struct ScopeInfo {
  std::string name;
  int32_t device = -1;  ///< -1: all devices, or the host
  uint8_t kind = 0;     ///< 0: all kinds that count
  /// A bit for each device whose managed memory counts, too: its memory is the host's.
  uint32_t integrated = 0;
};

/// Whether blocks of this kind and device are part of the sum.
inline bool counts_into(const SiteContext& context, const ScopeInfo& scope) {
  if (scope.device >= 0 && scope.device != context.device) return false;
  if (scope.kind != 0) return scope.kind == context.kind;
  if (context.kind == GPUPEAK_KIND_MANAGED && context.device >= 0)
    return (scope.integrated >> context.device & 1) != 0;
  const bool side =
      scope.name == "total" || scope.name.starts_with("device") == is_device_kind(context.kind);
  return side && counts_into_sum(context.kind);
}

class SiteTable {
 public:
  /// `integrated`: devices whose memory is the host's, a bit each.
  SiteTable(PeakFinder& peaks, uint32_t integrated) : peaks_(peaks), integrated_(integrated) {}

  ContextId context(const SiteContext& context) {
    const auto [entry, added] =
        context_ids_.try_emplace(context, static_cast<ContextId>(contexts_.size()));
    if (added) {
      contexts_.push_back(context);
      countings_.push_back(counting(context));
      peaks_.add_context(countings_.back());
    }
    return entry->second;
  }
  /// How the groups of a context are counted.
  PeakFinder::Counting counting_of(ContextId context) const { return countings_[context]; }
  /// The group of memory that is no heap block. PeakFinder finds the groups of heap blocks itself.
  GroupId group(const Site& site) {
    const uint64_t key = uint64_t{site.context} << 32 | site.stack;
    const auto [entry, added] = groups_.try_emplace(key, kNoGroup);
    if (added) entry->second = peaks_.group_of(site, countings_[site.context]);
    return entry->second;
  }

  const Site& info(GroupId group) const { return peaks_.sites().site(group); }
  const SiteContext& context_of(GroupId group) const { return contexts_[info(group).context]; }
  size_t group_count() const { return peaks_.sites().size(); }
  /// By ContextId.
  const std::vector<SiteContext>& contexts() const { return contexts_; }
  bool is_integrated(int32_t device) const {
    return device >= 0 && (integrated_ >> device & 1) != 0;
  }
  const std::vector<ScopeInfo>& scopes() const { return scopes_; }
  /// The scope with this name, or nullptr if nothing was ever counted into it.
  const ScopeId* find_scope(const std::string& name) const { return value_in(scope_ids_, name); }
  /// The scopes that a block of this kind counts into.
  std::vector<ScopeId> scopes_for(uint8_t kind, int32_t device) {
    const bool of_device = is_device_kind(kind);
    const std::string_view name = kind_name(kind);
    std::vector<ScopeId> scopes;
    const auto add = [&](const ScopeKey& key, int32_t ordinal, uint8_t of_kind) {
      scopes.push_back(scope(key.text(), ordinal, of_kind));
    };
    if (counts_into_sum(kind)) {
      add(ScopeKey::total(), -1, 0);
      add(of_device ? ScopeKey::devices() : ScopeKey::host(), -1, 0);
    }
    if (kind == GPUPEAK_KIND_MANAGED && is_integrated(device)) add(ScopeKey::total(), -1, 0);
    add(of_device ? ScopeKey::devices(name) : ScopeKey::host(name), -1, kind);
    if (of_device && device >= 0) {
      if (counts_into_sum(kind)) add(ScopeKey::device(device), device, 0);
      add(ScopeKey::device(device, name), device, kind);
    }
    return scopes;
  }

 private:
  ScopeId scope(const std::string& name, int32_t device, uint8_t kind) {
    const auto [entry, added] = scope_ids_.try_emplace(name, ScopeId{0});
    if (added) {
      entry->second = peaks_.add_scope();
      scopes_.push_back({name, device, kind, name == "total" ? integrated_ : 0});
    }
    return entry->second;
  }

  PeakFinder& peaks_;
  const uint32_t integrated_;
  PeakFinder::Counting counting(const SiteContext& context) {
    size_t side = is_device_kind(context.kind) ? size_t{kDeviceSide} : size_t{kHostSide};
    if (!counts_into_sum(context.kind)) side = kPhaseSides;
    return {peaks_.scope_list(scopes_for(context.kind, context.device)),
            owner_of(context.phase, side)};
  }

  // Groups that were asked for before. Asking PeakFinder takes long, since it counts all notes
  // first.
  std::unordered_map<uint64_t, GroupId> groups_;
  std::vector<SiteContext> contexts_;
  std::vector<PeakFinder::Counting> countings_;  // by context
  std::map<SiteContext, ContextId> context_ids_;
  std::vector<ScopeInfo> scopes_;  // by ScopeId
  std::map<std::string, ScopeId> scope_ids_;
};

class LiveMemory {
 public:
  /// `integrated`: devices whose memory is the host's, a bit each.
  LiveMemory(ReplayObserver* observer, uint32_t integrated)
      : observer_(observer),
        sites_(peaks_, integrated),
        device_scope_(sites_.scopes_for(GPUPEAK_KIND_LINEAR, -1)[1]),
        host_scope_(sites_.scopes_for(GPUPEAK_KIND_HEAP, -1)[1]) {
    if (observer != nullptr) peaks_.find_groups_at_once();
  }
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  /// Heap blocks.
  void count_in(const PeakFinder::NewBlock& block, uint64_t ticks) {
    const GroupId group = peaks_.add(block, ticks);
    if (observer_ != nullptr) [[unlikely]]
      tell({group, static_cast<int64_t>(block.bytes), +1, true, block.number});
  }
  /// `temporary`: the block was temporary.
  void count_out(const PeakFinder::OldBlock& block, bool temporary = false) {
    const GroupId group = peaks_.remove(block, temporary);
    if (observer_ != nullptr) [[unlikely]]
      tell({group, -static_cast<int64_t>(block.bytes), -1, false, block.number});
  }
  void replace(const PeakFinder::OldBlock& old_block, const PeakFinder::NewBlock& new_block,
               uint64_t ticks) {
    const auto [old_group, new_group] = peaks_.replace(old_block, new_block, ticks);
    if (observer_ == nullptr) [[likely]]
      return;
    const std::array<PeakFinder::Change, 2> step{
        {{old_group, -static_cast<int64_t>(old_block.bytes), -1, false, old_block.number},
         {new_group, static_cast<int64_t>(new_block.bytes), +1, true, new_block.number}}};
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

  /// The sum with this name; an empty one if nothing was ever counted into it.
  const PeakFinder::Scope& sum(const std::string& scope) const {
    static const PeakFinder::Scope kNothing;
    const ScopeId* const id = sites_.find_scope(scope);
    return id != nullptr ? peaks_.scope(*id) : kNothing;
  }
  uint64_t device_bytes() const { return peaks_.scope(device_scope_).current; }
  uint64_t host_bytes() const { return peaks_.scope(host_scope_).current; }
  uint64_t bytes_of(int32_t device, uint8_t kind) const {
    if (device < 0) return 0;  // nothing is counted for an unknown device
    return sum(ScopeKey::device(device, kind_name(kind)).text()).current;
  }
  uint64_t host_bytes_of(uint8_t kind) const {
    return sum("host/" + std::string(kind_name(kind))).current;
  }
  /// When the device's sum was at its peak so far.
  uint64_t peak_ticks_of(int32_t device) const {
    return device < 0 ? 0 : sum(ScopeKey::device(device).text()).peak_ticks;
  }
  /// The figures for a border of phases. The maximum since the last border begins anew.
  PhaseMoment moment(uint64_t ticks) {
    PhaseMoment moment;
    moment.ticks = ticks;
    moment.now = {device_bytes(), host_bytes()};
    moment.owned = peaks_.owned();
    moment.max = {peaks_.take_recent_max(device_scope_), peaks_.take_recent_max(host_scope_)};
    return moment;
  }

 private:
  void tell(const PeakFinder::Change& change) { observer_->on_step({&change, 1}); }

  ReplayObserver* const observer_;
  PeakFinder peaks_;
  SiteTable sites_;
  const ScopeId device_scope_, host_scope_;
};

}  // namespace gpupeak::collector
