// Finds exact peaks, and who held the bytes then, in one pass. Holders are told apart by groups
// (live_memory.h makes them). A scope is a sum that has a peak (a device, the host, a kind …).
// Every group counts into a fixed list of scopes. Replay calls it, the summary reads it.
//
// How it works: the ends of peaks are numbered, and a scope keeps the number of its last one. While
// the sum is at a new maximum, what each group holds now is what it holds at the peak, so nothing
// is stored. The first change that makes no new maximum ends that state. From then on a group
// stores what it holds just before it changes for the first time since. That is O(1) for an event,
// and memory O(groups). Of equal maxima the first one wins. An example with two groups in one
// scope; (n) after a stored value is the number of the last end when it was stored:
//
//   change    sum  peak  end      A holds  stored     B holds  stored
//   A +100    100   100    0          100  –                0  –
//   B  +50    150   150    0          100  –               50  –
//   A  -40    110   150    1           60  100 (1)         50  –         B changes nothing: no work
//   B +130    240   240    1           60  100 (1)        180   50 (1)
//   A  -60    180   240    2            0   60 (2)        180   50 (1)
//   finish          240    2            0   60 (2)        180  180 (2)   60 + 180 = 240
//
// Most changes in a row are of groups that count into the same scopes, the heap's, and make no new
// maximum. Such a run is added up in one sum for all of its scopes, which get it when somebody
// reads them.
//
// Heap blocks come and go by their numbers. Whoever counts finds their groups (GroupAccounts);
// they are not known here.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "collector/replay/big_arrays.h"
#include "collector/replay/host_growth.h"
#include "collector/replay/live_blocks.h"

namespace gpupeak::collector {

// Counts for each group of blocks what it holds now, the most that it ever held, and what it held
// at each peak. PeakFinder decides when there is a peak; this class does the counting for it.
//
// in    changes: "group B got 100 bytes", "group B lost 40 bytes", "this was a peak of GPU 0"
// out   for each group: live bytes and blocks, the maximum, bytes and blocks at each scope's peak
//
//   +100 A   +60 B   -40 B   [peak of GPU 0]   +8 B
//   group(A)   live 100, at GPU 0's peak 100
//   group(B)   live 28,  at GPU 0's peak 20, maximum 60
//
// A log has millions of groups, and each change is of another one. Counting each at once would wait
// for memory at each event. So changes are noted first and counted later, in the same order, a
// batch at a time. Where there is a processor to spare, a second thread counts:
//
//   PeakFinder   notes changes, and hands on each full batch
//   thread       counts full batches
//   group(B)     counts the notes that are left, then answers
//
// group() gives the same answer with and without a second thread.
//
// The groups of heap blocks are found while counting: the note of an allocation has the block's
// number, its stack and its context; the note of a free has only the number. A caller that needs
// the group at once asks for that before the first note (find_at_once()).

using ScopeId = Index<struct OfScopes>;
using ScopeListId = Index<struct OfScopeLists>;
inline constexpr size_t kMaxScopesOfGroup = 5;

/// The scopes that a group counts into.
struct ScopeList {
  std::array<ScopeId, kMaxScopesOfGroup> ids{};
  uint32_t count = 0;

