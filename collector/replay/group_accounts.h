// What each group holds, has held at most, and held at the peaks: PeakFinder's accounts. Every
// change touches one of a million groups at random, and what comes out is asked for when a phase or
// the log ends. So changes are noted, and counted many at a time in the order in which they were
// noted: where there are several processors, by a thread of its own. Who looks counts the rest
// first, so that what he sees does not depend on how many there are.
//
//   PeakFinder   +100 A · -40 B · a peak ends · +8 B · …     notes, in batches
//   thread                          counts full batches
//   group(B)                        counts what is left, then answers
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

namespace gpupeak::collector {

using GroupId = uint32_t;
using ScopeId = uint16_t;
using ScopeListId = uint32_t;
inline constexpr GroupId kNoGroup = UINT32_MAX;
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
    ScopeListId scope_list = 0;
    uint32_t stored = 0;  // its place in at_peaks_ + 1; 0: it held nothing when a peak ended
  };
  /// What a note says besides.
  enum Flag : uint8_t {
    kAllocates = 1,  ///< it counts as an allocation
    kTemporary = 2,  ///< the block was freed at once
    kSettles = 4,    ///< what the group holds now it holds after the step
    kNewGroup = 8,   ///< no change: the next group, which counts into scope list `bytes`
    kPeakEnds = 16,  ///< no change: of scope `bytes`; what comes does not belong to it
  };
  /// One part of a change of a group; the sums may go round, as those of damaged logs do.
  struct Note {
    uint64_t bytes;
    GroupId group;
    int16_t count;
    uint8_t flags;  ///< of Flag
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
  /// Before anything is noted of them.
  void add_scope();
  void add_scope_list(const ScopeList& list);
  /// After the last note: what every scope's groups held at its peak, by scope.
  std::vector<uint64_t> finish();

  const Group& group(GroupId id) {
    catch_up();
    return groups_[id];
  }
  AtPeak at_peak(GroupId id, ScopeId scope);
  /// visit(GroupId, const AtPeak&) for each that held bytes at that peak, by group. After finish().
  template <class Visit>
  void visit_at_peak(ScopeId scope, const Visit& visit);

 private:
  static constexpr size_t kBatchNotes = 2048;
  static constexpr size_t kBatches = 16;
  /// To wake the thread for each batch would take as long as to count some hundred notes.
  static constexpr size_t kWorthWaking = 4;

  void begin_batch();
  void finish_batch();
  void count_behind(const std::stop_token& stop);
  bool count_next();
  void catch_up() {
    if (next_ != begin_ || counted_ != noted_) count_rest();
  }
  void count_rest();
  void count(std::span<const Note> notes);
  void count(const Note& note);
  void take_special(const Note& note);
  void note_at_peaks(Group& group);

  std::vector<ScopeList> scope_lists_;
  std::vector<uint64_t> ended_;  // by scope: peaks_ended_ at the end of its last peak
  uint64_t peaks_ended_ = 0;     // of all scopes
  ChunkedArray<Group> groups_;
  // Of groups that held something at one: as many in a row as their lists have scopes.
  ChunkedArray<AtPeak> at_peaks_;
  // Of millions of groups those few that held bytes at the end of any peak. After finish().
  std::vector<GroupId> holders_;

  std::unique_ptr<Note[]> notes_;                             // kBatches batches, used in turn
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
