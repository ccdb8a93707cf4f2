#include "collector/replay/peak_finder.h"

#include <stdexcept>
#include <system_error>

#include "collector/log/parallel.h"

namespace gpupeak::collector {

GroupAccounts::GroupAccounts() {
  begin_batch();
}

GroupAccounts::~GroupAccounts() = default;

void GroupAccounts::begin_batch() {
  begin_ = next_ = &notes_[noted_ % kBatches * kBatchNotes];
  end_ = begin_ + kBatchNotes;
}

void GroupAccounts::add_scope() {
  catch_up();
  ended_.push_back(0);
}

void GroupAccounts::add_scope_list(const ScopeList& list) {
  catch_up();
  scope_lists_.push_back(list);
}

void GroupAccounts::finish_batch() {
  if (!thread_ && !alone_) begin_counting();
  if (alone_) return count_rest();
  const size_t behind = ++noted_ - counted_;
  begin_batch();
  if (behind == kWorthWaking) {
    { const std::lock_guard lock(waiting_); }
    changed_.notify_one();
  } else if (behind == kBatches) {
    count_next();  // all batches are full: makes room for the next one
  }
}

void GroupAccounts::begin_counting() {
  alone_ = usable_processors() < 2;
  try {
    if (!alone_) thread_.emplace([this](const std::stop_token& stop) { count_behind(stop); });
  } catch (const std::system_error&) {
    alone_ = true;  // no thread is to be had
  }
}

/// What the thread does.
void GroupAccounts::count_behind(const std::stop_token& stop) {
  try {
    while (!stop.stop_requested()) {
      while (count_next()) {
      }
      std::unique_lock lock(waiting_);
      changed_.wait(lock, stop, [this] { return noted_ - counted_ >= kWorthWaking; });
    }
  } catch (...) {
    const std::lock_guard lock(counting_);
    error_ = std::current_exception();
  }
}

/// Counts the next full batch. False: there is none.
bool GroupAccounts::count_next() {
  const std::lock_guard lock(counting_);
  if (error_) std::rethrow_exception(error_);
  const size_t batch = counted_;
  if (batch == noted_) return false;
  count({&notes_[batch % kBatches * kBatchNotes], kBatchNotes});
  counted_ = batch + 1;
  return true;
}

void GroupAccounts::count_rest() {
  while (count_next()) {
  }
  count({begin_, next_});
  counted_before_ += static_cast<size_t>(next_ - begin_);
  next_ = begin_;
}

/// Goes over the notes twice, since a group must be known before its line can be fetched.
void GroupAccounts::count(std::span<Note> notes) {
  constexpr size_t kAhead = 64, kGroupsAhead = 40;
  const size_t count = notes.size();
  counted_from_ = notes.data();
  for (size_t i = 0; i < std::min(kAhead, count); ++i) prefetch(notes[i]);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(notes[i + kAhead]);
    find(notes[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (i + kGroupsAhead < count) groups_.prefetch(notes[i + kGroupsAhead].of);
    this->count(notes[i]);
  }
  counted_until_ += count;
}

/// Where groups are found at once, no note is a block's: the caller then changes sites_, and this
/// thread must not read it.
inline void GroupAccounts::prefetch(const Note& note) const {
  if ((note.flags & (kBegins | kEnds)) == 0) return;
  if ((note.flags & kBegins) != 0) sites_.prefetch(note.site);
  sites_.prefetch(BlockNumber{note.of});
}

/// Finds the group of a note, or makes it.
inline void GroupAccounts::find(Note& note) {
  if ((note.flags & kBegins) != 0) {
    bool added = false;
    const GroupId group = sites_.group(note.site, added);
    if (added) [[unlikely]]
      new_group(lists_of_contexts_[note.site.context]);
    sites_.set(BlockNumber(note.of), group);
    note.of = group;
  } else if ((note.flags & kEnds) != 0) {
    note.of = sites_.of(BlockNumber(note.of));
  } else if ((note.flags & kNewGroup) != 0) {
    new_group(ScopeListId(note.of));
  } else if ((note.flags & kNewContext) != 0) {
    lists_of_contexts_.push_back(ScopeListId(note.of));
  }
}

/// A new group held nothing at the peaks until now. Peaks that ended in this batch are not counted
/// yet. That does no harm, since nothing is stored for a group that holds nothing.
void GroupAccounts::new_group(ScopeListId list) {
  Group& group = groups_.append();
  group.scope_list = list;
  group.folded = peaks_ended_;
  group.next_look = HostGrowth::kFirstLook;
}

/// Has no branch on whether the note is an allocation or a free: the processor cannot guess it.
inline void GroupAccounts::count(const Note& note) {
  if ((note.flags & kSpecial) != 0) [[unlikely]] {
    if ((note.flags & kPeakEnds) != 0) ended_[note.of] = ++peaks_ended_;
    return;
  }
  Group& group = groups_[note.of];
  if (group.folded != peaks_ended_) note_at_peaks(group);
  const uint64_t allocated = note.flags & kAllocates;
  ++changes_[allocated];
  group.live_bytes += note.bytes;
  group.live_count += static_cast<uint32_t>(note.count);
  group.alloc_bytes += note.bytes & -allocated;
  group.alloc_count += allocated;
  group.temporary_count += (note.flags & kTemporary) / kTemporary;
  const uint64_t settled = (note.flags & kSettles) != 0 ? group.live_bytes : 0;
  group.max_live_bytes = std::max(group.max_live_bytes, settled);
  if (static_cast<uint32_t>(group.alloc_count) == group.next_look) [[unlikely]]
    look(note, group);
}

void GroupAccounts::look(const Note& note, Group& group) {
  const uint64_t before = counted_until_ + static_cast<size_t>(&note - counted_from_);
  growth_.look(note.of, group, note.bytes, {changes_[0], changes_[1], before});
}

GroupId GroupAccounts::group_of(const Site& site, ScopeListId list) {
  if (!finds_at_once_) catch_up();
  bool added = false;
  const GroupId group = sites_.group(site, added);
  if (added) add_group(list);
  return group;
}

GroupId GroupAccounts::begin_known_block(const Site& site, ScopeListId list, BlockNumber block,
                                         uint64_t bytes) {
  const GroupId group = group_of(site, list);
  sites_.set(block, group);
  note({bytes, group, +1, kAllocates | kSettles});
  return group;
}

GroupId GroupAccounts::end_known_block(BlockNumber block, uint64_t bytes, uint8_t flags) {
  const GroupId group = sites_.of(block);
  note({-bytes, group, -1, flags});
  return group;
}

/// Stores what the group holds, for the peaks that have ended since it last changed. Called before
/// it changes.
void GroupAccounts::note_at_peaks(Group& group) {
  const ScopeList& list = scope_lists_[group.scope_list];
  if (group.stored == 0 && (group.live_bytes > 0 || group.live_count > 0)) {
    group.stored = static_cast<uint32_t>(at_peaks_.size() + 1);
    for (size_t i = 0; i < list.count; ++i) at_peaks_.append();
  }
  if (group.stored != 0) {
    for (size_t i = 0; i < list.count; ++i) {
      if (ended_[list.ids[i]] > group.folded)
        at_peaks_[group.stored - 1 + i] = {group.live_bytes, group.live_count};
    }
  }
  group.folded = peaks_ended_;
}

std::vector<uint64_t> GroupAccounts::finish() {
  catch_up();
  growth_.finish({changes_[0], changes_[1], counted_until_});
  std::vector<uint64_t> sums(ended_.size());
  for (size_t id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    note_at_peaks(group);
    if (group.stored == 0) continue;
    const ScopeList& list = scope_lists_[group.scope_list];
    uint64_t all = 0;
    for (size_t i = 0; i < list.count; ++i) {
      const uint64_t bytes = at_peaks_[group.stored - 1 + i].bytes;
      sums[list.ids[i]] += bytes;
      all |= bytes;
    }
    if (all != 0) holders_.push_back(static_cast<GroupId>(id));
  }
  return sums;
}

GroupAccounts::AtPeak GroupAccounts::at_peak(GroupId id, ScopeId scope) {
  const Group& of = group(id);
  if (of.stored == 0) return {};
  const ScopeList& list = scope_lists_[of.scope_list];
  for (size_t i = 0; i < list.count; ++i) {
    if (list.ids[i] == scope) return at_peaks_[of.stored - 1 + i];
  }
  return {};
}

ScopeId PeakFinder::add_scope() {
  if (scopes_.size() > UINT16_MAX) throw std::logic_error("peak_finder: too many scopes");
  scopes_.emplace_back();
  accounts_.add_scope();
  return static_cast<ScopeId>(scopes_.size() - 1);
}

ScopeListId PeakFinder::scope_list(std::span<const ScopeId> scopes) {
  if (scopes.size() > kMaxScopesOfGroup) throw std::logic_error("peak_finder: too many scopes");
  ScopeList list;
  list.count = static_cast<uint32_t>(scopes.size());
  std::copy(scopes.begin(), scopes.end(), list.ids.begin());
  const auto known = std::ranges::find(scope_lists_, list);
  const auto id = static_cast<ScopeListId>(known - scope_lists_.begin());
  if (known == scope_lists_.end()) {
    scope_lists_.push_back(list);
    accounts_.add_scope_list(list);
  }
  return id;
}

void PeakFinder::set_counting(GroupId group, Counting counting) {
  if (counting.owner >= owned_.size()) owned_.resize(counting.owner + 1);
  if (group >= countings_.size()) countings_.grow(group + 1);
  countings_[group] = counting;
}

GroupId PeakFinder::add_group(std::span<const ScopeId> scopes) {
  const auto id = static_cast<GroupId>(countings_.size());
  const ScopeListId list = scope_list(scopes);
  set_counting(id, {list, OwnerId{}});
  accounts_.add_group(list);
  return id;
}

void PeakFinder::add_context(Counting counting) {
  if (counting.owner >= owned_.size()) owned_.resize(counting.owner + 1);
  accounts_.add_context(counting.scopes);
}

GroupId PeakFinder::group_of(const Site& site, Counting counting) {
  const GroupId id = accounts_.group_of(site, counting.scopes);
  set_counting(id, counting);
  return id;
}

void PeakFinder::begin_run(ScopeListId list) const {
  settle();
  run_ = {};
  run_.list = list;
  run_.room = INT64_MAX;
  for (const ScopeId id : scope_lists_[list]) {
    const Scope& scope = scopes_[id];
    run_.at_maximum |= scope.at_maximum;
    // In damaged logs sums wrap around.
    const auto room = static_cast<int64_t>(scope.peak - scope.current);
    run_.room = std::min(run_.room, scope.current > scope.peak ? 0 : std::max<int64_t>(room, 0));
  }
}

void PeakFinder::tell_scopes() const {
  for (const ScopeId id : scope_lists_[run_.list]) {
    Scope& scope = scopes_[id];
    scope.recent_max =
        std::max(scope.recent_max, scope.current + static_cast<uint64_t>(run_.largest));
    scope.current += static_cast<uint64_t>(run_.sum);
  }
  run_.list = kNoList;
}

void PeakFinder::end_maxima_of_run() {
  for (const ScopeId id : scope_lists_[run_.list]) end_maximum(id);
  run_.at_maximum = false;
}

/// An allocation that gives one of the run's scopes a new maximum.
void PeakFinder::grow_beyond_run(uint64_t by, const Step& step) {
  const ScopeListId list = run_.list;
  settle();
  for (const ScopeId scope_id : scope_lists_[list]) {
    Scope& scope = scopes_[scope_id];
    scope.current += by;
    if (scope.current > scope.peak) {
      raise(scope, step);
    } else {
      end_maximum(scope_id);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
  }
  begin_run(list);
}

PeakFinder::Pair PeakFinder::replace(const OldBlock& old_block, const NewBlock& new_block,
                                     uint64_t ticks) {
  if (old_block.counting.scopes != new_block.counting.scopes)
    throw std::logic_error("peak_finder: one for another of other sums");
  const uint64_t old_bytes = old_block.bytes, new_bytes = new_block.bytes;
  if (new_bytes > old_bytes) {
    grow(new_block.counting, new_bytes - old_bytes, {kNoGroup, new_block.site, new_bytes, ticks});
  } else {
    shrink(new_block.counting, old_bytes - new_bytes);
  }
  owned_[old_block.counting.owner].live_bytes -= old_bytes;
  Owned& owned = owned_[new_block.counting.owner];
  owned.live_bytes += new_bytes;
  ++owned.alloc_count;
  const GroupId old_group = accounts_.end_block(old_block.number, old_bytes, false);
  return {old_group, accounts_.begin_block(new_block.site, new_block.counting.scopes,
                                           new_block.number, new_bytes)};
}

void PeakFinder::apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum) {
  settle();
  touched_.clear();
  GroupId last_allocating = kNoGroup;
  uint64_t last_bytes = 0;
  for (const Change& change : changes) {
    for (const ScopeId id : scope_lists_[countings_[change.group].scopes]) {
      Scope& scope = scopes_[id];
      scope.step = static_cast<int64_t>(static_cast<uint64_t>(scope.step) +
                                        static_cast<uint64_t>(change.bytes));
      if (!scope.touched) touched_.push_back(id);
      scope.touched = true;
    }
    if (change.allocates) {
      last_allocating = change.group;
      last_bytes = static_cast<uint64_t>(change.bytes);
    }
  }
  for (const ScopeId id : touched_) {
    Scope& scope = scopes_[id];
    scope.current += static_cast<uint64_t>(scope.step);
    if (scope.step > 0 && scope.current > scope.peak) {
      raise(scope, {last_allocating, {}, last_bytes, ticks});
    } else if (scope.step != 0 || !keeps_maximum) {
      end_maximum(id);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
    scope.step = 0;
    scope.touched = false;
  }
  // Between two parts of a step a group may hold bytes that it has at no time: these do not count.
  const bool apart =
      changes.size() == 1 || (changes.size() == 2 && changes[0].group != changes[1].group);
  for (const Change& change : changes) {
    const int flags =
        (change.allocates ? GroupAccounts::kAllocates : 0) | (apart ? GroupAccounts::kSettles : 0);
    accounts_.note({static_cast<uint64_t>(change.bytes), change.group, change.count,
                    static_cast<uint8_t>(flags)});
    Owned& owned = owned_[countings_[change.group].owner];
    owned.live_bytes += static_cast<uint64_t>(change.bytes);
    owned.alloc_count += change.allocates;
  }
  if (apart) return;
  for (const Change& change : changes)
    accounts_.note({0, change.group, 0, GroupAccounts::kSettles});
}

void PeakFinder::finish() {
  settle();
  for (size_t id = 0; id < scopes_.size(); ++id) end_maximum(static_cast<ScopeId>(id));
  const std::vector<uint64_t> sums = accounts_.finish();
  for (size_t i = 0; i < scopes_.size(); ++i) {
    Scope& scope = scopes_[i];
    if (sums[i] != scope.peak)
      throw std::logic_error("peak_finder: holders do not add up to the peak");
    if (scope.peak_site) scope.peak_group = accounts_.group_of(*scope.peak_site, ScopeListId());
  }
}

uint64_t PeakFinder::take_recent_max(ScopeId id) {
  Scope& scope = scopes_[id];
  const uint64_t recent = scope.recent_max;
  scope.recent_max = scope.current;
  return recent;
}

}  // namespace gpupeak::collector
