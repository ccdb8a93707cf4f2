#include "collector/replay/replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

uint64_t usable_bytes(uint64_t bytes, int64_t slack) {
  return bytes + static_cast<uint64_t>(slack);
}

/// A device block that lives shorter than this is temporary: a second, or a tenth of a short run.
uint64_t short_life_ticks(const ClockMap& clock) {
  const uint64_t second = clock.ticks_per_second();
  const uint64_t tenth = clock.span_ticks() / 10;
  return tenth == 0 ? second : std::min(second, tenth);
}

}  // namespace

Replay::Replay(const LogReader& log, StepObserver* observer)
    : log_(log),
      observer_(observer),
      sites_(peaks_),
      slots_(log.slots().size()),
      short_life_ticks_(short_life_ticks(log.clock())) {
  arenas_.use_heap([this](uint64_t address, uint64_t& begin, uint64_t& bytes) {
    const Block* block = blocks_.around(address);
    if (block == nullptr) return false;
    begin = block->address;
    bytes = block->bytes;
    return true;
  });
  device_scope_ = sites_.scopes_for(GPUPEAK_KIND_LINEAR, -1)[1];
  host_scope_ = sites_.scopes_for(GPUPEAK_KIND_HEAP, -1)[1];
  if (log.header().host_mode == GPUPEAK_HOST_SAMPLED) {
    sample_bytes_ = static_cast<double>(log.header().sample_bytes);
    for (SlotState& slot : slots_) slot.sample_bytes = sample_bytes_;
  }
}

void Replay::use_phases(const StackPhases& phases) {
  if (phases.rule_count() == 0) return;
  stack_phases_ = &phases;
  const std::vector<std::string_view>& strings = log_.definitions().strings();
  for (uint32_t rule = 0; rule < phases.rule_count(); ++rule) {
    const auto known = std::find(strings.begin(), strings.end(), phases.name(rule));
    rule_names_.push_back(known == strings.end() ? name_id(0, phases.name(rule))
                                                 : static_cast<uint32_t>(known - strings.begin()));
  }
}

void Replay::run(const Progress& progress) {
  EventStream stream(log_, progress);
  stream.run(*this);
  finish(stream.counts());
}

void Replay::finish(const StreamCounts& counts) {
  phases_.finish(last_ticks_, phase_gauges());
  peaks_.finish();
  arenas_.finish();
  stream_counts_ = counts;
}

uint64_t Replay::largest_alloc_bytes(int32_t device) const {
  const auto entry = largest_alloc_bytes_.find(device);
  return entry == largest_alloc_bytes_.end() ? 0 : entry->second;
}

void Replay::change_slot(const Event& event) {
  if (active_slot_ < slots_.size() && slots_[active_slot_].rule != kNoRule) {
    phases_.rest(active_slot_, last_ticks_, phase_gauges());
  }
  active_slot_ = event.slot;
  take(event);
  phases_.wake(event.slot);
}

[[gnu::flatten]] void Replay::take(const Event& event) {
  SlotState& slot = slots_[event.slot];
  last_ticks_ = event.ticks;
  if (slot.tid != event.tid) [[unlikely]]
    change_thread(slot, event);
  switch (event.tag) {
    case GPUPEAK_REC_ALLOC:
      heap_alloc(slot, event);
      break;
    case GPUPEAK_REC_FREE:
      heap_free(slot, event);
      break;
    case GPUPEAK_REC_REALLOC_BEGIN:
      realloc_begin(slot, event);
      break;
    case GPUPEAK_REC_REALLOC_END:
      realloc_end(slot, event);
      break;
    case GPUPEAK_REC_REALLOC_FAILED:
      realloc_failed(slot);
      break;
    default:
      rare_event(slot, event);
      break;
  }
}

// ---- heap
// -------------------------------------------------------------------------------------------

/// In a Poisson sample by bytes a block of this size is seen with probability 1 - exp(-bytes /
/// mean), and stands for that many times its size more.
uint64_t Replay::weight(const SlotState& slot, uint64_t bytes) {
  if (slot.sample_bytes <= 0 || bytes == 0) return bytes;
  const auto size = static_cast<double>(bytes);
  return static_cast<uint64_t>(std::llround(size / -std::expm1(-size / slot.sample_bytes)));
}

/// What a block adds to the variance is at most the square of the mean, whatever its size: with x =
/// size / mean it is that times (x/2 / sinh(x/2))^2.
uint64_t Replay::sampling_error(uint64_t sampled_count) const {
  constexpr double kDeviations = 1.96;
  return static_cast<uint64_t>(
      std::ceil(kDeviations * sample_bytes_ * std::sqrt(static_cast<double>(sampled_count))));
}

