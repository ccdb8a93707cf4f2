#include <algorithm>

#include "collector/replay/replay.h"
#include "gpupeak/log_format.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
/// Memory without any access is only addresses, and does not count.
void MappingTable::count(uint64_t begin, const Mapping& mapping, int16_t sign, bool allocates,
                         Changes& changes) {
  if (mapping.prot == 0) {
    if (mapping.rests) resting_bytes_ += (mapping.end - begin) * static_cast<uint64_t>(sign);
    return;
  }
  changes.push_back(
      {mapping.group, static_cast<int64_t>(mapping.end - begin) * sign, sign, allocates});
}

/// Makes `address` a border between two mappings if it lies inside one.
void MappingTable::split_at(uint64_t address, Changes& changes) {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return;
  --it;
  if (it->first == address || it->second.end <= address) return;
  const Mapping right = it->second;
  count(it->first, it->second, -1, false, changes);
  it->second.end = address;
  count(it->first, it->second, +1, false, changes);
  mappings_.emplace_hint(std::next(it), address, right);
  count(address, right, +1, false, changes);
}

/// Removes the mappings of a range, and calls `leave(piece)` for each before.
template <typename Leave>
void MappingTable::remove(uint64_t address, uint64_t bytes, Changes& changes, Leave leave) {
  const uint64_t end = address + whole_pages(bytes);
  if (end <= address) return;
  split_at(address, changes);
  split_at(end, changes);
  auto it = mappings_.lower_bound(address);
  while (it != mappings_.end() && it->first < end) {
    leave(*it);
    it = mappings_.erase(it);
  }
}

void MappingTable::unmap(uint64_t address, uint64_t bytes, Changes& changes) {
  remove(address, bytes, changes,
         [&](const auto& piece) { count(piece.first, piece.second, -1, false, changes); });
}

void MappingTable::map(uint64_t address, uint64_t bytes, uint32_t prot, uint8_t kind, GroupId group,
                       Changes& changes) {
  const uint64_t end = address + whole_pages(bytes);
  if (end <= address) return;
  unmap(address, bytes, changes);
  const Mapping mapping{end, prot, group, kind};
  mappings_.emplace(address, mapping);
  count(address, mapping, +1, true, changes);
}

/// Joins two mappings that are alike: an allocator that commits a reserved range step by step would
/// leave a piece for every step.
void MappingTable::join_with_previous(Map::iterator it, Changes& changes) {
  if (it == mappings_.begin() || it == mappings_.end()) return;
  const auto before = std::prev(it);
  Mapping joined = before->second;
  if (joined.end != it->first) return;
  joined.end = it->second.end;
  if (joined != it->second) return;
  count(before->first, before->second, -1, false, changes);
  count(it->first, it->second, -1, false, changes);
  count(before->first, joined, +1, false, changes);
  before->second = joined;
  mappings_.erase(it);
}

bool MappingTable::protect(uint64_t address, uint64_t bytes, uint32_t prot, Changes& changes) {
  const uint64_t end = address + whole_pages(bytes);
  if (end <= address) return true;
  if (protected_ > kMostMappings) return false;
  split_at(address, changes);
  split_at(end, changes);
  uint64_t count_of_mappings = 0;
  for (auto it = mappings_.lower_bound(address); it != mappings_.end() && it->first < end; ++it) {
    ++count_of_mappings;
    const bool commits = it->second.prot == 0 && prot != 0;
    count(it->first, it->second, -1, false, changes);
    it->second.rests =
        prot == 0 &&
        (it->second.rests || (it->second.prot != 0 && it->second.kind == GPUPEAK_KIND_MMAP_ANON));
    it->second.prot = prot;
    count(it->first, it->second, +1, commits, changes);
  }
  for (auto it = mappings_.lower_bound(address); it != mappings_.end() && it->first < end;) {
    join_with_previous(it++, changes);
  }
  join_with_previous(mappings_.lower_bound(end), changes);
  protected_ += count_of_mappings - std::min(count_of_mappings, kFewMappings);
  return true;
}

void MappingTable::put_back(const Taken& taken, Changes& changes) {
  for (const auto& [begin, mapping] : taken.pieces) {
    unmap(begin, mapping.end - begin, changes);
    mappings_.emplace(begin, mapping);
    if (!taken.moves) count(begin, mapping, +1, false, changes);
  }
  if (taken.pieces.empty()) return;
  join_with_previous(mappings_.lower_bound(taken.pieces.front().first), changes);
  join_with_previous(mappings_.lower_bound(taken.pieces.back().second.end), changes);
}

void MappingTable::take(uint32_t slot, uint64_t address, uint64_t bytes, bool moves,
                        Changes& changes) {
  Taken& taken = taken_[slot];
  if (taken.moves) put_back(taken, changes);  // a remap that never ended: a longjmp left it
  taken.address = address;
  taken.bytes = bytes;
  taken.moves = moves;
  taken.pieces.clear();
  remove(address, bytes, changes, [&](const auto& piece) {
    if (!moves) count(piece.first, piece.second, -1, false, changes);
    taken.pieces.push_back(piece);
  });
}

void MappingTable::unmap(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
  take(slot, address, bytes, false, changes);
}

void MappingTable::remap_begins(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
  take(slot, address, bytes, true, changes);
}

void MappingTable::take_back(uint32_t slot, uint64_t address, uint64_t bytes, Changes& changes) {
  const auto found = taken_.find(slot);
  if (found == taken_.end()) return;
  if (found->second.address != address || found->second.bytes != bytes) return;  // that is lost
  const Taken taken = std::move(found->second);
  taken_.erase(found);
  put_back(taken, changes);
}

void MappingTable::remap(uint32_t slot, const Move& move, const GroupOf& group_of,
                         Changes& changes) {
  if (const auto taken = taken_.find(slot); taken != taken_.end() && taken->second.moves) {
    const auto pieces = std::move(taken->second.pieces);
    taken_.erase(taken);
    if (pieces.empty()) return;
    for (const auto& [begin, mapping] : pieces) count(begin, mapping, -1, false, changes);
    const Mapping& old = pieces.front().second;
    map(move.new_address, move.new_bytes, old.prot, old.kind, group_of(old.kind), changes);
    return;
  }
  auto it = mappings_.upper_bound(move.old_address);
  if (it == mappings_.begin()) return;
  --it;
  if (it->second.end <= move.old_address) return;
  const Mapping old = it->second;
  unmap(move.old_address, move.old_bytes, changes);
  map(move.new_address, move.new_bytes, old.prot, old.kind, group_of(old.kind), changes);
}

}  // namespace gpupeak::collector
