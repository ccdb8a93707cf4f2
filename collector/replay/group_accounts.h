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
#include "collector/replay/live_blocks.h"

namespace gpupeak::collector {

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
  void note_at_peaks(Group& group);

  std::vector<ScopeList> scope_lists_;
  std::vector<uint64_t> ended_;  // by scope: peaks_ended_ at the end of its last peak
  uint64_t peaks_ended_ = 0;     // of all scopes
  ChunkedArray<Group> groups_;
  SiteGroups sites_;  // used by whoever counts, or by the caller if groups are found at once
  bool finds_at_once_ = false;
  std::vector<ScopeListId> lists_of_contexts_;
  // For each group that held something at an end of a peak: one entry for each scope of its list,
  // in a row.
  ChunkedArray<AtPeak> at_peaks_;
  // The few of all groups that held bytes at the end of any peak. Filled by finish().
  std::vector<GroupId> holders_;

  ChunkedArray<Note> notes_;                                  // kBatches batches, used in turn
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

}  // namespace gpupeak::collector