void Replay::begin_sampling(SlotState& slot, const SamplingEvent& sampling, uint64_t ticks) {
  slot.sample_bytes = sample_bytes_ = static_cast<double>(sampling.sample_bytes);
  if (!sampled_since_) sampled_since_ = ticks;
  ++phase_changes_;
}

uint32_t Replay::checked_stack(uint32_t stack) {
  if (stack < log_.definitions().nodes().size()) [[likely]]
    return stack;
  ++troubles_.undefined_stacks;
  return 0;
}

SiteContext Replay::context(const SlotState& slot, const Event& event, uint8_t kind, int32_t device,
                            uint32_t api) const {
  const uint32_t tag = slot.tags.empty() ? 0 : slot.tags.back();
  const bool sampled = kind == GPUPEAK_KIND_HEAP && slot.sample_bytes > 0;
  return {kind, device, phases_.innermost(event.slot), event.tid, api, tag, sampled};
}

GroupId Replay::heap_group(SlotState& slot, const Event& event) {
  enter_rule(slot, event, event.stack);
  if (slot.heap_context_valid_for != phase_changes_ + 1) [[unlikely]] {
    slot.heap_context = sites_.context(context(slot, event, GPUPEAK_KIND_HEAP));
    slot.heap_context_valid_for = phase_changes_ + 1;
  }
  return sites_.group(slot.heap_context, checked_stack(event.stack));
}

/// The place of the block that the event makes. A block still live at an address that is handed out
/// again was freed unseen.
Block& Replay::claim_block(const Event& event) {
  bool added = false;
  Block& block = blocks_.claim(event.address, added);
  if (!added) [[unlikely]] {
    ++troubles_.repairs;
    count_out(block.group, block.bytes);
    heap_usable_.current -= usable_bytes(block.bytes, block.slack);
  }
  return block;
}

Block Replay::new_block(SlotState& slot, const Event& event) {
  const auto slack = static_cast<int32_t>(std::clamp<int64_t>(event.slack, INT32_MIN, INT32_MAX));
  return {event.address, weight(slot, event.size), slack, heap_group(slot, event)};
}

void Replay::heap_alloc(SlotState& slot, const Event& event) {
  if (event.address == 0) {
    ++troubles_.malformed_events;
    return;
  }
  Block& block = claim_block(event);
  block = new_block(slot, event);
  count_in(block.group, block.bytes, event.ticks);
  heap_usable_.set(heap_usable_.current + usable_bytes(block.bytes, block.slack));
  slot.last_allocated = event.address;
}

void Replay::heap_free(SlotState& slot, const Event& event) {
  Block* block = blocks_.find(event.address);
  if (block == nullptr) {
    ++troubles_.unknown_heap_frees;
    return;
  }
  if (arenas_.has_heap_blocks()) [[unlikely]]
    arenas_.heap_freed(event.address, event.ticks);
  count_out(block->group, block->bytes);
  heap_usable_.current -= usable_bytes(block->bytes, block->slack);
  if (slot.last_allocated == event.address) {
    ++sites_.info(block->group).temporary_count;
    slot.last_allocated = 0;
  }
  blocks_.erase(block);
}

void Replay::realloc_begin(SlotState& slot, const Event& event) {
  forget_realloc(slot);
  slot.reallocating = true;
  slot.old_block = {};
  Block* block = blocks_.find(event.address);
  if (block == nullptr) {
    ++troubles_.unknown_heap_frees;
    return;
  }
  if (arenas_.has_heap_blocks()) arenas_.heap_freed(event.address, event.ticks);
  slot.old_block = *block;  // counted until the end, but its address may be handed out before
  blocks_.erase(block);
}

void Replay::put_back_old_block(SlotState& slot) {
  if (slot.old_block.address == 0) return;
  bool added = false;
  Block& place = blocks_.claim(slot.old_block.address, added);
  if (added) {
    place = slot.old_block;
    return;
  }
  ++troubles_.repairs;
  count_out(slot.old_block.group, slot.old_block.bytes);
  heap_usable_.current -= usable_bytes(slot.old_block.bytes, slot.old_block.slack);
}

/// A realloc whose end never came: the writer lost it.
void Replay::forget_realloc(SlotState& slot) {
  if (!slot.reallocating) return;
  ++troubles_.repairs;
  slot.reallocating = false;
  put_back_old_block(slot);
}

