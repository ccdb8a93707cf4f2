// Every extended record that this reader knows, in one list: tag, struct and name. The struct's
// parser reads the record's body, which is what follows the tag and the length. event.h makes from
// the list the parsers' declarations, is_known_event() and visit_record(). Whoever looks at records
// (the replay, the dump) has a visitor with an overload for each struct. So a new record cannot be
// forgotten anywhere: it does not compile.
#pragma once

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
