#include "collector/replay/replay.h"

#include "collector/log/event_stream.h"
#include "collector/log/log_head.h"
#include "collector/replay/growth_table.h"
#include "collector/text/work.h"

namespace gpupeak::collector {
namespace {

template <class... Parts>
struct Overloaded : Parts... {
  using Parts::operator()...;
};
template <class... Parts>
Overloaded(Parts...) -> Overloaded<Parts...>;

}  // namespace

Replay::Replay(const LogReader& log, ReplayObserver* observer)
    : log_(log),
      observer_(observer),
      live_(observer, log.definitions().integrated_devices()),
      allocation_context_(log, live_, troubles_, observer),
      growth_(std::make_unique<GrowthTable>(live_, arenas_)),
      heap_(log, live_, allocation_context_, arenas_, troubles_),
      device_(log, live_, allocation_context_, arenas_, troubles_, observer) {
  arenas_.use_heap([this](uint64_t address, uint64_t& begin, uint64_t& bytes) {
    const std::optional<Block> block = heap_.block_around(address);
    // A sampled block counts more bytes than it has.
    if (!block || live_.sites().contexts()[block->context].sample_bytes > 0) return false;
    begin = block->address;
    bytes = block->bytes;
    return true;
  });
  if (is_of_attached(log.header())) arenas_.expect_older();
  allocation_context_.watch(*growth_);
  if (observer != nullptr) {
    observer->replay_ = this;
    arenas_.watch(observer);
  }
}

Replay::~Replay() = default;

template <class After>
void Replay::take_all(std::span<const Event> events, std::span<const uint32_t> notes,
                      const After& after) {
  const auto match = [notes](size_t i) { return std::bit_cast<Match>(notes[i]); };
  const auto prefetch = [&](size_t i) { heap_.prefetch(events[i], match(i)); };
  for (size_t i = 0; i < std::min(kAhead, events.size()); ++i) prefetch(i);
  for (size_t i = 0; i < events.size(); ++i) {
    if (i + kAhead < events.size()) prefetch(i + kAhead);
    if (i % kTimesApart == 0) live_.peaks().note_time(events[i].ticks);
    take_next(events[i], notes[i]);
    after(events[i]);
  }
}

void Replay::run(const Progress& progress) {
  BlockMatcher matcher(log_);
  EventStream stream(log_, progress, [&](auto events, auto notes) { matcher.pass(events, notes); });
  stream.run([this](std::span<const Event> events, std::span<const uint32_t> notes) {
    if (observer_ == nullptr)
      take_all(events, notes, [](const Event&) {});
    else
      take_all(events, notes, [this](const Event& event) { observer_->after(event); });
  });
  finish(stream.counts());
}

void Replay::finish(const StreamCounts& counts) {
  allocation_context_.finish(last_ticks_);
  live_.finish();
  arenas_.finish();
  device_.finish();
  stream_counts_ = counts;
  work().records += counts.events;
}

void Replay::take_of_other_slot(const Event& event, uint32_t note) {
  allocation_context_.turn_to(event.slot, last_ticks_);
  take(event, note);
  allocation_context_.wake(event.slot);
}

void Replay::take_extended(const Event& event) {
  // What each extended record means; event.h has them all.
  const Overloaded on{
      [&](const ThreadEvent& thread) { thread_names_[thread.tid] = thread.name; },
      [&](const MapEvent& map) {
        allocation_context_.enter_rule(event, map.stack);
        mappings_.map(map.address, map.bytes, map.prot, map.kind,
                      mapping_group(event, map.kind, map.stack), changes_);
      },
      [&](const UnmapEvent& unmap) {
        mappings_.unmap(event.slot, unmap.address, unmap.bytes, changes_);
      },
      [&](const ProtectEvent& protect) {
        if (!mappings_.protect(protect.address, protect.bytes, protect.prot, changes_))
          ++troubles_.malformed_events;
      },
      [&](const RemapEvent& remap) {
        allocation_context_.enter_rule(event, remap.stack);
        mappings_.remap(
            event.slot, {remap.old_address, remap.old_bytes, remap.new_address, remap.new_bytes},
            [&](uint8_t kind) { return mapping_group(event, kind, remap.stack); }, changes_);
      },
      [&](const RemapBeginEvent& remap) {
        mappings_.remap_begins(event.slot, remap.address, remap.bytes, changes_);
      },
      [&](const RemapFailedEvent& refused) {
        mappings_.take_back(event.slot, refused.address, refused.bytes, changes_);
      },
      [&](const PhasePushEvent& phase) { allocation_context_.push(phase, event); },
      [&](const PhasePopEvent& phase) { allocation_context_.pop(phase, event); },
      [&](const RangeBeginEvent& range) { allocation_context_.begin_range(range, event.ticks); },
      [&](const RangeEndEvent& range) { allocation_context_.end_range(range, event.ticks); },
      [&](const TagPushEvent& tag) { allocation_context_.push_tag(tag, event.slot); },
      [&](const TagPopEvent&) { allocation_context_.pop_tag(event.slot); },
      [&](const MarkEvent& mark) {
        if (++mark_count_ > kMaxMarks) return;
        marks_.push_back({event.ticks, event.tid,
                          allocation_context_.names().id(mark.name, mark.text), mark.category,
                          mark.instance, mark.source, live_.device_bytes(), live_.host_bytes()});
      },
      [&](const ArenaEvent& arena) {
        arenas_.on_arena(arena, allocation_context_.names().id(arena.name, arena.text),
                         event.ticks);
        if (observer_ != nullptr) observer_->on_arena(arena);
      },
      [&](const ArenaAllocEvent& alloc) {
        const uint32_t stack =
            log_.model_tensors().stack_of(alloc, allocation_context_.defined_stack(alloc.stack));
        allocation_context_.enter_rule(event, stack);
        const SiteContext context = allocation_context_.context(event, GPUPEAK_KIND_NONE);
        arenas_.allocate(alloc, stack, event.ticks, {context.phase, context.tag},
                         log_.activation_plans().parts_of(alloc));
        if (observer_ != nullptr) observer_->on_arena_alloc(alloc, stack);
      },
      [&](const ArenaFreeEvent& free) {
        if (free.used && observer_ != nullptr) {
          UsedEvent used;
          static_cast<SeenUses&>(used) = *free.used;
          used.arena = free.arena;
          used.block = free.address;
          observer_->on_used(used, event.ticks);
        }
        arenas_.free(free, event.ticks);
        if (observer_ != nullptr) observer_->on_arena_free(free);
      },
      [&](const ArenaFailedEvent& failed) {
        const uint32_t stack = allocation_context_.defined_stack(failed.stack);
        allocation_context_.enter_rule(event, stack);
        const uint64_t addresses = live_.bytes_of(failed.device, GPUPEAK_KIND_VMM_VA);
        const uint64_t mapped = live_.bytes_of(failed.device, GPUPEAK_KIND_VMM);
        arenas_.failed(failed,
                       {stack, event.tid, allocation_context_.phases().innermost(event.slot),
                        addresses > mapped ? addresses - mapped : 0},
                       event.ticks);
        if (observer_ != nullptr) observer_->on_arena_failed(failed, stack);
      },
      [&](const DeviceMappedEvent& mapped) {
        arenas_.device_mapped(mapped.address, mapped.bytes, mapped.id, event.ticks);
        if (observer_ != nullptr) observer_->on_mapped(mapped);
      },
      [&](const DeviceUnmappedEvent& unmapped) {
        arenas_.device_unmapped(unmapped.address, unmapped.bytes, event.ticks);
        if (observer_ != nullptr) observer_->on_unmapped(unmapped);
      },
      [&](const SamplingEvent& sampling) {
        heap_.begin_sampling(event.slot, sampling, event.ticks);
      },
      [&](const WindowEvent& window) {
        const auto heap =
            static_cast<int64_t>(window.live_bytes) - static_cast<int64_t>(window.below_bytes);
        if (window.event == 0) {
          if (windows_.size() == kMaxWindows) return;
          Window& begun = windows_.emplace_back();
          begun.begin_ticks = event.ticks;
          begun.before_bytes =
              window.live_bytes - std::min(window.live_bytes, window.recorded_bytes);
          // Until now; the window's end says what came since.
          begun.freed_bytes = window.freed_bytes;
          begun.mode = window.mode;
          begun.heap_at_begin = heap;
          begun.device_at_begin = live_.device_bytes();
        } else if (!windows_.empty() && !windows_.back().has_ended &&
                   window.number == windows_.size()) {
          Window& ended = windows_.back();
          ended.has_ended = true;
          ended.end_ticks = event.ticks;
          ended.heap_at_end = heap;
          ended.device_at_end = live_.device_bytes();
          ended.freed_bytes = window.freed_bytes - std::min(window.freed_bytes, ended.freed_bytes);
        }
      },
      [&](const KernelEvent& kernel) {
        device_.roles().define(kernel, allocation_context_.defined_stack(kernel.stack));
      },
      [&](const RoleEvent& role) { device_.roles().note(role); },
      [&](const UsedEvent& used) {
        device_.roles().note(used, event.ticks);
        if (observer_ != nullptr) observer_->on_used(used, event.ticks);
      },
      [&](const UsesEndEvent& end) { uses_end_ = end; },
      [&](const DeviceAllocEvent& alloc) { device_.take(alloc, event); },
      [&](const DeviceFreeEvent& free) { device_.take(free, event); },
      [&](const DeviceReviveEvent& revive) { device_.take(revive, event); },
      [&](const DeviceFailedEvent& failed) { device_.take(failed, event); },
      [&](const HostFailedEvent& failed) { device_.take(failed, event); },
      [&](const ResidentEvent& resident) {
        constexpr uint64_t kNearly = 64;  // a look is better than what one before leads to
        resident_.gpupeaks = std::max(resident_.gpupeaks, resident.own);
        own_memory_.most = most_own();
        note_own(resident.rss, resident.own_bytes());
        const uint64_t known = resident_.own_bytes();
        if (resident.own_bytes() < known - known / kNearly) return;
        const Resident::Counted then{resident.all_anonymous(), heap_.usable().current,
                                     live_.host_bytes_of(GPUPEAK_KIND_MMAP_ANON)};
        resident_ = {resident, mappings_.resting_bytes(), then, then, resident_.gpupeaks};
        find_owners();
      },
      [&](const DeviceUnknownEvent& unknown) {
        ++troubles_.unmatched_device_frees;
        if (unknown.gives_back) {
          device_growth_.given_back(*unknown.gives_back);
        } else {
          device_growth_.given_back_unknown();
        }
      },
      [&](const PoolEvent& pool) { device_.take(pool, event); },
      [&](const ContextEvent& context) { device_.take(context); },
      [&](const DriverReadingEvent& reading) { device_.take(reading, event); },
      [&](const SampleEvent& sample) {
        rss_.set(sample.rss);
        if (sample.own) note_own(sample.rss, *sample.own);
        if (sample.rss > sample.rss_file && sample.rss_file > 0) {  // from outside it is not known
          const uint64_t anonymous = sample.rss - sample.rss_file;
          if (anonymous > resident_.later.anonymous)
            resident_.later = {anonymous, heap_.usable().current,
                               live_.host_bytes_of(GPUPEAK_KIND_MMAP_ANON)};
          // Until somebody looks, the library takes so much to be gpupeak's, too.
          resident_.gpupeaks = std::max<uint64_t>(resident_.gpupeaks, 512 << 10);
        }
        if (sample.pss_plus_1 > 0) pss_.set(sample.pss_plus_1 - 1);
        brk_growth_.set(sample.brk_growth);
        if (observer_ != nullptr) observer_->on_sample(sample);
      }};
  if (observer_ != nullptr) observer_->before(event);
  if (is_device_event(event.tag)) device_.begin(event);
  changes_.clear();
  visit_record(event, [&](const auto& record, std::string_view /*name*/) {
    if (record.malformed) {
      ++troubles_.malformed_events;
    } else {
      on(record);
    }
  });
  if (!changes_.empty()) live_.apply(changes_, event.ticks);
  if (is_device_event(event.tag)) device_growth_.set(live_.device_bytes());
}

GroupId Replay::mapping_group(const Event& event, uint8_t kind, uint32_t stack) {
  const ContextId context = live_.sites().context(allocation_context_.context(event, kind));
  return live_.sites().group({allocation_context_.defined_stack(stack), context});
}

void Replay::note_own(uint64_t rss, uint64_t own) {
  own_memory_.most = std::max(own_memory_.most, own);
  if (rss < own_memory_.rss) return;
  own_memory_.rss = rss;
  own_memory_.own = own;
}

void Replay::Resident::InPlaces::add(const InPlaces& other) {
  std::ranges::transform(bytes, other.bytes, bytes.begin(), std::plus());
  all += other.all;
  count += other.count;
}

std::pair<uint64_t, uint64_t> Replay::Resident::InPlaces::resident(
    const ResidentEvent& look) const {
  uint64_t least = 0, most = 0;
  for (size_t i = 0; i < look.places->size(); ++i) {
    const ResidentEvent::Place& place = (*look.places)[i];
    const uint64_t had = std::min(bytes[i], place.bytes);
    least += had - std::min(had, place.absent);
    most += std::min(had, place.bytes - place.absent);
  }
  return {least, most};
}

/// Finds who has the pages that the look saw. A damaged log may have very many looks at very many
/// blocks: then owners are no longer looked for.
void Replay::find_owners() {
  constexpr uint64_t kMost = UINT64_C(1) << 25;
  auto& places = resident_.event.places;
  if (places && (looked_at_ += mappings_.size() + heap_.blocks().large_count()) > kMost)
    places.reset();
  if (!places) return;
  const auto add = [&](GroupId group, uint64_t begin, uint64_t end) {
    Resident::InPlaces& in = resident_.in_places[group];
    in.all += end - begin;
    ++in.count;
    for (size_t i = 0; i < places->size(); ++i) {
      const uint64_t from = std::max(begin, (*places)[i].address);
      const uint64_t to = std::min(end, (*places)[i].address + (*places)[i].bytes);
      in.bytes[i] += to > from ? to - from : 0;
    }
  };
  mappings_.visit(add);
  heap_.blocks().visit_large([&](BlockNumber number, const Block& block) {
    if (live_.sites().contexts()[block.context].sample_bytes == 0)
      add(live_.peaks().sites().of(number), block.address, block.address + block.bytes);
  });
}

std::string phase_text(const Replay& replay, const PhaseLabel& label) {
  std::string name = replay.log().definitions().shown(replay.name(label.name));
  if (label.source != GPUPEAK_PHASE_NVTX || label.instance == 0) return name;
  const auto domain = static_cast<uint32_t>(label.instance);
  return replay.log().definitions().shown_string(domain) + ":" + name;
}

}  // namespace gpupeak::collector