  bool operator==(const ScopeList&) const = default;
  const ScopeId* begin() const { return ids.data(); }
  const ScopeId* end() const { return ids.data() + count; }
};

class GroupAccounts {
 public:
  struct AtPeak {
    uint64_t bytes = 0;
    uint32_t count = 0;
  };
  /// One cache line.
  struct alignas(64) Group {
    uint64_t live_bytes = 0;
    uint64_t max_live_bytes = 0;
    uint64_t alloc_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t temporary_count = 0;  ///< temporary blocks (docs/metrics.md)
    uint64_t folded = 0;           // peaks_ended_ at the last note_at_peaks()
    uint32_t live_count = 0;
    ScopeListId scope_list{};
    uint32_t stored = 0;  // its place in at_peaks_ + 1; 0: it held nothing at any end of a peak
    uint32_t next_look = HostGrowth::kFirstLook;  // at the allocation of this number
  };
  /// What else a note says.
  enum Flag : uint8_t {
    kAllocates = 1,  ///< it counts as an allocation
    kTemporary = 2,  ///< the block was temporary
    kSettles = 4,    ///< after this note the group holds what it holds after the step
    kPeakEnds = 8,   ///< no change: the peak of scope `of` ends before the next note
    kBegins = 16,    ///< `of` is the block that is allocated
    kEnds = 32,      ///< `of` is the block that is freed
    kNewGroup = 64,  ///< no change: makes the next group, which counts into scope list `of`
    /// No change: makes the next context, whose sites count into scope list `of`.
    kNewContext = 128,
  };
  /// One part of a change of a group. Sums may wrap around, since those of damaged logs do.
  struct Note {
    uint64_t bytes;
    uint32_t of;  ///< a group; with kBegins and kEnds a block, until its group is found
    int16_t count;
    uint8_t flags;   ///< of Flag
    Site site = {};  ///< kBegins: the block's site
  };

  GroupAccounts();
  ~GroupAccounts();
  GroupAccounts(const GroupAccounts&) = delete;
  GroupAccounts& operator=(const GroupAccounts&) = delete;

  void note(const Note& note) {
    *next_++ = note;
    if (next_ == end_) [[unlikely]]
      finish_batch();
  }
  /// A block is allocated and freed. `list`: the scopes of its site's group. They return the group
  /// if groups are found at once, else kNoGroup.
  GroupId begin_block(const Site& site, ScopeListId list, BlockNumber block, uint64_t bytes) {
    if (finds_at_once_) [[unlikely]]
      return begin_known_block(site, list, block, bytes);
    note({bytes, block, +1, kAllocates | kSettles | kBegins, site});
    return kNoGroup;
  }
  GroupId end_block(BlockNumber block, uint64_t bytes, bool temporary) {
    const uint8_t flags = temporary ? kTemporary : 0;
    if (finds_at_once_) [[unlikely]]
      return end_known_block(block, bytes, flags);
    note({-bytes, block, -1, static_cast<uint8_t>(flags | kEnds)});
    return kNoGroup;
  }
  /// Call these two before any note of the scope or list.
  void add_scope();
  void add_scope_list(const ScopeList& list);
  /// Makes the next context, whose sites count into this list.
  void add_context(ScopeListId list) { note({0, list, 0, kNewContext}); }
  /// Makes the next group, which is no site's.
  void add_group(ScopeListId list) { note({0, list, 0, kNewGroup}); }
  /// The group of a site, found at once. A new one counts into this list.
  GroupId group_of(const Site& site, ScopeListId list);
  /// Call it before the first block: groups of blocks are then found when they come, on the
  /// caller's thread.
  void find_at_once() { finds_at_once_ = true; }
  bool finds_at_once() const { return finds_at_once_; }
  /// Call it after the last note. Returns for each scope the sum of what its groups held at its
  /// peak.
  std::vector<uint64_t> finish();

  const Group& group(GroupId id) {
    catch_up();
    return groups_[id];
  }
  size_t group_count() {
    catch_up();
    return groups_.size();
  }
  /// The groups of sites.
  const SiteGroups& sites() {
    if (!finds_at_once_) catch_up();
    return sites_;
  }
  AtPeak at_peak(GroupId id, ScopeId scope);
  /// What is noted next happens at this instant.
  void note_time(uint64_t ticks) {
    growth_.note_time(counted_before_ + noted_ * kBatchNotes + static_cast<size_t>(next_ - begin_),
                      ticks);
  }
  const HostGrowth& growth() const { return growth_; }
  /// Calls visit(GroupId, const AtPeak&) for each group that held bytes at that peak, by number.
  /// Call it after finish().
  template <class Visit>
  void visit_at_peak(ScopeId scope, const Visit& visit);
  size_t most_at_peak() const { return holders_.size(); }

 private:
  static constexpr size_t kBatchNotes = 2048;
  static constexpr size_t kBatches = 16;
  /// Waking the thread takes as long as counting some hundred notes, so it is not done for each
  /// batch.
  static constexpr size_t kWorthWaking = 4;

