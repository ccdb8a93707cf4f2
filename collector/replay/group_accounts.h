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
// A log has millions of groups, and each change touches another one, so that counting at once would
// wait for memory at each event. Therefore changes are noted first and counted later, in the same
// order, a batch at a time. Where there is a processor to spare, a second thread counts:
//
//   PeakFinder   notes changes, and hands on each full batch
//   thread       counts full batches
//   group(B)     counts the notes that are left, then answers
//
// group() gives the same answer whether or not there is a second thread.
//
// The groups of heap blocks are looked up while counting: the note of an allocation has the block's
// number and its stack and context, the note of a free has the number alone. A caller that needs
// the group at once asks for that before the first note (find_at_once()).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "collector/replay/chunked_array.h"
#include "collector/replay/site_groups.h"

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
    uint64_t temporary_count = 0;  ///< blocks freed at once; docs/metrics.md says what that means
    uint64_t folded = 0;           // peaks_ended_ when what it held at the peaks was last noted
    uint32_t live_count = 0;
    ScopeListId scope_list{};
    uint32_t stored = 0;  // its place in at_peaks_ + 1; 0: it held nothing when a peak ended
  };
  /// What a note says besides.
  enum Flag : uint8_t {
    kAllocates = 1,     ///< it counts as an allocation
    kTemporary = 2,     ///< the block was freed at once
    kSettles = 4,       ///< what the group holds now it holds after the step
    kPeakEnds = 8,      ///< no change: of scope `of`; what comes does not belong to it
    kBegins = 16,       ///< `of` is the block that is allocated
    kEnds = 32,         ///< `of` is the block that is freed
    kNewGroup = 64,     ///< no change: the next group, which counts into scope list `of`
    kNewContext = 128,  ///< no change: sites of the next context count into scope list `of`
  };
  /// One part of a change of a group; the sums may go round, as those of damaged logs do.
  struct Note {
    uint64_t bytes;
    uint32_t of;  ///< a group; a block where flags say so, until its group is found
    int16_t count;
    uint8_t flags;   ///< of Flag
    Site site = {};  ///< kBegins: of the block
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
  /// A block comes and goes, of a site whose group counts into `list`. Its group, if that is found
  /// at once; else kNoGroup.
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
  /// Before anything is noted of them.
  void add_scope();
  void add_scope_list(const ScopeList& list);
  /// The sites of the next context count into that list.
  void add_context(ScopeListId list) { note({0, list, 0, kNewContext}); }
  /// The next group, which is no site's.
  void add_group(ScopeListId list) { note({0, list, 0, kNewGroup}); }
  /// A site's group, found at once; new ones count into that list.
  GroupId group_of(const Site& site, ScopeListId list);
  /// Before the first block: its group is found when it comes, on the caller's thread.
  void find_at_once() { finds_at_once_ = true; }
  bool finds_at_once() const { return finds_at_once_; }
  /// After the last note: what every scope's groups held at its peak, by scope.
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
  /// visit(GroupId, const AtPeak&) for each that held bytes at that peak, by group. After finish().
  template <class Visit>
  void visit_at_peak(ScopeId scope, const Visit& visit);
  size_t most_at_peak() const { return holders_.size(); }

 private:
  static constexpr size_t kBatchNotes = 2048;
  static constexpr size_t kBatches = 16;
  /// To wake the thread for each batch would take as long as to count some hundred notes.
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
  SiteGroups sites_;  // whoever counts has it, but where it is to be found at once
  bool finds_at_once_ = false;
  std::vector<ScopeListId> lists_of_contexts_;
  // Of groups that held something at one: as many in a row as their lists have scopes.
  ChunkedArray<AtPeak> at_peaks_;
  // Of millions of groups those few that held bytes at the end of any peak. After finish().
  std::vector<GroupId> holders_;

  ChunkedArray<Note> notes_;                                  // kBatches batches, used in turn
  Note *begin_ = nullptr, *next_ = nullptr, *end_ = nullptr;  // of the one that is being filled
  std::atomic<size_t> noted_ = 0, counted_ = 0;               // full batches, in all
  std::mutex counting_;                                       // whose holder counts the next batch
  std::exception_ptr error_;                                  // what the thread could not count
  std::mutex waiting_;
  std::condition_variable_any changed_;
  std::optional<std::jthread> thread_;  // none: not yet needed
  bool alone_ = false;                  // there will be none
};

template <class Visit>
void GroupAccounts::visit_at_peak(ScopeId scope, const Visit& visit) {
  std::vector<size_t> places;  // of the scope in each list
  for (const ScopeList& list : scope_lists_)
    places.push_back(
        static_cast<size_t>(std::find(list.begin(), list.end(), scope) - list.begin()));
  for (const GroupId id : holders_) {
    const Group& group = groups_[id];
    const size_t place = places[group.scope_list];
    if (place == scope_lists_[group.scope_list].count) continue;
    const AtPeak& held = at_peaks_[group.stored - 1 + place];
    if (held.bytes > 0) visit(id, held);
  }
}

}  // namespace gpupeak::collector