void Replay::realloc_end(SlotState& slot, const Event& event) {
  const bool begun = slot.reallocating;
  slot.reallocating = false;
  if (!begun) ++troubles_.repairs;
  if (begun && event.address == 0) put_back_old_block(slot);
  const Block old = std::exchange(slot.old_block, {});
  if (!begun || old.address == 0 || event.address == 0) return heap_alloc(slot, event);
  Block& block = claim_block(event);
  block = new_block(slot, event);
  const std::array<PeakFinder::Change, 2> step{
      {{old.group, -static_cast<int64_t>(old.bytes), -1, false},
       {block.group, static_cast<int64_t>(block.bytes), +1, true}}};
  apply(step, event.ticks);
  heap_usable_.set(heap_usable_.current - usable_bytes(old.bytes, old.slack) +
                   usable_bytes(block.bytes, block.slack));
  slot.last_allocated = event.address;
}

void Replay::realloc_failed(SlotState& slot) {
  if (!slot.reallocating) {
    ++troubles_.repairs;
    return;
  }
  slot.reallocating = false;
  put_back_old_block(slot);
  slot.old_block = {};
}

// ---- everything else
// --------------------------------------------------------------------------------

PhaseGauges Replay::phase_gauges() {
  PhaseGauges gauges;
  gauges.now = {peaks_.scope(device_scope_).current, peaks_.scope(host_scope_).current};
  gauges.owned = peaks_.owned();
  gauges.max = {peaks_.take_recent_max(device_scope_), peaks_.take_recent_max(host_scope_)};
  return gauges;
}

void Replay::change_thread(SlotState& slot, const Event& event) {
  if (slot.tid != 0) phases_.end_thread(event.slot, event.ticks, phase_gauges());
  slot.tid = event.tid;
  slot.last_allocated = 0;
  slot.tags.clear();
  ++phase_changes_;
}

void Replay::change_rule(SlotState& slot, const Event& event, uint32_t stack) {
  const bool known = stack != 0;
  const uint32_t rule = known ? stack_phases_->rule_of(stack) : slot.rule;
  if (rule == slot.rule && slot.rule_valid_for == phase_changes_ + 1) return;
  if (known) {
    const uint32_t name = rule == kNoRule ? 0 : rule_names_[rule];
    phases_.set_rule(event.slot, name, event.ticks, phase_gauges());
  } else {
    phases_.settle_rule(event.slot, phase_gauges());
  }
  slot.rule = rule;
  slot.rule_valid_for = ++phase_changes_ + 1;
}

