// Decoded events. EventStream makes them; replay and the dump look at them. A new extended record
// gets a line in GPUPEAK_EXTENDED_RECORDS, a struct, and its parser in event.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpupeak/log_format.h"

namespace gpupeak::collector {

// Every extended record that this reader knows, in one list: tag, struct and name. The struct's
// parser reads the record's body, which is what follows the tag and the length. Here are made from
// it the parsers' declarations, is_known_event() and visit_record(). Whoever looks at records
// (the replay, the dump) has a visitor with an overload for each struct. So a new record cannot be
// forgotten anywhere: it does not compile.

/// R(TAG, Struct, name): GPUPEAK_REC_TAG, its struct in event.h, and what the dump calls it.
#define GPUPEAK_EXTENDED_RECORDS(R)                        \
  R(THREAD, ThreadEvent, thread)                           \
  R(MAP, MapEvent, map)                                    \
  R(UNMAP, UnmapEvent, unmap)                              \
  R(PROTECT, ProtectEvent, protect)                        \
  R(REMAP, RemapEvent, remap)                              \
  R(PHASE_PUSH, PhasePushEvent, phase_push)                \
  R(PHASE_POP, PhasePopEvent, phase_pop)                   \
  R(DEVICE_ALLOC, DeviceAllocEvent, device_alloc)          \
  R(DEVICE_FREE, DeviceFreeEvent, device_free)             \
  R(DEVICE_REVIVE, DeviceReviveEvent, device_revive)       \
  R(DEVICE_FAILED, DeviceFailedEvent, device_failed)       \
  R(DEVICE_UNKNOWN, DeviceUnknownEvent, device_unknown)    \
  R(POOL, PoolEvent, pool)                                 \
  R(CONTEXT, ContextEvent, context)                        \
  R(SAMPLE, SampleEvent, sample)                           \
  R(DRIVER_READING, DriverReadingEvent, driver_reading)    \
  R(MARK, MarkEvent, mark)                                 \
  R(RANGE_BEGIN, RangeBeginEvent, range_begin)             \
  R(RANGE_END, RangeEndEvent, range_end)                   \
  R(TAG_PUSH, TagPushEvent, tag_push)                      \
  R(TAG_POP, TagPopEvent, tag_pop)                         \
  R(ARENA, ArenaEvent, arena)                              \
  R(ARENA_ALLOC, ArenaAllocEvent, arena_alloc)             \
  R(ARENA_FREE, ArenaFreeEvent, arena_free)                \
  R(ARENA_FAILED, ArenaFailedEvent, arena_failed)          \
  R(DEVICE_MAPPED, DeviceMappedEvent, device_mapped)       \
  R(DEVICE_UNMAPPED, DeviceUnmappedEvent, device_unmapped) \
  R(REMAP_BEGIN, RemapBeginEvent, remap_begin)             \
  R(REMAP_FAILED, RemapFailedEvent, remap_failed)          \
  R(HOST_FAILED, HostFailedEvent, host_failed)             \
  R(RESIDENT, ResidentEvent, resident)                     \
  R(SAMPLING, SamplingEvent, sampling)                     \
  R(WINDOW, WindowEvent, window)                           \
  R(USED, UsedEvent, used)                                 \
  R(USES_END, UsesEndEvent, uses_end)                      \
  R(KERNEL, KernelEvent, kernel)                           \
  R(ROLE, RoleEvent, role)

/// One record of an event chunk. Hot records are decoded whole. Extended ones have the time here,
/// and device events their sequence number; parse_* below read the rest from `body`.
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
  uint32_t slot = 0;  ///< Slot::writer: an index into LogReader::slots()
  uint8_t tag = 0;    ///< GPUPEAK_REC_*
};

inline bool is_device_event(uint8_t tag) {
  return tag >= GPUPEAK_REC_DEVICE_ALLOC && tag <= GPUPEAK_REC_CONTEXT;
}

inline bool is_heap_event(uint8_t tag) {
  return tag <= GPUPEAK_REC_REALLOC_FAILED;
}

