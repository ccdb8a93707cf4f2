#include "collector/replay/arena_causes.h"

#include <array>

namespace gpupeak::collector {

GroupId ArenaCauses::group_of(size_t arena, GroupId taken_by) {
  const auto [scope, is_new_arena] = scopes_.try_emplace(arena);
  if (is_new_arena) scope->second = peaks_.add_scope();
  const auto [group, is_new] = groups_.try_emplace({arena, taken_by});
  if (is_new) {
    group->second = peaks_.add_group(std::array{scope->second});
    causes_.push_back({arena, taken_by, {}, 0, 0});
  }
  return group->second;
}

void ArenaCauses::take(size_t arena, const Segment& segment, uint64_t in_use_bytes,
                       uint64_t ticks) {
  const GroupId group = group_of(arena, segment.taken_by);
  const ScopeId scope = scopes_.at(arena);
  const uint64_t largest_before = peaks_.scope(scope).peak;
  peaks_.add(group, segment.bytes, ticks);
  Cause& cause = causes_[group];
  if (segment.bytes > cause.largest.bytes) {
    cause.largest = segment;
    cause.in_use_bytes = in_use_bytes;
    cause.ticks = ticks;
  }
  const uint64_t largest = peaks_.scope(scope).peak;
  if (largest == largest_before) return;
  std::vector<Growth>& growths = growths_[arena];
  if (growths.empty() || growths.back().taken_by != segment.taken_by)
    growths.push_back({segment.taken_by, ticks, 0, 0, in_use_bytes, 0});
  Growth& growth = growths.back();
  growth.bytes += largest - largest_before;
  growth.asked_bytes += segment.asked_bytes;
  growth.reserved_bytes = largest;
}

void ArenaCauses::give_back(size_t arena, const Segment& segment) {
  peaks_.remove(group_of(arena, segment.taken_by), segment.bytes);
}

const std::vector<ArenaCauses::Growth>& ArenaCauses::growths(size_t arena) const {
  static const std::vector<Growth> kNone;
  const auto found = growths_.find(arena);
  return found == growths_.end() ? kNone : found->second;
}

uint64_t ArenaCauses::reserved(size_t arena) const {
  const auto scope = scopes_.find(arena);
  return scope == scopes_.end() ? 0 : peaks_.scope(scope->second).current;
}

}  // namespace gpupeak::collector
