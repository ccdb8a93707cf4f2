#include "track/device_memory.h"

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "gpupeak/memory_kinds.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/limit.h"
#include "track/memory_pools.h"
#include "track/virtual_memory.h"

namespace gpupeak::preload {

constinit DeviceBook g_book;

namespace {

/// From contexts, also green ones, to their devices; under the book's lock.
constinit FlatMap<int> g_contexts;

int known_device(const void* context) {
  const int* known = g_contexts.find(address_of(context));
  return known != nullptr ? *known : kNoDevice;
}

}  // namespace

void book_is_out_of_reach() {
  count(&gpupeak_counters_page::dropped_events);
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
  emit(numbered(GPUPEAK_REC_DEVICE_REVIVE, block.id));
}

void context_began(CUcontext context, int device) {
  HookScope scope;
  if (!scope.entered()) return;
  introduce_device(device);
  const BookGuard guard;
  if (!guard) return;
  g_contexts.insert(address_of(context), device);
  emit(numbered(GPUPEAK_REC_CONTEXT, address_of(context), logged_device(device),
                GPUPEAK_CONTEXT_CREATED));
}

void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event) {
  if (context == nullptr) return;
  const BookSite site(call);
  if (!site) return;
  g_book.blocks.erase_if([&](uint64_t, const DeviceBlock& block) {
    const bool ends =
        block.context == context && memory_kind(block.kind).end == MemoryKind::End::Context;
    if (ends) log_free(block, site.api, site.stack);
    return ends;
  });
  const int device = known_device(context);
  g_contexts.erase(address_of(context));
  emit(numbered(GPUPEAK_REC_CONTEXT, address_of(context), logged_device(device), event));
}

int device_of_context(const void* context) {
  const InBook book;
  if (!book) return kNoDevice;
  return known_device(context);
}

void green_context_began(const void* green, int device) {
  const InBook book;
  if (book) g_contexts.insert(address_of(green), device);
}

void green_context_ended(const void* green) {
  const InBook book;
  if (book) g_contexts.erase(address_of(green));
}

void device_allocated(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock block) {
  const BookSite site(call, block.device);
  if (site) add_block(space, value, block, site.api, site.stack);
}

void device_noted(KeySpace space, uint64_t value, DeviceBlock block) {
  HookScope scope;
  if (!scope.entered()) return count(&gpupeak_counters_page::dropped_events);
  const BookGuard guard;
  if (!guard) return;
  block.id = 0;
  if (block.kind == GPUPEAK_KIND_GRAPH) note_graph_memory();
  keep_block(key_of(space, value), block, 0, 0);
}

bool device_freeing(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock& block,
                    DeviceCall& under_way) {
  const BookSite site(call);
  if (!site) {
    under_way.begin();
    return false;
  }
  DeviceBlock* const known = g_book.blocks.find(key_of(space, value));
  if (known == nullptr || known->kind != GPUPEAK_KIND_POOL) under_way.begin();
  return take_block(known, block, site.api, site.stack);
}

void device_not_freed(KeySpace space, uint64_t value, const DeviceBlock& block) {
  const InBook book;
  if (!book) return;
  put_back_block(key_of(space, value), block);
}

bool device_find(KeySpace space, uint64_t value, DeviceBlock& block) {
  const InBook book;
  if (!book) return false;
  const DeviceBlock* known = g_book.blocks.find(key_of(space, value));
  if (known != nullptr) block = *known;
  return known != nullptr;
}

void device_unknown_freed(const ApiCall& call, uint64_t value, uint64_t gives_back_plus_1) {
  const BookSite site(call);
  if (!site) return;
  count(&gpupeak_counters_page::unmatched_frees);
  emit(numbered(GPUPEAK_REC_DEVICE_UNKNOWN, value, site.api, site.stack, gives_back_plus_1));
}

void device_failed(const ApiCall& call, gpupeak_kind kind, int device, uint64_t bytes,
                   CUresult result) {
  const bool by_limit = t_flags.refused_by_limit && device != kNoDevice;
  t_flags.refused_by_limit = false;
  // Another error may come from a capture that forbids the call. Then the driver is not asked.
  uint64_t free_bytes = 0, total_bytes = 0;
  const bool of_current = kind != GPUPEAK_KIND_NONE || current_device() == device;
  const bool known = result == CUDA_ERROR_OUT_OF_MEMORY && of_current &&
                     visible_memory_info(free_bytes, total_bytes);
  const BookSite site(call, device);
  if (!site) return;
  emit(numbered(GPUPEAK_REC_DEVICE_FAILED, kind, logged_device(device), bytes, result,
                has_counters(device) ? counters().device[device].total.live : 0,
                known ? free_bytes + 1 : 0, known ? total_bytes + 1 : 0, site.api, site.stack,
                by_limit ? 1 : 0));
}

void forget_device_memory() {
  g_book.lock.reset();  // nobody takes it now, since the process does not record yet
  g_book.blocks.forget();
  g_book.next_id = g_book.next_seq = 1;
  forget_pools();
  g_contexts.forget();
  forget_graph_memory();
  forget_virtual_memory();
  forget_readings();
  forget_introductions();
  forget_limits();
  forget_captures();
}

}  // namespace gpupeak::preload