void Replay::rare_event(SlotState& slot, const Event& event) {
  if (is_device_event(event.tag) && event.tag != GPUPEAK_REC_DEVICE_FREE &&
      event.tag != GPUPEAK_REC_DEVICE_REVIVE) {
    slot.just_freed.clear();
  }
  const auto with = [this](const auto& parsed, auto&& handle) {
    if (parsed.malformed) {
      ++troubles_.malformed_events;
    } else {
      handle(parsed);
    }
  };
  changes_.clear();
  switch (event.tag) {
    case GPUPEAK_REC_THREAD:
      with(parse_thread(event), [&](const auto& e) { thread_names_[e.tid] = e.name; });
      break;
    case GPUPEAK_REC_MAP:
      with(parse_map(event), [&](const auto& e) { on_map(e, event); });
      break;
    case GPUPEAK_REC_UNMAP:
      with(parse_unmap(event),
           [&](const auto& e) { mappings_.unmap(e.address, e.bytes, changes_); });
      break;
    case GPUPEAK_REC_PROTECT:
      with(parse_protect(event),
           [&](const auto& e) { mappings_.protect(e.address, e.bytes, e.prot, changes_); });
      break;
    case GPUPEAK_REC_REMAP:
      with(parse_remap(event), [&](const auto& e) { on_remap(e, event); });
      break;
    case GPUPEAK_REC_PHASE_PUSH:
      with(parse_phase_push(event), [&](const auto& e) { on_phase(e, event, true); });
      break;
    case GPUPEAK_REC_PHASE_POP:
      with(parse_phase_pop(event), [&](const auto& e) { on_phase(e, event, false); });
      break;
    case GPUPEAK_REC_TAG_PUSH:
      with(parse_tag_push(event), [&](const auto& e) { on_tag(slot, e); });
      break;
    case GPUPEAK_REC_TAG_POP:
      on_tag_pop(slot);
      break;
    case GPUPEAK_REC_RANGE_BEGIN:
      with(parse_range_begin(event), [&](const auto& e) {
        phases_.begin_range(e.id, e.source, name_id(e.name, e.text), event.ticks, phase_gauges(),
                            e.instance);
      });
      break;
    case GPUPEAK_REC_RANGE_END:
      with(parse_range_end(event),
           [&](const auto& e) { phases_.end_range(e.id, event.ticks, phase_gauges()); });
      break;
    case GPUPEAK_REC_MARK:
      with(parse_mark(event), [&](const auto& e) { on_mark(e, event); });
      break;
    case GPUPEAK_REC_ARENA:
      with(parse_arena(event),
           [&](const auto& e) { arenas_.on_arena(e, name_id(e.name, e.text), event.ticks); });
      break;
    case GPUPEAK_REC_ARENA_ALLOC:
      with(parse_arena_alloc(event),
           [&](const auto& e) { arenas_.allocate(e, checked_stack(e.stack), event.ticks); });
      break;
    case GPUPEAK_REC_ARENA_FREE:
      with(parse_arena_free(event), [&](const auto& e) { arenas_.free(e, event.ticks); });
      break;
    case GPUPEAK_REC_ARENA_FAILED:
      with(parse_arena_failed(event),
           [&](const auto& e) { arenas_.failed(e, checked_stack(e.stack), event.ticks); });
      break;
    case GPUPEAK_REC_DEVICE_MAPPED:
      with(parse_device_mapped(event),
           [&](const auto& e) { arenas_.device_mapped(e.address, e.bytes, e.id, event.ticks); });
      break;
    case GPUPEAK_REC_DEVICE_UNMAPPED:
      with(parse_device_unmapped(event),
           [&](const auto& e) { arenas_.device_unmapped(e.address, e.bytes, event.ticks); });
      break;
    case GPUPEAK_REC_SAMPLING:
      with(parse_sampling(event), [&](const auto& e) { begin_sampling(slot, e, event.ticks); });
      break;
    case GPUPEAK_REC_DEVICE_ALLOC:
      with(parse_device_alloc(event), [&](const auto& e) { on_device_alloc(e, event); });
      break;
    case GPUPEAK_REC_DEVICE_FREE:
      with(parse_device_free(event), [&](const auto& e) { on_device_free(slot, e, event); });
      break;
    case GPUPEAK_REC_DEVICE_REVIVE:
      with(parse_device_revive(event), [&](const auto& e) { on_device_revive(slot, e); });
      break;
    case GPUPEAK_REC_DEVICE_FAILED:
      with(parse_device_failed(event), [&](const auto& e) { on_device_failed(e, event); });
      break;
    case GPUPEAK_REC_DEVICE_UNKNOWN:
      ++troubles_.unmatched_device_frees;
      break;
    case GPUPEAK_REC_POOL:
      with(parse_pool(event), [&](const auto& e) { pools_.on_event(e); });
      break;
    case GPUPEAK_REC_DRIVER_READING:
      with(parse_driver_reading(event), [&](const auto& e) { on_driver_reading(e, event); });
      break;
    case GPUPEAK_REC_CONTEXT:  // says nothing about sums: the frees of its blocks come before it
      with(parse_context(event), [&](const auto& e) {
        if (e.event == GPUPEAK_CONTEXT_CREATED && e.device >= 0)
          ledgers_[e.device].context_created();
      });
      break;
    case GPUPEAK_REC_SAMPLE:
      with(parse_sample(event), [&](const auto& e) {
        rss_.set(e.rss);
        brk_growth_.set(e.brk_growth);
      });
      break;
    default:
      break;
  }
  if (!changes_.empty()) apply(changes_, event.ticks);
}

GroupId Replay::mapping_group(const Event& event, uint8_t kind, uint32_t stack) {
  const ContextId id = sites_.context(context(slots_[event.slot], event, kind));
  return sites_.group(id, checked_stack(stack));
}

void Replay::on_map(const MapEvent& map, const Event& event) {
  enter_rule(slots_[event.slot], event, map.stack);
  mappings_.map(map.address, map.bytes, map.prot, map.kind,
                mapping_group(event, map.kind, map.stack), changes_);
}

void Replay::on_remap(const RemapEvent& remap, const Event& event) {
  enter_rule(slots_[event.slot], event, remap.stack);
  mappings_.remap(
      remap.old_address, remap.old_bytes, remap.new_address, remap.new_bytes,
      [&](uint8_t kind) { return mapping_group(event, kind, remap.stack); }, changes_);
}

