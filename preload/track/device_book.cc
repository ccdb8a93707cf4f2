#include "track/device_book.h"

#include "log/log.h"
#include "thread/emit.h"
#include "track/captures.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {
namespace {

bool counts_into_device_total(gpupeak_kind kind) {
  switch (kind) {
    case GPUPEAK_KIND_LINEAR:
    case GPUPEAK_KIND_POOL:
    case GPUPEAK_KIND_VMM:
    case GPUPEAK_KIND_ARRAY:
    case GPUPEAK_KIND_GRAPH:
      return true;
    default:
      return false;
  }
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

void move_gauges(const DeviceBlock& block, int64_t bytes) {
  gpupeak_counters_page& page = counters();
  switch (block.kind) {
    case GPUPEAK_KIND_PINNED:
    case GPUPEAK_KIND_HOST_VMM:
      move(page.pinned, bytes);
      return;
    case GPUPEAK_KIND_REGISTERED:
      move(page.registered, bytes);
      return;
    case GPUPEAK_KIND_MANAGED:
      move(page.managed, bytes);
      break;
    default:
      break;
  }
  if (block.device < 0 || block.device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return;
  gpupeak_device_counters& device = page.device[block.device];
  move(device.kind[block.kind - GPUPEAK_FIRST_DEVICE_KIND], bytes);
  if (!counts_into_device_total(block.kind)) return;
  move(device.total, bytes);
  note_tracked_bytes(block.device, device.total.live);
}

Record numbered(uint8_t tag) {
  Record record(tag);
  record.u(g_book.next_seq++);
  store(counters().device_events, counters().device_events + 1);
  return record;
}

void log_free(const DeviceBlock& block, uint32_t api, uint32_t stack) {
  if (block.id == 0) return;
  move_gauges(block, -static_cast<int64_t>(block.bytes));
  emit(numbered(GPUPEAK_REC_DEVICE_FREE).u(block.id).u(api).u(stack));
}

bool keep_block(uint64_t key, const DeviceBlock& block, uint32_t api, uint32_t stack) {
  DeviceBlock* const stale = g_book.blocks.find(key);
  if (stale != nullptr) {
    if (stale->kind == GPUPEAK_KIND_IMPORTED && block.kind == GPUPEAK_KIND_IMPORTED) {
      ++stale->opens;
      return false;
    }
    log_free(*stale, api, stack);
    *stale = block;
    return true;
  }
  if (g_book.blocks.add(key, block)) return true;
  set_quality(GPUPEAK_Q_DEVICE_TABLE_FULL);
  count(&gpupeak_counters_page::dropped_events);
  return false;
}

bool take_block(uint64_t key, DeviceBlock& block, uint32_t api, uint32_t stack) {
  DeviceBlock* known = g_book.blocks.find(key);
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

void add_block(KeySpace space, uint64_t value, DeviceBlock block, uint32_t api, uint32_t stack) {
  block.id = g_book.next_id++;
  if (!keep_block(key_of(space, value), block, api, stack)) return;
  move_gauges(block, static_cast<int64_t>(block.bytes));
  if (block.device >= 0 && block.device < static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) {
    uint64_t& allocations = counters().device[block.device].alloc_count;
    store(allocations, allocations + 1);
  }
  Record record = numbered(GPUPEAK_REC_DEVICE_ALLOC);
  record.u(block.id)
      .u(block.kind)
      .u(logged_device(block.device))
      .u(value)
      .u(block.bytes)
      .u(api)
      .u(stack);
  record.u(reinterpret_cast<uint64_t>(block.context)).u(reinterpret_cast<uint64_t>(block.pool));
  emit(record.u(allocates_for_capture() ? 1 : 0));
}

}  // namespace gpupeak::preload