  static constexpr uint8_t kSpecial = kPeakEnds | kNewGroup | kNewContext;

  GroupId begin_known_block(const Site& site, ScopeListId list, BlockNumber block, uint64_t bytes);
  GroupId end_known_block(BlockNumber block, uint64_t bytes, uint8_t flags);
  void begin_batch();
  void finish_batch();
  void begin_counting();
  void count_behind(const std::stop_token& stop);
  bool count_next();
  void catch_up() {
    if (next_ != begin_ || counted_ != noted_) count_rest();
  }
  void count_rest();
  void count(std::span<Note> notes);
  void prefetch(const Note& note) const;
  void find(Note& note);
  void new_group(ScopeListId list);
  void count(const Note& note);
  void look(const Note& note, Group& group);
  void note_at_peaks(Group& group);

  std::vector<ScopeList> scope_lists_;
  std::vector<uint64_t> ended_;  // by scope: peaks_ended_ at the end of its last peak
  uint64_t peaks_ended_ = 0;     // of all scopes
  ChunkedArray<Group> groups_;
  SiteGroups sites_;  // used by whoever counts, or by the caller if groups are found at once
  bool finds_at_once_ = false;
  std::vector<ScopeListId> lists_of_contexts_;
  HostGrowth growth_;
  uint64_t changes_[2] = {};            // so far: frees, allocations
  uint64_t counted_before_ = 0;         // notes that were counted before their batch was full
  const Note* counted_from_ = nullptr;  // the first of the notes that are being counted …
  uint64_t counted_until_ = 0;          // … and how many were counted before it
  // For each group that held something at an end of a peak: one entry for each scope of its list,
  // in a row.
  ChunkedArray<AtPeak> at_peaks_;
  // The few of all groups that held bytes at the end of any peak. Filled by finish().
  std::vector<GroupId> holders_;

  ZeroedTable<Note> notes_{kBatches * kBatchNotes};           // kBatches batches, used in turn
  Note *begin_ = nullptr, *next_ = nullptr, *end_ = nullptr;  // the batch that is being filled
  std::atomic<size_t> noted_ = 0, counted_ = 0;  // full batches so far: filled, counted
  std::mutex counting_;                          // held by whoever counts the next batch
  std::exception_ptr error_;                     // thrown on the thread
  std::mutex waiting_;
  std::condition_variable_any changed_;
  std::optional<std::jthread> thread_;  // none: it was not needed yet
  bool alone_ = false;                  // there will be no thread
};

template <class Visit>
void GroupAccounts::visit_at_peak(ScopeId scope, const Visit& visit) {
  std::vector<size_t> places;  // the scope's place in each list
  for (const ScopeList& list : scope_lists_)
    places.push_back(static_cast<size_t>(std::ranges::find(list, scope) - list.begin()));
  for (const GroupId id : holders_) {
    const Group& group = groups_[id];
    const size_t place = places[group.scope_list];
    if (place == scope_lists_[group.scope_list].count) continue;
    const AtPeak& held = at_peaks_[group.stored - 1 + place];
    if (held.bytes > 0) visit(id, held);
  }
}

/// What one group holds, or contributes to a table.
struct Contribution {
  GroupId group;
  uint64_t bytes;
  uint64_t count;
};

/// Anything for which the caller wants a plain sum; small numbers.
using OwnerId = Index<struct OfOwners>;

class PeakFinder {
 public:
  struct Scope {
    uint64_t current = 0;  ///< bytes
    uint64_t peak = 0;     ///< bytes
    uint64_t peak_ticks = 0;
    /// Whose allocation made the peak; if it was a heap block: after finish().
    GroupId peak_group = kNoGroup;
    uint64_t peak_step_bytes = 0;   ///< what that allocation added
    uint64_t recent_max = 0;        ///< since the last take_recent_max()
    std::optional<Site> peak_site;  // the site, if a heap block made the peak
    int64_t step = 0;               // what the current change adds
    bool at_maximum = false;        // nothing has changed since the last new maximum
    bool touched = false;           // it is in touched_
  };
  using AtPeak = GroupAccounts::AtPeak;
  using Group = GroupAccounts::Group;
  /// What the groups of one owner hold and have allocated.
  struct Owned {
    uint64_t live_bytes = 0;
    uint64_t alloc_count = 0;
  };
  /// How a group is counted. All groups of one context are counted alike.
  struct Counting {
    ScopeListId scopes{};
    OwnerId owner{};
  };
  /// A heap block that is allocated.
  struct NewBlock {
    BlockNumber number;
    uint64_t bytes;
    Site site;
    Counting counting;  ///< of its site's context
  };
  /// A heap block that is freed, as it was counted when it was allocated.
  struct OldBlock {
    BlockNumber number;
    uint64_t bytes;
    Counting counting;
  };
  /// One part of a change that happens in one step.
  struct Change {
    GroupId group;
    int64_t bytes;
    int16_t count;
    bool allocates;                 ///< counts as an allocation of its group
    BlockNumber number = kNoBlock;  ///< of a heap block
  };

