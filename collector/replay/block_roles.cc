#include "collector/replay/block_roles.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

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
  if (found == live_.end()) return;
  Block& block = found->second;
  block.is_timed = true;
  if (used.count == 0) return;
  if (block.uses == 0) block.first = ticks - std::min(ticks, used.first_ago);
  block.last = ticks - std::min(ticks, used.last_ago);
  block.uses += used.count;
}

}  // namespace gpupeak::collector
