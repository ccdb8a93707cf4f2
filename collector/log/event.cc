#include "collector/log/event.h"

#include <algorithm>

#include "collector/log/byte_reader.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

bool too_large(uint64_t bytes) {
  return bytes > kMaxBlockBytes;
}
bool wraps(uint64_t address, uint64_t bytes) {
  return too_large(bytes) || address + bytes < address;
}

/// Fields of one byte, so that operator>> can tell a kind from a source.
struct Kind {
  uint8_t& kind;
};
struct Source {
  uint8_t& source;
};

/// Reads the fields of a record one after the other, each by its type. Marks the record as
/// malformed as soon as a field is.
class Body {
 public:
  Body(const Event& event, Parsed& record)
      : fields_(event.body, event.body_bytes), record_(record) {
    // Its sequence number, which the event has already.
    if (is_device_event(event.tag)) fields_.u();
  }

  Body& operator>>(uint64_t& field) { return took(field = fields_.u()); }
  Body& operator>>(uint32_t& field) { return took(field = fields_.u32()); }
  Body& operator>>(bool& field) { return took(field = fields_.u() != 0); }
  Body& operator>>(std::string_view& field) { return took(field = fields_.s()); }
  /// A device: logged as ordinal + 1.
  Body& operator>>(int32_t& device) {
    const uint64_t field = fields_.u();
    return took(device = field > GPUPEAK_LOG_MAX_DEVICES ? -1 : static_cast<int32_t>(field) - 1);
  }
  /// Logged as value + 1, 0 for not known.
  Body& operator>>(std::optional<uint64_t>& field) {
    const uint64_t value = fields_.u();
    return took(field = value == 0 ? std::nullopt : std::optional(value - 1));
  }
  Body& operator>>(Kind field) { return took(field.kind = checked_kind(fields_.u())); }
  Body& operator>>(Source field) {
    const uint64_t source = fields_.u();
    const bool known = source <= GPUPEAK_PHASE_PJRT;
    return took(field.source = static_cast<uint8_t>(known ? source : uint64_t{GPUPEAK_PHASE_API}));
  }
  /// Older logs lack the fields that came later.
  bool has_more() const { return !fields_.at_end(); }
  Body& operator>>(LabelledEvent& label) {
    return *this >> Source{label.source} >> label.name >> label.instance >> label.category >>
           label.text;
  }

 private:
  template <class Field>
  Body& took(const Field& /*field*/) {
    record_.malformed = fields_.malformed();
    return *this;
  }

  ByteReader fields_;
  Parsed& record_;
};

template <class Range>
Range parse_range(const Event& event) {
  Range range;
  Body(event, range) >> range.address >> range.bytes;
  range.malformed |= wraps(range.address, range.bytes);
  return range;
}

/// Reads the fields that follow `count`.
SeenUses parse_uses(Body& body, uint64_t count, const Event& event, Parsed& record) {
  SeenUses uses{};
  uses.count = count;
  body >> uses.first_ago >> uses.last_ago >> uses.idle >> uses.idle_since_ago >> uses.streams;
  if (uses.idle == 0 && uses.first_ago > uses.last_ago) {
    uses.idle = uses.first_ago - uses.last_ago;
    uses.idle_since_ago = uses.first_ago;
  }
  if (count > 0 && uses.streams == 0) uses.streams = 1;
  record.malformed |= uses.last_ago > uses.first_ago || uses.first_ago > event.ticks ||
                      uses.idle_since_ago > event.ticks || uses.idle > uses.idle_since_ago;
  return uses;
}

}  // namespace

MapEvent parse_map(const Event& event) {
  MapEvent map;
  Body(event, map) >> map.address >> map.bytes >> map.prot >> Kind{map.kind} >> map.stack;
  map.malformed |=
      wraps(map.address, map.bytes) || map.kind == GPUPEAK_KIND_NONE || is_device_kind(map.kind);
  return map;
}

UnmapEvent parse_unmap(const Event& event) {
  return parse_range<UnmapEvent>(event);
}

RemapBeginEvent parse_remap_begin(const Event& event) {
  return parse_range<RemapBeginEvent>(event);
}

RemapFailedEvent parse_remap_failed(const Event& event) {
  return parse_range<RemapFailedEvent>(event);
}

ProtectEvent parse_protect(const Event& event) {
  ProtectEvent range;
  Body(event, range) >> range.address >> range.bytes >> range.prot;
  range.malformed |= wraps(range.address, range.bytes);
  return range;
}

RemapEvent parse_remap(const Event& event) {
  RemapEvent remap;
  Body(event, remap) >> remap.old_address >> remap.old_bytes >> remap.new_address >>
      remap.new_bytes >> remap.stack;
  remap.malformed |=
      wraps(remap.old_address, remap.old_bytes) || wraps(remap.new_address, remap.new_bytes);
  return remap;
}

