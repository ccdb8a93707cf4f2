#include "collector/replay/block_roles.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

void BlockUses::add(const UsedEvent& used, uint64_t ticks) {
  is_known = true;
  if (used.count == 0) return;
  const uint64_t its_first = ticks - used.first_ago, its_last = ticks - used.last_ago;
  if (count == 0) first = its_first;
  last = std::max(last, its_last);
  count += used.count;
  if (used.idle <= idle) return;
  idle = used.idle;
  idle_since = ticks - used.idle_since_ago;
}

UseStanding BlockUses::at(uint64_t ticks) const {
  if (!is_known) return {UseAtPeak::kNotKnown, 0};
  if (count == 0) return {UseAtPeak::kNever, 0};
  if (last <= ticks) return {UseAtPeak::kOver, ticks - last};
  if (first > ticks) return {UseAtPeak::kEarly, first - ticks};
  const bool spans = idle_since <= ticks && idle_since + idle > ticks;
  return spans ? UseStanding{UseAtPeak::kIdle, idle} : UseStanding{UseAtPeak::kInUse, 0};
}

BlockRoles::BlockRoles(const Definitions& definitions)
    : are_recorded_(definitions.fact("roles") == "on"),
      have_all_launches_(definitions.fact("launches").empty()) {}

void BlockRoles::began(uint64_t id, Block block) {
  if (id == last_ended_) {
    block = last_;
    block.freed.reset();
    std::vector<Block>& ended = ended_[block.device].blocks;
    if (!ended.empty() && ended.back().ticks == block.ticks && ended.back().group == block.group)
      ended.pop_back();
  }
  live_.insert_or_assign(id, std::move(block));
}

void BlockRoles::ended(uint64_t id, uint64_t ticks, uint64_t peak_ticks) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  last_ended_ = id;
  last_ = std::move(found->second);
  last_.freed = ticks;
  live_.erase(found);
  if (last_.ticks > peak_ticks) return;
  Ended& ended = ended_[last_.device];
  if (ended.peak_ticks != peak_ticks) ended = {peak_ticks, {}};
  ended.blocks.push_back(last_);
}

void BlockRoles::define(const KernelEvent& kernel, uint32_t stack) {
  kernels_[kernel.kernel] = {kernel.name, stack};
}

BlockRoles::Kernel BlockRoles::kernel(uint64_t number) const {
  const auto found = kernels_.find(number);
  return found != kernels_.end() ? found->second : Kernel{};
}

void BlockRoles::note(const RoleEvent& event) {
  const auto block = event.arena == 0 ? live_.find(event.block) : live_.end();
  if (block == live_.end()) return;
  std::vector<Role>& roles = block->second.roles;
  const auto known = std::ranges::find_if(roles, [&](const Role& role) {
    return role.kernel == event.kernel && role.place == event.place;
  });
  if (known == roles.end())
    roles.push_back({event.kernel, event.place, event.count});
  else
    known->count = std::max(known->count, event.count);
}

void BlockRoles::note(const UsedEvent& used, uint64_t ticks) {
  const auto found = used.arena == 0 ? live_.find(used.block) : live_.end();
  if (found != live_.end()) found->second.uses.add(used, ticks);
}

}  // namespace gpupeak::collector
