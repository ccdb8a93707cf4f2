#include "track/device_book.h"

#include "base/hot.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/short_record.h"
#include "track/captures.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t bit_of(gpupeak_kind kind) {
  return 1u << kind;
}
constexpr uint32_t kInDeviceTotal = bit_of(GPUPEAK_KIND_LINEAR) | bit_of(GPUPEAK_KIND_POOL) |
                                    bit_of(GPUPEAK_KIND_VMM) | bit_of(GPUPEAK_KIND_ARRAY) |
                                    bit_of(GPUPEAK_KIND_GRAPH);

bool has_counters(int device) {
  return static_cast<unsigned>(device) < GPUPEAK_LOG_MAX_DEVICES;
}

/// The lock makes us the only writer of these: others read, so that whole stores are enough.
void store(uint64_t& to, uint64_t value) {
  __atomic_store_n(&to, value, __ATOMIC_RELAXED);
}

void move(gpupeak_gauge& gauge, int64_t bytes) {
  const uint64_t live = gauge.live + static_cast<uint64_t>(bytes);
  store(gauge.live, live);
  if (live > gauge.peak) store(gauge.peak, live);
}

}  // namespace

constinit DeviceBook g_book;

namespace {

/// Of an event that is logged at once.
uint64_t next_number() {
  store(counters().device_events, counters().device_events + 1);
  return g_book.next_seq++;
}

/// A block's bytes come (> 0) or go, in the counters page.
void move_gauges(const DeviceBlock& block, int64_t bytes) {
  gpupeak_counters_page& page = counters();
  if (block.kind < static_cast<int>(GPUPEAK_FIRST_DEVICE_KIND))
    return move(block.kind == GPUPEAK_KIND_REGISTERED ? page.registered : page.pinned, bytes);
  if (block.kind == GPUPEAK_KIND_MANAGED) move(page.managed, bytes);
  if (!has_counters(block.device)) return;
  gpupeak_device_counters& device = page.device[block.device];
  move(device.kind[block.kind - GPUPEAK_FIRST_DEVICE_KIND], bytes);
  if ((bit_of(block.kind) & kInDeviceTotal) == 0) return;
  move(device.total, bytes);
  if (bytes > 0) note_tracked_bytes(block.device, device.total.live);
}

}  // namespace

Record numbered(uint8_t tag) {
  Record record(tag);
  record.u(next_number());
  return record;
}

void log_free(const DeviceBlock& block, uint32_t api, uint32_t stack) {
  if (block.id == 0) return;
  move_gauges(block, -static_cast<int64_t>(block.bytes));
  const uint64_t number = next_number();
  emit_short(GPUPEAK_REC_DEVICE_FREE,
             [&](Numbers& record) { record.id(number).id(block.id).u(api).id(stack); });
}

namespace {

/// The end of what the book has was not seen.
__attribute__((noinline)) bool replace_block(DeviceBlock& stale, const DeviceBlock& block,
                                             uint32_t api, uint32_t stack) {
  if (stale.kind == GPUPEAK_KIND_IMPORTED && block.kind == GPUPEAK_KIND_IMPORTED) {
    ++stale.opens;
    return false;
  }
  log_free(stale, api, stack);
  stale = block;
  return true;
}

}  // namespace

bool keep_block(uint64_t key, const DeviceBlock& block, uint32_t api, uint32_t stack) {
  bool added;
  DeviceBlock* const stale = g_book.blocks.find_or_add(key, block, added);
  if (added) return true;
  if (stale == nullptr) {
    set_quality(GPUPEAK_Q_DEVICE_TABLE_FULL);
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  return replace_block(*stale, block, api, stack);
}

GPUPEAK_HOT __attribute__((flatten)) bool take_block(DeviceBlock* known, DeviceBlock& block,
                                                     uint32_t api, uint32_t stack) {
  if (known == nullptr) return false;
  block = *known;
  if (known->id == 0) return true;
  if (known->opens > 1) {
    --known->opens;
    return true;
  }
  g_book.blocks.erase(known);
  log_free(block, api, stack);
  return true;
}

void put_back_block(uint64_t key, const DeviceBlock& block) {
  if (block.id == 0) return;
  if (!g_book.blocks.insert(key, block) || block.opens > 1) return;
  move_gauges(block, static_cast<int64_t>(block.bytes));
  emit(numbered(GPUPEAK_REC_DEVICE_REVIVE).u(block.id));
}

GPUPEAK_HOT __attribute__((flatten)) void add_block(KeySpace space, uint64_t value,
                                                    DeviceBlock block, uint32_t api,
                                                    uint32_t stack) {
  block.id = g_book.next_id++;
  if (!keep_block(key_of(space, value), block, api, stack)) return;
  move_gauges(block, static_cast<int64_t>(block.bytes));
  if (has_counters(block.device)) {
    uint64_t& allocations = counters().device[block.device].alloc_count;
    store(allocations, allocations + 1);
  }
  const uint64_t number = next_number();
  const uint64_t for_capture = allocates_for_capture() ? 1 : 0;
  emit_short(GPUPEAK_REC_DEVICE_ALLOC, [&](Numbers& record) {
    record.id(number).id(block.id).u(block.kind).u(logged_device(block.device)).u(value);
    record.id(block.bytes).u(api).id(stack);
    record.u(reinterpret_cast<uint64_t>(block.context)).u(reinterpret_cast<uint64_t>(block.pool));
    record.u(for_capture);
  });
}

}  // namespace gpupeak::preload