/// The rest of each extended record, fields as in log_format.h. Devices are ordinals, -1 for the
/// host or an unknown one; kinds are checked (GPUPEAK_KIND_NONE: none that is known). `malformed`:
/// the body makes no sense, the event must be left out.
struct Parsed {
  bool malformed = false;
};
struct RangeEvent : Parsed {
  uint64_t address, bytes;
};
struct MapEvent : Parsed {
  uint64_t address, bytes;
  uint32_t prot, stack;
  uint8_t kind;
};
struct UnmapEvent : RangeEvent {};
struct ProtectEvent : RangeEvent {
  uint32_t prot;
};
struct RemapEvent : Parsed {
  uint64_t old_address, old_bytes, new_address, new_bytes;
  uint32_t stack;
};
struct RemapBeginEvent : RangeEvent {};
struct RemapFailedEvent : RangeEvent {};
/// What phases, ranges and marks are called.
struct LabelledEvent : Parsed {
  uint8_t source = GPUPEAK_PHASE_AUTO;
  uint32_t name = 0;
  uint64_t instance = 0;  ///< which session, domain …; 0: there is one
  uint32_t category = 0;
  std::string_view text;  ///< the name, if `name` is 0
};
struct PhasePushEvent : LabelledEvent {
  bool of_process = false;
};
struct PhasePopEvent : Parsed {
  bool of_process = false;
  uint8_t source = GPUPEAK_PHASE_AUTO;
  uint64_t instance = 0;
};
struct MarkEvent : LabelledEvent {};
struct RangeBeginEvent : LabelledEvent {
  uint64_t id = 0;
};
struct RangeEndEvent : Parsed {
  uint64_t id = 0;
};
struct TagPushEvent : Parsed {
  uint32_t name = 0;
  std::string_view text;  ///< the name, if `name` is 0
};
struct TagPopEvent : Parsed {};
struct ArenaEvent : Parsed {
  uint64_t arena, event, address, bytes;
  int32_t device = -1;  ///< whose memory it shares out; -1: where its blocks lie
  uint32_t name;
  std::string_view text;  ///< the name, if `name` is 0
};
/// in_use and reserved: what the allocator itself says after the call, + 1; 0: it says nothing.
struct ArenaAllocEvent : Parsed {
  uint64_t arena, address, bytes;
  uint64_t in_use_plus_1, reserved_plus_1;
  uint64_t asked;  ///< bytes that were asked for; 0: not known
  uint32_t name, stack;
};
/// When a block was seen in use, since the record before that says so. Times are in ticks before
/// this record.
struct SeenUses {
  uint64_t count;  ///< 0: the times say nothing
  uint64_t first_ago, last_ago;
  uint64_t idle, idle_since_ago;  ///< the longest time between two uses
  uint64_t streams;               ///< 2: two or more
};
struct ArenaFreeEvent : Parsed {
  uint64_t arena, address;
  uint64_t bytes;  ///< 0: not said
  uint64_t in_use_plus_1, reserved_plus_1;
  std::optional<SeenUses> used;
};
struct ArenaFailedEvent : Parsed {
  uint64_t arena, bytes;
  uint64_t in_use_plus_1, reserved_plus_1;  ///< value + 1; 0: not known
  uint32_t stack;
  int32_t device;
  std::optional<uint64_t> free, total;  ///< of the device, by the driver
  std::optional<uint64_t> limit;        ///< what the arena may take at most
};
struct DeviceMappedEvent : RangeEvent {
  uint64_t id;
};
struct DeviceUnmappedEvent : RangeEvent {};
struct HostFailedEvent : Parsed {
  uint64_t bytes, error, limit, limit_bytes, used;
  uint32_t api, stack;
  uint8_t kind;
  std::optional<uint64_t> own;  ///< of used: the preload's addresses
};
struct ResidentEvent : Parsed {
  uint64_t rss, files, shared, driver, stacks, anonymous, log, own;
  uint64_t free_in_malloc_plus_1;  ///< value + 1; 0: not known
  uint64_t heap;
  uint64_t static_data;  ///< of anonymous: .bss
  uint64_t written;      ///< pages of private mappings of files
  /// Where private memory of no file was resident, by address: all of `bytes` but `absent`.
  struct Place {
    uint64_t address, bytes, absent;
  };
  std::optional<std::vector<Place>> places;  ///< none: not known
  uint64_t all_anonymous() const { return anonymous + stacks + written + own; }
  /// What is neither files' nor gpupeak's own.
  uint64_t own_bytes() const {
    const uint64_t beside = files + log + own;
    return rss - (beside < rss ? beside : rss);
  }
};
struct SamplingEvent : Parsed {
  uint64_t sample_bytes;
  /// Blocks of at least so many bytes are all recorded; 0: none is sure to be.
  uint64_t whole_bytes;
};
/// The heap's recording begins or ends.
struct WindowEvent : Parsed {
  uint64_t event;   ///< 0 begins, 1 ends
  uint64_t number;  ///< of the window, from 1 on
  uint64_t mode;    ///< enum gpupeak_host_mode
  /// Usable bytes: of the live heap, and of its blocks that the log has.
  uint64_t live_bytes, recorded_bytes;
  uint64_t freed_bytes, frees;  ///< of blocks that the log does not have, in all windows so far
  uint64_t below_bytes;  ///< attached program: by how much its heap is less than at the attach
};
struct UsedEvent : Parsed, SeenUses {
  uint64_t arena;  ///< 0: a block of the driver's
  uint64_t block;  ///< its id, or the address that the arena gave
};
/// Stands behind the UsedEvents of all blocks that are live.
struct UsesEndEvent : Parsed {
  uint64_t left_out;  ///< blocks that have none
  uint64_t unread;    ///< launches whose parameters could not be read
};
/// A kernel that RoleEvents name by its number.
struct KernelEvent : Parsed {
  uint64_t kernel;
  uint32_t name, stack;  ///< 0: not known
};
/// What a block was used for, by log_format.h's GPUPEAK_REC_ROLE.
struct RoleEvent : Parsed {
  uint64_t arena, block;  ///< as UsedEvent's
  uint64_t kernel, place, count;
};
struct DeviceAllocEvent : Parsed {
  uint64_t id, address, bytes, context, aux;
  int32_t device;
  uint32_t api, stack;
  uint8_t kind;
  bool captured;  ///< while a graph was being captured, for that graph
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
  bool by_run_limit;  ///< `gpupeak run --limit` refused it; the device had room
};
struct DeviceUnknownEvent : Parsed {
  uint64_t address;
  uint32_t api, stack;
  std::optional<uint64_t> gives_back;  ///< by how many bytes the devices' sum is less
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
  struct Process {
    uint32_t pid, name;  ///< name: a string, 0: not known
    uint64_t bytes;
  };
  bool has_list;                   ///< false: an older log, which has `own` of a few readings only
  std::vector<Process> processes;  ///< the largest others, largest first
  uint8_t source;                  ///< enum gpupeak_reading_source
  uint8_t cause;                   ///< enum gpupeak_ledger_cause
};
struct SampleEvent : Parsed {
  uint64_t rss, rss_file, brk_growth;
  uint64_t pss_plus_1;          ///< value + 1; 0: not read
  std::optional<uint64_t> own;  ///< what is neither files' nor gpupeak's own; none: not read
};
struct ThreadEvent : Parsed {
  uint32_t tid;
  std::string_view name;
};