PhasePushEvent parse_phase_push(const Event& event) {
  PhasePushEvent phase;
  LabelledEvent& label = phase;
  Body(event, phase) >> phase.of_process >> label;
  return phase;
}

PhasePopEvent parse_phase_pop(const Event& event) {
  PhasePopEvent phase;
  Body(event, phase) >> phase.of_process >> Source{phase.source} >> phase.instance;
  return phase;
}

MarkEvent parse_mark(const Event& event) {
  MarkEvent mark;
  LabelledEvent& label = mark;
  Body(event, mark) >> label;
  return mark;
}

RangeBeginEvent parse_range_begin(const Event& event) {
  RangeBeginEvent range;
  LabelledEvent& label = range;
  Body(event, range) >> range.id >> label;
  return range;
}

RangeEndEvent parse_range_end(const Event& event) {
  RangeEndEvent range;
  Body(event, range) >> range.id;
  return range;
}

TagPushEvent parse_tag_push(const Event& event) {
  TagPushEvent tag;
  Body(event, tag) >> tag.name >> tag.text;
  return tag;
}

TagPopEvent parse_tag_pop(const Event& /*event*/) {
  return {};  // it has no fields
}

ArenaEvent parse_arena(const Event& event) {
  ArenaEvent arena;
  Body(event, arena) >> arena.arena >> arena.event >> arena.name >> arena.address >> arena.bytes >>
      arena.text >> arena.device;
  arena.malformed |= wraps(arena.address, arena.bytes);
  return arena;
}

ArenaAllocEvent parse_arena_alloc(const Event& event) {
  ArenaAllocEvent alloc;
  Body(event, alloc) >> alloc.arena >> alloc.address >> alloc.bytes >> alloc.name >> alloc.stack >>
      alloc.in_use_plus_1 >> alloc.reserved_plus_1 >> alloc.asked;
  alloc.malformed |= wraps(alloc.address, alloc.bytes);
  return alloc;
}

ArenaFreeEvent parse_arena_free(const Event& event) {
  ArenaFreeEvent free;
  std::optional<uint64_t> count;
  Body body(event, free);
  body >> free.arena >> free.address >> free.bytes >> free.in_use_plus_1 >> free.reserved_plus_1 >>
      count;
  if (count) free.used = parse_uses(body, *count, event, free);
  return free;
}

ArenaFailedEvent parse_arena_failed(const Event& event) {
  ArenaFailedEvent failed;
  Body(event, failed) >> failed.arena >> failed.bytes >> failed.in_use_plus_1 >>
      failed.reserved_plus_1 >> failed.stack >> failed.device >> failed.free >> failed.total >>
      failed.limit;
  return failed;
}

DeviceMappedEvent parse_device_mapped(const Event& event) {
  DeviceMappedEvent mapped;
  Body(event, mapped) >> mapped.address >> mapped.bytes >> mapped.id;
  mapped.malformed |= wraps(mapped.address, mapped.bytes);
  return mapped;
}

DeviceUnmappedEvent parse_device_unmapped(const Event& event) {
  return parse_range<DeviceUnmappedEvent>(event);
}

SamplingEvent parse_sampling(const Event& event) {
  SamplingEvent sampling;
  Body(event, sampling) >> sampling.sample_bytes >> sampling.whole_bytes;
  sampling.malformed |= too_large(sampling.sample_bytes);
  return sampling;
}

UsedEvent parse_used(const Event& event) {
  UsedEvent used;
  uint64_t count = 0;
  Body body(event, used);
  body >> used.arena >> used.block >> count;
  static_cast<SeenUses&>(used) = parse_uses(body, count, event, used);
  return used;
}
UsesEndEvent parse_uses_end(const Event& event) {
  UsesEndEvent end;
  Body(event, end) >> end.left_out >> end.unread;
  return end;
}
KernelEvent parse_kernel(const Event& event) {
  KernelEvent kernel;
  Body(event, kernel) >> kernel.kernel >> kernel.name >> kernel.stack;
  return kernel;
}
RoleEvent parse_role(const Event& event) {
  RoleEvent role;
  Body(event, role) >> role.arena >> role.block >> role.kernel >> role.place >> role.count;
  return role;
}
WindowEvent parse_window(const Event& event) {
  WindowEvent window;
  Body(event, window) >> window.event >> window.number >> window.mode >> window.live_bytes >>
      window.recorded_bytes >> window.freed_bytes >> window.frees >> window.below_bytes;
  for (const uint64_t bytes :
       {window.live_bytes, window.recorded_bytes, window.freed_bytes, window.below_bytes})
    window.malformed |= too_large(bytes);
  window.malformed |= window.event > 1;
  return window;
}