  ScopeId add_scope();
  /// The list of these scopes, at most kMaxScopesOfGroup. Equal lists have one id.
  ScopeListId scope_list(std::span<const ScopeId> scopes);
  GroupId add_group(std::span<const ScopeId> scopes);
  /// Adds the next context. Its sites are counted as `counting` says.
  void add_context(Counting counting);
  /// The group of a site, found at once. That takes long for a new one.
  GroupId group_of(const Site& site, Counting counting);
  /// Call it before the first block if add() must return the block's group.
  void find_groups_at_once() { accounts_.find_at_once(); }

  void add(GroupId group, uint64_t bytes, uint64_t ticks) {
    const Change change{group, static_cast<int64_t>(bytes), +1, true};
    apply({&change, 1}, ticks);
  }
  void remove(GroupId group, uint64_t bytes) {
    const Change change{group, -static_cast<int64_t>(bytes), -1, false};
    apply({&change, 1}, 0);
  }
  /// These three return the groups of the blocks if groups are found at once, else kNoGroup.
  GroupId add(const NewBlock& block, uint64_t ticks);
  /// `temporary`: it also counts as a temporary block.
  GroupId remove(const OldBlock& block, bool temporary = false);
  /// Replaces one block by another, in one step.
  struct Pair {
    GroupId old_group, new_group;
  };
  Pair replace(const OldBlock& old_block, const NewBlock& new_block, uint64_t ticks);
  /// Counts a temporary block of a group, where that is known only after its free.
  void note_temporary(GroupId group) { accounts_.note({0, group, 0, GroupAccounts::kTemporary}); }
  /// Applies all changes at one instant, so that there is no dip and no double counting in between.
  void apply(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, false); }
  /// The same for bytes that only get another holder. A sum that does not change and is at its
  /// maximum stays there, with the new holders.
  void regroup(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, true); }
  /// The next change happens at this instant. Not needed for each one.
  void note_time(uint64_t ticks) { accounts_.note_time(ticks); }
  const HostGrowth& growth() const { return accounts_.growth(); }
  /// Call it after the last change. Throws std::logic_error if the holders of a scope do not add up
  /// to its peak.
  void finish();

  /// The scope's maximum since the last call.
  uint64_t take_recent_max(ScopeId scope);

  const Scope& scope(ScopeId id) const {
    settle();
    return scopes_[id];
  }
  size_t scope_count() const { return scopes_.size(); }
  const Group& group(GroupId id) const { return accounts_.group(id); }
  size_t group_count() const { return accounts_.group_count(); }
  /// The groups that are sites'.
  const SiteGroups& sites() const { return accounts_.sites(); }
  bool finds_groups_at_once() const { return accounts_.finds_at_once(); }
  /// By OwnerId.
  std::span<const Owned> owned() const { return owned_; }
  /// What `group` held at the peak of `scope`; nothing if it does not count into it. Call it after
  /// finish().
  AtPeak at_peak(GroupId group, ScopeId scope) const { return accounts_.at_peak(group, scope); }

  /// Calls visit(GroupId, const AtPeak&) for each group that held bytes at that peak, by number: at
  /// most most_at_peak() of them. Call it after finish().
  template <class Visit>
  void visit_at_peak(ScopeId scope, const Visit& visit) const {
    accounts_.visit_at_peak(scope, visit);
  }
  size_t most_at_peak() const { return accounts_.most_at_peak(); }

 private:
  static constexpr ScopeListId kNoList{UINT32_MAX};
  /// What the scopes of one list do not have yet.
  struct Run {
    ScopeListId list = kNoList;
    bool at_maximum = false;  // one of the scopes is at its maximum
    int64_t sum = 0;
    int64_t largest = 0;
    int64_t room = 0;  // a larger sum is a new maximum of one of the scopes
  };

  void set_counting(GroupId group, Counting counting);
  void apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum);
  void end_maximum(ScopeId id) {
    Scope& scope = scopes_[id];
    if (!scope.at_maximum) return;
    accounts_.note({0, id, 0, GroupAccounts::kPeakEnds});
    scope.at_maximum = false;
  }
  /// Ends the current run, if there is one.
  void settle() const {
    if (run_.list != kNoList) tell_scopes();
  }
  void tell_scopes() const;
  void begin_run(ScopeListId list) const;
  void end_maxima_of_run();
  /// An allocation: who, how much, when. Of a heap block the site is known.
  struct Step {
    GroupId group;
    std::optional<Site> site;
    uint64_t bytes;
    uint64_t ticks;
  };
  static void raise(Scope& scope, const Step& step);
  void grow(Counting counting, uint64_t by, const Step& step);
  void grow_beyond_run(uint64_t by, const Step& step);
  void shrink(Counting counting, uint64_t by);

  // Reading first settles the current run. That changes nothing else that a reader can see.
  mutable std::vector<Scope> scopes_;
  mutable Run run_;
  mutable GroupAccounts accounts_;
  std::vector<ScopeList> scope_lists_;
  ChunkedArray<Counting> countings_;  // by group, for changes that name their group
  std::vector<Owned> owned_;
  std::vector<ScopeId> touched_;
};

