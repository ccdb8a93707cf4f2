#include "collector/export/event_walk.h"

#include <algorithm>

#include "collector/text/sanitize.h"

namespace gpupeak::collector {

EventWalk::EventWalk(Profile& profile)
    : profile_(profile),
      replay_(profile.log(), this),
      just_freed_(profile.log().slots().size()),
      tids_(profile.log().slots().size()),
      thread_phases_(profile.log().slots().size()),
      rule_phases_(profile.log().slots().size()),
      last_ticks_(profile.log().slots().size()) {
  replay_.use_phases(profile.stack_phases());
}

void EventWalk::walk(const Progress& progress) {
  EventStream stream(profile_.log(), progress);
  stream.run(*this);
  for (uint32_t slot = 0; slot < thread_phases_.size(); ++slot) {
    if (rule_phases_[slot] != 0) end_rule_phase(slot, slot != active_slot_);
    close_phases(tids_[slot], thread_phases_[slot]);
  }
  close_phases(kProcessTrack, process_phases_);
  for (const auto& [id, name] : ranges_) on_range_end(id, name);
  replay_.finish(stream.counts());
}

void EventWalk::on_step(std::span<const PeakFinder::Change> step) {
  for (const PeakFinder::Change& change : step) {
    on_change({change.bytes, change.count, replay_.sites().info(change.group).stack,
               replay_.sites().context_of(change.group)});
  }
}

void EventWalk::on_event(const Event& event) {
  ticks_ = event.ticks;
  const bool rested = event.slot != active_slot_;
  if (tids_[event.slot] != event.tid) {
    if (rule_phases_[event.slot] != 0) end_rule_phase(event.slot, rested);
    close_phases(tids_[event.slot], thread_phases_[event.slot]);
    tids_[event.slot] = event.tid;
  }
  replay_.on_event(event);
  if (!profile_.rules().phases.empty()) change_rule_phase(event, rested);
  const auto with = [](const auto& parsed, auto&& handle) {
    if (!parsed.malformed) handle(parsed);
  };
  switch (event.tag) {
    case GPUPEAK_REC_DEVICE_ALLOC:
      with(parse_device_alloc(event), [&](const auto& e) { driver_alloc(e, event); });
      break;
    case GPUPEAK_REC_DEVICE_FREE:
      with(parse_device_free(event), [&](const auto& e) { driver_free(e, event); });
      break;
    case GPUPEAK_REC_DEVICE_REVIVE:
      with(parse_device_revive(event), [&](const auto& e) { driver_revive(e, event); });
      break;
    case GPUPEAK_REC_PHASE_PUSH:
      with(parse_phase_push(event), [&](const auto& e) { push_phase(e, event); });
      break;
    case GPUPEAK_REC_PHASE_POP:
      with(parse_phase_pop(event), [&](const auto& e) { pop_phase(e, event); });
      break;
    case GPUPEAK_REC_RANGE_BEGIN:
      with(parse_range_begin(event), [&](const auto& e) {
        const auto [range, added] = ranges_.try_emplace(e.id, name_of(e));
        if (added) on_range_begin(e.id, range->second);
      });
      break;
    case GPUPEAK_REC_RANGE_END:
      with(parse_range_end(event), [&](const auto& e) {
        const auto range = ranges_.find(e.id);
        if (range == ranges_.end()) return;
        on_range_end(e.id, range->second);
        ranges_.erase(range);
      });
      break;
    case GPUPEAK_REC_SAMPLE:
      with(parse_sample(event), [&](const auto& e) { on_sample(e); });
      break;
    default:
      break;
  }
  after_event();
}

// ---- the driver's blocks, by the rules of Replay
// ------------------------------------------------------

void EventWalk::driver_alloc(const DeviceAllocEvent& alloc, const Event& event) {
  just_freed_[event.slot].clear();
  const auto stale = blocks_.find(alloc.id);
  if (stale != blocks_.end()) {
    on_driver_free(stale->second);
    blocks_.erase(stale);
  }
  const auto added = blocks_.emplace(alloc.id, DriverBlock{alloc, event.ticks, event.tid}).first;
  if (added->second.alloc.stack >= profile_.definitions().nodes().size()) {
    added->second.alloc.stack = 0;
  }
  on_driver_alloc(added->second);
}

void EventWalk::driver_free(const DeviceFreeEvent& free, const Event& event) {
  const auto entry = blocks_.find(free.id);
  if (entry == blocks_.end()) return;
  on_driver_free(entry->second);
  just_freed_[event.slot].push_back(entry->second);
  blocks_.erase(entry);
}

/// Told as an allocation: that the free failed is known too late.
void EventWalk::driver_revive(const DeviceReviveEvent& revive, const Event& event) {
  std::vector<DriverBlock>& freed = just_freed_[event.slot];
  const auto block = std::find_if(freed.begin(), freed.end(), [&](const DriverBlock& candidate) {
    return candidate.alloc.id == revive.id;
  });
  if (block == freed.end() || blocks_.contains(revive.id)) return;
  on_driver_alloc(blocks_.emplace(revive.id, *block).first->second);
  freed.erase(block);
}

// ---- phases
// -------------------------------------------------------------------------------------------

std::string EventWalk::name_of(const PhaseEvent& phase) const {
  const Definitions& definitions = profile_.definitions();
  std::string name = sanitize(phase.name != 0 ? definitions.string(phase.name) : phase.text);
  if (phase.source != GPUPEAK_PHASE_NVTX || phase.instance == 0) return name;
  return sanitize(definitions.string(static_cast<uint32_t>(phase.instance))) + ":" + name;
}

void EventWalk::push_phase(const PhaseEvent& phase, const Event& event) {
  Phases& open = phase.of_process ? process_phases_ : thread_phases_[event.slot];
  open.push_back({phase.source, phase.instance, name_of(phase)});
  on_phase_begin(phase.of_process ? kProcessTrack : event.tid, open.back().name);
}

/// As PhaseTree has it: of a thread that has rested with its last event. A phase of a rule that
/// ends below others has them begin again, even those that the report has after it: what has been
/// written already stays.
void EventWalk::end_rule_phase(uint32_t slot, bool rested) {
  Event thread;
  thread.slot = slot;
  thread.tid = tids_[slot];
  PhaseEvent phase;
  phase.source = GPUPEAK_PHASE_RULE;
  const uint64_t now = ticks_;
  if (rested) ticks_ = last_ticks_[slot];
  pop_phase(phase, thread);
  ticks_ = now;
  rule_phases_[slot] = 0;
}

void EventWalk::change_rule_phase(const Event& event, bool rested) {
  active_slot_ = event.slot;
  PhaseId& shown = rule_phases_[event.slot];
  const PhaseId now = replay_.phases().phase_of_rule(event.slot);
  if (now != shown && shown != 0) end_rule_phase(event.slot, rested);
  last_ticks_[event.slot] = event.ticks;
  if (now == shown) return;
  shown = now;
  thread_phases_[event.slot].push_back(
      {GPUPEAK_PHASE_RULE, 0, profile_.sites().phase_name(now).value_or("")});
  on_phase_begin(event.tid, thread_phases_[event.slot].back().name);
}

void EventWalk::pop_phase(const PhaseEvent& phase, const Event& event) {
  Phases& open = phase.of_process ? process_phases_ : thread_phases_[event.slot];
  const uint32_t track = phase.of_process ? kProcessTrack : event.tid;
  const auto is_meant = [&](const OpenPhase& candidate) {
    return candidate.source == phase.source && candidate.instance == phase.instance;
  };
  auto found = std::find_if(open.rbegin(), open.rend(), is_meant);
  if (found == open.rend() && phase.source == GPUPEAK_PHASE_AUTO) found = open.rbegin();
  if (found == open.rend()) return;
  const auto closed = std::prev(found.base());
  for (auto above = closed; above != open.end(); ++above) on_phase_end(track);
  for (auto above = open.erase(closed); above != open.end(); ++above) {
    on_phase_begin(track, above->name);
  }
}

void EventWalk::close_phases(uint32_t track, Phases& open) {
  for (; !open.empty(); open.pop_back()) on_phase_end(track);
}

}  // namespace gpupeak::collector