DeviceAllocEvent parse_device_alloc(const Event& event) {
  DeviceAllocEvent alloc;
  Body(event, alloc) >> alloc.id >> Kind{alloc.kind} >> alloc.device >> alloc.address >>
      alloc.bytes >> alloc.api >> alloc.stack >> alloc.context >> alloc.aux >> alloc.captured;
  alloc.malformed |= too_large(alloc.bytes) || alloc.kind == GPUPEAK_KIND_NONE;
  return alloc;
}

DeviceFreeEvent parse_device_free(const Event& event) {
  DeviceFreeEvent free;
  Body(event, free) >> free.id >> free.api >> free.stack;
  return free;
}

DeviceReviveEvent parse_device_revive(const Event& event) {
  DeviceReviveEvent revive;
  Body(event, revive) >> revive.id;
  return revive;
}

DeviceFailedEvent parse_device_failed(const Event& event) {
  DeviceFailedEvent failed;
  Body(event, failed) >> Kind{failed.kind} >> failed.device >> failed.bytes >> failed.result >>
      failed.live >> failed.free_plus_1 >> failed.total_plus_1 >> failed.api >> failed.stack >>
      failed.by_run_limit;
  return failed;
}

HostFailedEvent parse_host_failed(const Event& event) {
  HostFailedEvent failed;
  Body(event, failed) >> Kind{failed.kind} >> failed.bytes >> failed.error >> failed.limit >>
      failed.limit_bytes >> failed.used >> failed.api >> failed.stack;
  return failed;
}

ResidentEvent parse_resident(const Event& event) {
  ResidentEvent resident;
  Body(event, resident) >> resident.rss >> resident.files >> resident.shared >> resident.driver >>
      resident.stacks >> resident.anonymous >> resident.log >> resident.own >>
      resident.free_in_malloc_plus_1 >> resident.heap >> resident.static_data >> resident.written;
  resident.malformed |= too_large(resident.rss) || too_large(resident.anonymous);
  return resident;
}

DeviceUnknownEvent parse_device_unknown(const Event& event) {
  DeviceUnknownEvent unknown;
  Body(event, unknown) >> unknown.address >> unknown.api >> unknown.stack >> unknown.gives_back;
  unknown.malformed |= too_large(unknown.gives_back.value_or(0));
  return unknown;
}

PoolEvent parse_pool(const Event& event) {
  PoolEvent pool;
  Body(event, pool) >> pool.pool >> pool.device >> pool.reserved >> pool.used >> pool.event;
  pool.malformed |= too_large(pool.reserved) || too_large(pool.used);
  return pool;
}

ContextEvent parse_context(const Event& event) {
  ContextEvent context;
  Body(event, context) >> context.context >> context.device >> context.event;
  return context;
}

SampleEvent parse_sample(const Event& event) {
  SampleEvent sample;
  Body(event, sample) >> sample.rss >> sample.rss_file >> sample.brk_growth >> sample.pss_plus_1 >>
      sample.own;
  sample.malformed |= too_large(sample.rss);
  return sample;
}

DriverReadingEvent parse_driver_reading(const Event& event) {
  DriverReadingEvent reading;
  uint64_t source = 0, cause = 0;
  uint32_t processes = 0;
  Body body(event, reading);
  body >> reading.device >> reading.used >> source >> cause >> reading.reserved >> reading.own >>
      reading.others >> reading.overlaps >> reading.uncertain >> reading.api >> reading.name >>
      reading.stack;
  reading.has_list = body.has_more();
  body >> processes;
  constexpr uint32_t kMostProcesses = 64;
  for (reading.processes.resize(std::min(processes, kMostProcesses));
       DriverReadingEvent::Process & process : reading.processes)
    body >> process.pid >> process.bytes >> process.name;
  reading.source = source == GPUPEAK_READING_NVML ? GPUPEAK_READING_NVML : GPUPEAK_READING_CUDA;
  reading.cause =
      static_cast<uint8_t>(cause < GPUPEAK_LEDGER_LIMIT ? cause : uint64_t{GPUPEAK_LEDGER_NONE});
  reading.malformed |= reading.device < 0 || too_large(reading.used) ||
                       too_large(reading.reserved.value_or(0)) ||
                       too_large(reading.own.value_or(0)) || too_large(reading.others.value_or(0));
  return reading;
}

ThreadEvent parse_thread(const Event& event) {
  ThreadEvent thread;
  Body(event, thread) >> thread.tid >> thread.name;
  return thread;
}

}  // namespace gpupeak::collector