inline void PeakFinder::raise(Scope& scope, const Step& step) {
  scope.peak = scope.current;
  scope.peak_ticks = step.ticks;
  scope.peak_group = step.group;
  scope.peak_site = step.site;
  scope.peak_step_bytes = step.bytes;
  scope.at_maximum = true;
}

/// Adds `by` to the sums of a list.
inline void PeakFinder::grow(Counting counting, uint64_t by, const Step& step) {
  if (run_.list != counting.scopes) [[unlikely]]
    begin_run(counting.scopes);
  const int64_t sum = run_.sum + static_cast<int64_t>(by);
  if (sum > run_.room) return grow_beyond_run(by, step);
  run_.sum = sum;
  if (run_.at_maximum) end_maxima_of_run();
  if (sum > run_.largest) run_.largest = sum;
}

inline void PeakFinder::shrink(Counting counting, uint64_t by) {
  if (run_.list != counting.scopes) [[unlikely]]
    begin_run(counting.scopes);
  if (run_.at_maximum) end_maxima_of_run();
  run_.sum -= static_cast<int64_t>(by);
}

inline GroupId PeakFinder::add(const NewBlock& block, uint64_t ticks) {
  grow(block.counting, block.bytes, {kNoGroup, block.site, block.bytes, ticks});
  Owned& owned = owned_[block.counting.owner];
  owned.live_bytes += block.bytes;
  ++owned.alloc_count;
  return accounts_.begin_block(block.site, block.counting.scopes, block.number, block.bytes);
}

inline GroupId PeakFinder::remove(const OldBlock& block, bool temporary) {
  shrink(block.counting, block.bytes);
  owned_[block.counting.owner].live_bytes -= block.bytes;
  return accounts_.end_block(block.number, block.bytes, temporary);
}

}  // namespace gpupeak::collector
