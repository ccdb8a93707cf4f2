#include "collector/log/event.h"

#include "collector/log/byte_reader.h"
#include "collector/log/kinds.h"

namespace gpupeak::collector {
namespace {

ByteReader fields_of(const Event& event) {
  return {event.body, event.body_bytes};
}

/// Logged as ordinal + 1.
int32_t device_field(ByteReader& fields) {
  const uint64_t device = fields.u();
  return device > GPUPEAK_LOG_MAX_DEVICES ? -1 : static_cast<int32_t>(device) - 1;
}

bool too_large(uint64_t bytes) {
  return bytes > kMaxBlockBytes;
}
bool wraps(uint64_t address, uint64_t bytes) {
  return too_large(bytes) || address + bytes < address;
}

uint8_t source_field(ByteReader& fields) {
  const uint64_t source = fields.u();
  const bool known = source <= GPUPEAK_PHASE_MARK;
  return static_cast<uint8_t>(known ? source : uint64_t{GPUPEAK_PHASE_API});
}

void read_label(ByteReader& fields, LabelledEvent& label) {
  label.source = source_field(fields);
  label.name = fields.u32();
  label.instance = fields.u();
  label.category = fields.u32();
  label.text = fields.s();
  label.malformed = fields.malformed();
}

}  // namespace

MapEvent parse_map(const Event& event) {
  ByteReader fields = fields_of(event);
  MapEvent map;
  map.address = fields.u();
  map.bytes = fields.u();
  map.prot = fields.u32();
  map.kind = checked_kind(fields.u());
  map.stack = fields.u32();
  map.malformed = fields.malformed() || wraps(map.address, map.bytes) ||
                  map.kind == GPUPEAK_KIND_NONE || is_device_kind(map.kind);
  return map;
}

template <class Range>
static Range parse_range(const Event& event) {
  ByteReader fields = fields_of(event);
  Range range;
  range.address = fields.u();
  range.bytes = fields.u();
  range.malformed = fields.malformed() || wraps(range.address, range.bytes);
  return range;
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
  ByteReader fields = fields_of(event);
  ProtectEvent range;
  range.address = fields.u();
  range.bytes = fields.u();
  range.prot = fields.u32();
  range.malformed = fields.malformed() || wraps(range.address, range.bytes);
  return range;
}

RemapEvent parse_remap(const Event& event) {
  ByteReader fields = fields_of(event);
  RemapEvent remap;
  remap.old_address = fields.u();
  remap.old_bytes = fields.u();
  remap.new_address = fields.u();
  remap.new_bytes = fields.u();
  remap.stack = fields.u32();
  remap.malformed = fields.malformed() || wraps(remap.old_address, remap.old_bytes) ||
                    wraps(remap.new_address, remap.new_bytes);
  return remap;
}

PhasePushEvent parse_phase_push(const Event& event) {
  ByteReader fields = fields_of(event);
  PhasePushEvent phase;
  phase.of_process = fields.u() != 0;
  read_label(fields, phase);
  return phase;
}

PhasePopEvent parse_phase_pop(const Event& event) {
  ByteReader fields = fields_of(event);
  PhasePopEvent phase;
  phase.of_process = fields.u() != 0;
  phase.source = source_field(fields);
  phase.instance = fields.u();
  phase.malformed = fields.malformed();
  return phase;
}

MarkEvent parse_mark(const Event& event) {
  ByteReader fields = fields_of(event);
  MarkEvent mark;
  read_label(fields, mark);
  return mark;
}

RangeBeginEvent parse_range_begin(const Event& event) {
  ByteReader fields = fields_of(event);
  RangeBeginEvent range;
  range.id = fields.u();
  read_label(fields, range);
  return range;
}

RangeEndEvent parse_range_end(const Event& event) {
  ByteReader fields = fields_of(event);
  RangeEndEvent range;
  range.id = fields.u();
  range.malformed = fields.malformed();
  return range;
}

TagPushEvent parse_tag_push(const Event& event) {
  ByteReader fields = fields_of(event);
  TagPushEvent tag;
  tag.name = fields.u32();
  tag.text = fields.s();
  tag.malformed = fields.malformed();
  return tag;
}

TagPopEvent parse_tag_pop(const Event& /*event*/) {
  return {};  // it has no fields
}

ArenaEvent parse_arena(const Event& event) {
  ByteReader fields = fields_of(event);
  ArenaEvent arena;
  arena.arena = fields.u();
  arena.event = fields.u();
  arena.name = fields.u32();
  arena.address = fields.u();
  arena.bytes = fields.u();
  arena.text = fields.s();
  arena.device = device_field(fields);
  arena.malformed = fields.malformed() || wraps(arena.address, arena.bytes);
  return arena;
}

ArenaAllocEvent parse_arena_alloc(const Event& event) {
  ByteReader fields = fields_of(event);
  ArenaAllocEvent alloc;
  alloc.arena = fields.u();
  alloc.address = fields.u();
  alloc.bytes = fields.u();
  alloc.name = fields.u32();
  alloc.stack = fields.u32();
  alloc.in_use_plus_1 = fields.u();
  alloc.reserved_plus_1 = fields.u();
  alloc.malformed = fields.malformed() || wraps(alloc.address, alloc.bytes);
  return alloc;
}

ArenaFreeEvent parse_arena_free(const Event& event) {
  ByteReader fields = fields_of(event);
  ArenaFreeEvent free;
  free.arena = fields.u();
  free.address = fields.u();
  free.bytes = fields.u();
  free.in_use_plus_1 = fields.u();
  free.reserved_plus_1 = fields.u();
  free.malformed = fields.malformed();
  return free;
}

ArenaFailedEvent parse_arena_failed(const Event& event) {
  ByteReader fields = fields_of(event);
  ArenaFailedEvent failed;
  failed.arena = fields.u();
  failed.bytes = fields.u();
  failed.in_use_plus_1 = fields.u();
  failed.reserved_plus_1 = fields.u();
  failed.stack = fields.u32();
  failed.malformed = fields.malformed();
  return failed;
}

DeviceMappedEvent parse_device_mapped(const Event& event) {
  ByteReader fields = fields_of(event);
  DeviceMappedEvent mapped;
  mapped.address = fields.u();
  mapped.bytes = fields.u();
  mapped.id = fields.u();
  mapped.malformed = fields.malformed() || wraps(mapped.address, mapped.bytes);
  return mapped;
}

DeviceUnmappedEvent parse_device_unmapped(const Event& event) {
  ByteReader fields = fields_of(event);
  DeviceUnmappedEvent unmapped;
  unmapped.address = fields.u();
  unmapped.bytes = fields.u();
  unmapped.malformed = fields.malformed() || wraps(unmapped.address, unmapped.bytes);
  return unmapped;
}

SamplingEvent parse_sampling(const Event& event) {
  ByteReader fields = fields_of(event);
  SamplingEvent sampling;
  sampling.sample_bytes = fields.u();
  sampling.malformed =
      fields.malformed() || sampling.sample_bytes == 0 || too_large(sampling.sample_bytes);
  return sampling;
}

DeviceAllocEvent parse_device_alloc(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  DeviceAllocEvent alloc;
  alloc.id = fields.u();
  alloc.kind = checked_kind(fields.u());
  alloc.device = device_field(fields);
  alloc.address = fields.u();
  alloc.bytes = fields.u();
  alloc.api = fields.u32();
  alloc.stack = fields.u32();
  alloc.context = fields.u();
  alloc.aux = fields.u();
  alloc.malformed = fields.malformed() || too_large(alloc.bytes) || alloc.kind == GPUPEAK_KIND_NONE;
  return alloc;
}

DeviceFreeEvent parse_device_free(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  DeviceFreeEvent free;
  free.id = fields.u();
  free.api = fields.u32();
  free.stack = fields.u32();
  free.malformed = fields.malformed();
  return free;
}

DeviceReviveEvent parse_device_revive(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  DeviceReviveEvent revive;
  revive.id = fields.u();
  revive.malformed = fields.malformed();
  return revive;
}

DeviceFailedEvent parse_device_failed(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  DeviceFailedEvent failed;
  failed.kind = checked_kind(fields.u());
  failed.device = device_field(fields);
  failed.bytes = fields.u();
  failed.result = fields.u();
  failed.live = fields.u();
  failed.free_plus_1 = fields.u();
  failed.total_plus_1 = fields.u();
  failed.api = fields.u32();
  failed.stack = fields.u32();
  failed.malformed = fields.malformed();
  return failed;
}

DeviceUnknownEvent parse_device_unknown(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  DeviceUnknownEvent unknown;
  unknown.address = fields.u();
  unknown.api = fields.u32();
  unknown.stack = fields.u32();
  unknown.malformed = fields.malformed();
  return unknown;
}

PoolEvent parse_pool(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  PoolEvent pool;
  pool.pool = fields.u();
  pool.device = device_field(fields);
  pool.reserved = fields.u();
  pool.used = fields.u();
  pool.event = fields.u();
  pool.malformed = fields.malformed() || too_large(pool.reserved) || too_large(pool.used);
  return pool;
}

ContextEvent parse_context(const Event& event) {
  ByteReader fields = fields_of(event);
  fields.u();  // seq
  ContextEvent context;
  context.context = fields.u();
  context.device = device_field(fields);
  context.event = fields.u();
  context.malformed = fields.malformed();
  return context;
}

SampleEvent parse_sample(const Event& event) {
  ByteReader fields = fields_of(event);
  SampleEvent sample;
  sample.rss = fields.u();
  sample.rss_file = fields.u();
  sample.brk_growth = fields.u();
  sample.malformed = fields.malformed() || too_large(sample.rss);
  return sample;
}

DriverReadingEvent parse_driver_reading(const Event& event) {
  ByteReader fields = fields_of(event);
  // Logged as value + 1, 0 for not known.
  const auto optional = [&]() -> std::optional<uint64_t> {
    const uint64_t value = fields.u();
    return value == 0 ? std::nullopt : std::optional<uint64_t>(value - 1);
  };
  DriverReadingEvent reading;
  reading.device = device_field(fields);
  reading.used = fields.u();
  reading.source = fields.u() == GPUPEAK_READING_NVML ? GPUPEAK_READING_NVML : GPUPEAK_READING_CUDA;
  const uint64_t cause = fields.u();
  reading.cause =
      static_cast<uint8_t>(cause < GPUPEAK_LEDGER_LIMIT ? cause : uint64_t{GPUPEAK_LEDGER_NONE});
  reading.reserved = optional();
  reading.own = optional();
  reading.others = optional();
  reading.overlaps = fields.u();
  reading.uncertain = fields.u() != 0;
  reading.api = fields.u32();
  reading.name = fields.u32();
  reading.stack = fields.u32();
  reading.malformed = fields.malformed() || reading.device < 0 || too_large(reading.used) ||
                      too_large(reading.reserved.value_or(0)) ||
                      too_large(reading.own.value_or(0)) || too_large(reading.others.value_or(0));
  return reading;
}

ThreadEvent parse_thread(const Event& event) {
  ByteReader fields = fields_of(event);
  ThreadEvent thread;
  thread.tid = fields.u32();
  thread.name = fields.s();
  thread.malformed = fields.malformed();
  return thread;
}

}  // namespace gpupeak::collector
