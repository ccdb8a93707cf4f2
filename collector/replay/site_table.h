// The groups by which holders are told apart while a log is replayed. A group is a stack together
// with a context: kind, device, phase, thread, API, tag. attribution.h later adds groups up as the
// user asks.
//
//   stack 7, heap, phase "load"          group 0   scopes: host/heap, host, total
//   stack 9, linear on GPU 0, "load"     group 1   scopes: device:0/linear, device:0, device, total
//   stack 7, heap, phase "train"         group 2   scopes: host/heap, host, total
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/replay/peak_finder.h"
#include "collector/replay/phase_tree.h"

namespace gpupeak::collector {

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
bool counts_into(const SiteContext& context, const ScopeInfo& scope);

class SiteTable {
 public:
  /// `integrated`: devices whose memory is the host's, a bit each.
  SiteTable(PeakFinder& peaks, uint32_t integrated);

  ContextId context(const SiteContext& context);
  /// How the groups of a context are counted.
  PeakFinder::Counting counting_of(ContextId context) const { return countings_[context]; }
  /// The group of memory that is no heap block. PeakFinder finds the groups of heap blocks itself.
  GroupId group(const Site& site);

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
  const ScopeId* find_scope(const std::string& name) const;
  /// The scopes that a block of this kind counts into.
  std::vector<ScopeId> scopes_for(uint8_t kind, int32_t device);

 private:
  ScopeId scope(const std::string& name, int32_t device, uint8_t kind);

  PeakFinder& peaks_;
  const uint32_t integrated_;
  PeakFinder::Counting counting(const SiteContext& context);

  // Groups that were asked for before. Asking PeakFinder takes long, since it counts all notes
  // first.
  std::unordered_map<uint64_t, GroupId> groups_;
  std::vector<SiteContext> contexts_;
  std::vector<PeakFinder::Counting> countings_;  // by context
  std::map<SiteContext, ContextId> context_ids_;
  std::vector<ScopeInfo> scopes_;  // by ScopeId
  std::map<std::string, ScopeId> scope_ids_;
};

}  // namespace gpupeak::collector
