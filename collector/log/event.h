// Decoded events. EventStream makes them; replay and the dump look at them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// One record of an event chunk. Hot records are decoded whole; of extended ones the time and, for
/// device events, the sequence number, while parse_* below read the rest from `body`.
struct Event {
  uint64_t ticks = 0;
  uint64_t address = 0;  ///< hot records only
  union {
    uint64_t size = 0;  ///< ALLOC and REALLOC_END: bytes asked for
    uint64_t sequence;  ///< device events
  };
  union {
    int64_t slack = 0;    ///< ALLOC and REALLOC_END: usable bytes - size
    const uint8_t* body;  ///< extended records: the fields that follow the time
  };
  union {
    uint32_t stack = 0;   ///< ALLOC and REALLOC_END: node of the trie
    uint32_t body_bytes;  ///< extended records
  };
  uint32_t tid = 0;
  uint32_t slot = 0;  ///< index into LogReader::slots()
  uint8_t tag = 0;    ///< GPUPEAK_REC_*
};

inline bool is_device_event(uint8_t tag) {
  return tag >= GPUPEAK_REC_DEVICE_ALLOC && tag <= GPUPEAK_REC_CONTEXT;
}

/// Whether the tag is one of the extended event records that this reader knows.
inline bool is_known_event(uint8_t tag) {
  return (tag >= GPUPEAK_REC_THREAD && tag <= GPUPEAK_REC_DRIVER_READING) ||
         (tag >= GPUPEAK_REC_MARK && tag <= GPUPEAK_REC_DEVICE_UNMAPPED);
}

/// The rest of each extended record, fields as in log_format.h. Devices are ordinals, -1 for the
/// host or an unknown one; kinds are checked (GPUPEAK_KIND_NONE: none that is known). `malformed`:
/// the body makes no sense, the event must be left out.
struct Parsed {
  bool malformed = false;
};
struct MapEvent : Parsed {
  uint64_t address, bytes;
  uint32_t prot, stack;
  uint8_t kind;
};
struct RangeEvent : Parsed {  ///< UNMAP (prot 0) and PROTECT
  uint64_t address, bytes;
  uint32_t prot;
};
struct RemapEvent : Parsed {
  uint64_t old_address, old_bytes, new_address, new_bytes;
  uint32_t stack;
};
struct PhaseEvent : Parsed {  ///< PUSH; of a POP scope, source and instance
  bool of_process = false;
  uint8_t source = GPUPEAK_PHASE_AUTO;
  uint32_t name = 0;
  uint64_t instance = 0;  ///< which session, domain …; 0: there is one
  uint32_t category = 0;
  std::string_view text;  ///< the name, if `name` is 0
};
struct MarkEvent : PhaseEvent {};
struct RangeBeginEvent : PhaseEvent {
  uint64_t id = 0;
};
struct TagEvent : Parsed {
  uint32_t name = 0;
  std::string_view text;  ///< the name, if `name` is 0
};
struct ArenaEvent : Parsed {
  uint64_t arena, event, address, bytes;
  int32_t device = -1;  ///< whose memory it shares out; -1: where its blocks lie
  uint32_t name;
  std::string_view text;  ///< the name, if `name` is 0
};
/// in_use, reserved: what the allocator itself then says; 0: nothing.
struct ArenaAllocEvent : Parsed {
  uint64_t arena, address, bytes;
  uint64_t in_use_plus_1, reserved_plus_1;
  uint32_t name, stack;
};
struct ArenaFreeEvent : Parsed {
  uint64_t arena, address;
  uint64_t bytes;  ///< 0: not said
  uint64_t in_use_plus_1, reserved_plus_1;
};
struct ArenaFailedEvent : Parsed {
  uint64_t arena, bytes;
  uint64_t in_use_plus_1, reserved_plus_1;
  uint32_t stack;
};
struct DeviceMappedEvent : Parsed {  ///< of an UNMAPPED no id
  uint64_t address, bytes, id;
};
struct SamplingEvent : Parsed {
  uint64_t sample_bytes;
};
struct DeviceAllocEvent : Parsed {
  uint64_t id, address, bytes, context, aux;
  int32_t device;
  uint32_t api, stack;
  uint8_t kind;
};
struct DeviceFreeEvent : Parsed {
  uint64_t id;
  uint32_t api, stack;
};
struct DeviceReviveEvent : Parsed {
  uint64_t id;
};
struct DeviceFailedEvent : Parsed {
  uint64_t bytes, result, live;
  uint64_t free_plus_1, total_plus_1;  ///< value + 1; 0: not known
  int32_t device;
  uint32_t api, stack;
  uint8_t kind;
};
struct DeviceUnknownEvent : Parsed {
  uint64_t address;
  uint32_t api, stack;
};
struct PoolEvent : Parsed {
  uint64_t pool, reserved, used, event;
  int32_t device;
};
struct ContextEvent : Parsed {
  uint64_t context, event;
  int32_t device;
};
struct DriverReadingEvent : Parsed {
  uint64_t used;                                  ///< bytes of the device in use, of all processes
  std::optional<uint64_t> reserved, own, others;  ///< bytes; nullopt: not known
  uint64_t overlaps;
  bool uncertain;  ///< another thread's allocation, free or reading came in between
  int32_t device;
  uint32_t api, name, stack;
  uint8_t source;  ///< enum gpupeak_reading_source
  uint8_t cause;   ///< enum gpupeak_ledger_cause
};
struct SampleEvent : Parsed {
  uint64_t rss, rss_file, brk_growth;
};
struct ThreadEvent : Parsed {
  uint32_t tid;
  std::string_view name;
};

MapEvent parse_map(const Event& event);
RangeEvent parse_unmap(const Event& event);
RangeEvent parse_protect(const Event& event);
RemapEvent parse_remap(const Event& event);
PhaseEvent parse_phase_push(const Event& event);
PhaseEvent parse_phase_pop(const Event& event);
MarkEvent parse_mark(const Event& event);
RangeBeginEvent parse_range_begin(const Event& event);
RangeBeginEvent parse_range_end(const Event& event);  ///< the id only
TagEvent parse_tag_push(const Event& event);
ArenaEvent parse_arena(const Event& event);
ArenaAllocEvent parse_arena_alloc(const Event& event);
ArenaFreeEvent parse_arena_free(const Event& event);
ArenaFailedEvent parse_arena_failed(const Event& event);
DeviceMappedEvent parse_device_mapped(const Event& event);
DeviceMappedEvent parse_device_unmapped(const Event& event);
SamplingEvent parse_sampling(const Event& event);
DeviceAllocEvent parse_device_alloc(const Event& event);
DeviceFreeEvent parse_device_free(const Event& event);
DeviceReviveEvent parse_device_revive(const Event& event);
DeviceFailedEvent parse_device_failed(const Event& event);
DeviceUnknownEvent parse_device_unknown(const Event& event);
PoolEvent parse_pool(const Event& event);
ContextEvent parse_context(const Event& event);
SampleEvent parse_sample(const Event& event);
DriverReadingEvent parse_driver_reading(const Event& event);
ThreadEvent parse_thread(const Event& event);

/// No address space holds a block this large: a size beyond it is damage.
inline constexpr uint64_t kMaxBlockBytes = UINT64_C(1) << 56;

}  // namespace gpupeak::collector