#define GPUPEAK_DECLARE_PARSER(TAG, Struct, name) Struct parse_##name(const Event& event);
GPUPEAK_EXTENDED_RECORDS(GPUPEAK_DECLARE_PARSER)
#undef GPUPEAK_DECLARE_PARSER

/// Whether the tag is one of the extended event records that this reader knows.
constexpr bool is_known_event(uint8_t tag) {
  switch (tag) {
#define GPUPEAK_IS_KNOWN(TAG, Struct, name) case GPUPEAK_REC_##TAG:
    GPUPEAK_EXTENDED_RECORDS(GPUPEAK_IS_KNOWN)
#undef GPUPEAK_IS_KNOWN
    return true;
    default:
      return false;
  }
}

/// Calls visitor(parsed, "name") with what an extended record says. Does nothing for others.
template <class Visitor>
void visit_record(const Event& event, Visitor&& visitor) {
  switch (event.tag) {
#define GPUPEAK_VISIT(TAG, Struct, name)                   \
  case GPUPEAK_REC_##TAG:                                  \
    visitor(parse_##name(event), std::string_view(#name)); \
    break;
    GPUPEAK_EXTENDED_RECORDS(GPUPEAK_VISIT)
#undef GPUPEAK_VISIT
    default:
      break;
  }
}

/// No address space holds a block this large: a size beyond it is damage.
inline constexpr uint64_t kMaxBlockBytes = UINT64_C(1) << 56;

/// Work that must see all events of a log, in their order, before the caller gets them. It may
/// write a note on each, which the caller gets with the event. EventStream does it on the one
/// thread that fills its batches.
using EventPass = std::function<void(std::span<const Event> events, std::span<uint32_t> notes)>;

}  // namespace gpupeak::collector
