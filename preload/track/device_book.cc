#include "track/device_book.h"

#include "log/log.h"
#include "thread/emit.h"

namespace gpupeak::preload {

constinit DeviceBook g_book;

void book_is_out_of_reach() {
  count(&gpupeak_counters_page::dropped_events);
}

Record numbered(uint8_t tag) {
  Record record(tag);
  record.u(next_number());
  return record;
}

bool replace_block(DeviceBlock* stale, DeviceBlock block, uint32_t api, uint32_t stack) {
  if (stale == nullptr) {
    set_quality(GPUPEAK_Q_DEVICE_TABLE_FULL);
    count(&gpupeak_counters_page::dropped_events);
    return false;
  }
  if (stale->kind == GPUPEAK_KIND_IMPORTED && block.kind == GPUPEAK_KIND_IMPORTED) {
    ++stale->opens;
    return false;
  }
  log_free(*stale, api, stack);
  *stale = block;
  return true;
}

void follow_use(uint64_t key, const DeviceBlock& block) {
  DeviceBlock* const known = g_book.blocks.find(key);
  if (known == nullptr) return;
  const bool is_array = key >> 60 == static_cast<uint64_t>(KeySpace::kArray);
  known->use = is_array ? array_use_began(block.id)
                        : use_began(key, block.bytes, block.id, !is_device_kind(block.kind));
}

void put_back_block(uint64_t key, const DeviceBlock& block) {
  if (block.id == 0) return;
  if (!g_book.blocks.insert(key, block) || block.opens > 1) return;
  if (block.use != 0) follow_use(key, block);
  move_gauges(block, static_cast<int64_t>(block.bytes));
  emit(numbered(GPUPEAK_REC_DEVICE_REVIVE).u(block.id));
}

}  // namespace gpupeak::preload