void Replay::on_phase(const PhaseEvent& phase, const Event& event, bool push) {
  if (push) {
    phases_.push(phase.of_process, event.slot, phase.source, name_id(phase.name, phase.text),
                 event.ticks, phase_gauges(), phase.instance);
  } else {
    phases_.pop(phase.of_process, event.slot, event.ticks, phase_gauges(), phase.source,
                phase.instance);
  }
  ++phase_changes_;
}

void Replay::on_mark(const MarkEvent& mark, const Event& event) {
  if (++mark_count_ > kMaxMarks) return;
  marks_.push_back({event.ticks, event.tid, name_id(mark.name, mark.text), mark.category,
                    mark.instance, mark.source, peaks_.scope(device_scope_).current,
                    peaks_.scope(host_scope_).current});
}

void Replay::on_tag(SlotState& slot, const TagEvent& tag) {
  slot.tags.push_back(name_id(tag.name, tag.text));
  ++phase_changes_;
}

/// One without a push says nothing: the push may have been lost.
void Replay::on_tag_pop(SlotState& slot) {
  if (slot.tags.empty()) return;
  slot.tags.pop_back();
  ++phase_changes_;
}

uint32_t Replay::name_id(uint32_t name, std::string_view text) {
  const size_t first = log_.definitions().strings().size();
  if (name != 0 || text.empty()) return name < first ? name : 0;
  const auto [entry, added] = inline_name_ids_.try_emplace(
      std::string(text), static_cast<uint32_t>(first + inline_names_.size()));
  if (added) inline_names_.push_back(entry->first);
  return entry->second;
}

std::string_view Replay::name(uint32_t id) const {
  const size_t first = log_.definitions().strings().size();
  return id < first ? log_.definitions().string(id) : std::string_view(inline_names_[id - first]);
}

void Replay::on_device_alloc(const DeviceAllocEvent& alloc, const Event& event) {
  const auto stale = device_blocks_.find(alloc.id);
  if (stale != device_blocks_.end()) {
    ++troubles_.repairs;
    count_out(stale->second.group, stale->second.bytes);
    if (PageCount* pages = pages_of(stale->second))
      pages->remove(stale->second.address, stale->second.bytes);
    pools_.freed(stale->second.pool);
    arenas_.device_freed(alloc.id, event.ticks);
    device_blocks_.erase(stale);
  }
  SlotState& slot = slots_[event.slot];
  enter_rule(slot, event, alloc.stack);
  const int32_t device = is_device_kind(alloc.kind) ? alloc.device : -1;
  const ContextId id = sites_.context(context(slot, event, alloc.kind, device, alloc.api));
  const GroupId group = sites_.group(id, checked_stack(alloc.stack));
  count_in(group, alloc.bytes, event.ticks);
  const auto pool =
      alloc.kind == GPUPEAK_KIND_POOL ? pools_.allocated(alloc.aux) : PoolReserves::kNone;
  const DeviceBlock block{alloc.id, alloc.bytes, event.ticks, alloc.address, group, pool};
  device_blocks_.emplace(alloc.id, block);
  arenas_.device_allocated(alloc.id, alloc.kind, device, alloc.address, alloc.bytes, group,
                           event.ticks);
  if (PageCount* pages = pages_of(block)) pages->add(block.address, block.bytes);
  if (is_device_kind(alloc.kind) && counts_into_sum(alloc.kind)) {
    for (const int32_t scope : {-1, device}) {
      uint64_t& largest = largest_alloc_bytes_[scope];
      largest = std::max(largest, alloc.bytes);
    }
  }
}

void Replay::note_life(const DeviceBlock& block, uint64_t ticks) {
  GroupInfo& info = sites_.info(block.group);
  const uint64_t life = ticks - block.ticks;
  info.temporary_count += life < short_life_ticks_;
  info.longest_life_ticks = std::max(info.longest_life_ticks, life);
}

void Replay::on_device_free(SlotState& slot, const DeviceFreeEvent& free, const Event& event) {
  enter_rule(slot, event, free.stack);
  const auto entry = device_blocks_.find(free.id);
  if (entry == device_blocks_.end()) {
    ++troubles_.repairs;
    return;
  }
  const DeviceBlock block = entry->second;
  device_blocks_.erase(entry);
  arenas_.device_freed(free.id, event.ticks);
  count_out(block.group, block.bytes);
  if (PageCount* pages = pages_of(block)) pages->remove(block.address, block.bytes);
  pools_.freed(block.pool);
  note_life(block, event.ticks);
  slot.just_freed.push_back(block);
}

