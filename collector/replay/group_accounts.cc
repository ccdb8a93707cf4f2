#include "collector/replay/group_accounts.h"

#include <algorithm>
#include <system_error>

#include "collector/log/parallel.h"

namespace gpupeak::collector {

GroupAccounts::GroupAccounts()
    : notes_(std::make_unique_for_overwrite<Note[]>(kBatches * kBatchNotes)) {
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
  const size_t behind = ++noted_ - counted_;
  begin_batch();
  if (!thread_ && !alone_) {
    alone_ = usable_processors() < 2;
    try {
      if (!alone_) thread_.emplace([this](const std::stop_token& stop) { count_behind(stop); });
    } catch (const std::system_error&) {
      alone_ = true;  // no more threads are to be had
    }
  }
  if (alone_) {
    count_next();
  } else if (behind == kWorthWaking) {
    { const std::lock_guard lock(waiting_); }
    changed_.notify_one();
  } else if (behind == kBatches) {
    count_next();  // else there is no room for the next one
  }
}

/// The thread's.
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

/// False: no batch is full.
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
  next_ = begin_;
}

void GroupAccounts::count(std::span<const Note> notes) {
  constexpr size_t kAhead = 24;
  size_t i = 0;
  for (; i + kAhead < notes.size(); ++i) {
    groups_.prefetch(notes[i + kAhead].group);
    count(notes[i]);
  }
  for (; i < notes.size(); ++i) count(notes[i]);
}

/// Without a branch on what is allocated and what freed, which nobody can guess.
inline void GroupAccounts::count(const Note& note) {
  if (note.flags >= kNewGroup) [[unlikely]]
    return take_special(note);
  Group& group = groups_[note.group];
  if (group.folded != peaks_ended_) note_at_peaks(group);
  const uint64_t allocated = note.flags & kAllocates;
  group.live_bytes += note.bytes;
  group.live_count += static_cast<uint32_t>(note.count);
  group.alloc_bytes += note.bytes & -allocated;
  group.alloc_count += allocated;
  group.temporary_count += (note.flags & kTemporary) / kTemporary;
  const uint64_t settled = (note.flags & kSettles) != 0 ? group.live_bytes : 0;
  group.max_live_bytes = std::max(group.max_live_bytes, settled);
}

void GroupAccounts::take_special(const Note& note) {
  if ((note.flags & kNewGroup) != 0) {
    Group& group = groups_.append();
    group.scope_list = static_cast<ScopeListId>(note.bytes);
    group.folded = peaks_ended_;  // it held nothing at the peaks until now
  } else {
    ended_[note.bytes] = ++peaks_ended_;
  }
}

/// Before the group changes, if peaks have ended since it last did.
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

}  // namespace gpupeak::collector