/// The real free failed: the block was live all along.
void Replay::on_device_revive(SlotState& slot, const DeviceReviveEvent& revive) {
  const auto freed = std::find_if(slot.just_freed.begin(), slot.just_freed.end(),
                                  [&](const DeviceBlock& block) { return block.id == revive.id; });
  if (freed == slot.just_freed.end() || device_blocks_.contains(revive.id)) {
    ++troubles_.repairs;
    return;
  }
  changes_.push_back({freed->group, static_cast<int64_t>(freed->bytes), +1, false});
  if (PageCount* pages = pages_of(*freed)) pages->add(freed->address, freed->bytes);
  pools_.revived(freed->pool);
  device_blocks_.emplace(revive.id, *freed);
  const SiteContext& context = sites_.context_of(freed->group);
  arenas_.device_allocated(freed->id, context.kind, context.device, freed->address, freed->bytes,
                           freed->group, last_ticks_);
  slot.just_freed.erase(freed);
}

void Replay::on_device_failed(const DeviceFailedEvent& failed, const Event& event) {
  enter_rule(slots_[event.slot], event, failed.stack);
  ++failure_count_;
  if (failures_.size() == kMaxFailures) return;
  FailedAllocation& failure = failures_.emplace_back();
  failure.ticks = event.ticks;
  failure.event = failed;
  failure.phase = phases_.innermost(event.slot);
  if (failed.device >= 0) {
    failure.tracked = tracked_bytes(failed.device);
    failure.linear_page_bytes = ledgers_[failed.device].pages().bytes();
    failure.reserved_addresses = live_bytes(failed.device, GPUPEAK_KIND_VMM_VA);
    if (failed.free_plus_1 > 0 && failed.total_plus_1 >= failed.free_plus_1) {
      failure.ledger = ledgers_[failed.device].on_failed_allocation(
          failed.total_plus_1 - failed.free_plus_1, failure.tracked, event.ticks);
    }
  }
  if (failures_.size() > kMaxFailuresWithHolders) return;
  const bool of_host = failed.kind != GPUPEAK_KIND_NONE && !is_device_kind(failed.kind);
  for (GroupId id = 0; id < sites_.group_count(); ++id) {
    const PeakFinder::Group& group = peaks_.group(id);
    const SiteContext& context = sites_.context_of(id);
    const bool same_side = is_device_kind(context.kind) != of_host && counts_into_sum(context.kind);
    const bool same_device = of_host || failed.device < 0 || context.device == failed.device;
    if (group.live_bytes == 0 || !same_side || !same_device) continue;
    failure.holders.push_back({id, group.live_bytes, group.live_count});
  }
}

// ---- the ledger
// -----------------------------------------------------------------------------------------

/// Of the block's device, if its kind has pages there.
PageCount* Replay::pages_of(const DeviceBlock& block) {
  const SiteContext& context = sites_.context_of(block.group);
  if (context.device < 0) return nullptr;
  if (context.kind == GPUPEAK_KIND_LINEAR) return &ledgers_[context.device].pages();
  if (context.kind == GPUPEAK_KIND_MANAGED) return &ledgers_[context.device].managed_pages();
  return nullptr;
}

uint64_t Replay::live_bytes(int32_t device, uint8_t kind) const {
  const ScopeId* scope =
      sites_.find_scope("device:" + std::to_string(device) + "/" + std::string(kind_name(kind)));
  return scope != nullptr ? peaks_.scope(*scope).current : 0;
}

TrackedBytes Replay::tracked_bytes(int32_t device) const {
  const auto reserved = pools_.reserved().find(device);
  TrackedBytes tracked{.linear = live_bytes(device, GPUPEAK_KIND_LINEAR),
                       .pool_used = live_bytes(device, GPUPEAK_KIND_POOL),
                       .vmm = live_bytes(device, GPUPEAK_KIND_VMM),
                       .array = live_bytes(device, GPUPEAK_KIND_ARRAY),
                       .graph = live_bytes(device, GPUPEAK_KIND_GRAPH)};
  if (reserved != pools_.reserved().end()) tracked.pool_reserved = reserved->second.current;
  return tracked;
}

void Replay::on_driver_reading(const DriverReadingEvent& reading, const Event& event) {
  ledgers_[reading.device].on_reading(reading, tracked_bytes(reading.device), event.ticks);
}

}  // namespace gpupeak::collector
