#include "track/nvtx.h"

#include "base/hook_scope.h"
#include "log/log.h"
#include "track/arenas.h"
#include "track/locked_map.h"

namespace gpupeak::preload {
namespace {

struct Region {
  uint64_t heap, arena, bytes;
};

constinit LockedMap<uint32_t> g_categories;  // string ids by key_of(domain, category)
constinit LockedMap<uint32_t> g_schemas;     // string ids by key_of(domain, schema)
constinit LockedMap<uint64_t> g_arenas;      // by heap + 1
constinit LockedMap<Region> g_regions;       // by address

/// Domains, categories and a client's own numbers of schemas have 32 bits.
uint64_t key_of(uint64_t domain, uint64_t number) {
  return ((domain << 32) | number) + 1;
}

uint64_t arena_of(uint64_t heap) {
  return g_arenas.find(heap + 1);
}

void forget_regions(uint64_t heap) {
  g_regions.erase_if([heap](uint64_t, const Region& region) { return region.heap == heap; });
}

}  // namespace

uint32_t nvtx_string(std::string_view text) {
  HookScope hook;
  return hook.entered() ? intern_string(text) : 0;
}

void nvtx_name_category(uint64_t domain, uint32_t category, std::string_view name) {
  const uint32_t id = nvtx_string(name);
  g_categories.insert(key_of(domain, category), id);
}

uint32_t nvtx_category(uint64_t domain, uint32_t category) {
  return category == 0 ? 0 : g_categories.find(key_of(domain, category));
}

void nvtx_name_schema(uint64_t domain, uint64_t schema, uint32_t name) {
  if (schema <= UINT32_MAX) g_schemas.insert(key_of(domain, schema), name);
}

uint32_t nvtx_schema(uint64_t domain, uint64_t schema) {
  return schema > UINT32_MAX ? 0 : g_schemas.find(key_of(domain, schema));
}

void nvtx_heap_registered(uint64_t heap, const Name& name, uint64_t address, uint64_t bytes) {
  const uint64_t arena = arena_create(name, address, bytes);
  g_arenas.insert(heap + 1, arena);
}

void nvtx_heap_unregistered(uint64_t heap) {
  arena_event(arena_of(heap), GPUPEAK_ARENA_DESTROYED);
  forget_regions(heap);
  g_arenas.erase(heap + 1);
}

void nvtx_heap_reset(uint64_t heap) {
  arena_event(arena_of(heap), GPUPEAK_ARENA_RESET);
  forget_regions(heap);
}

void nvtx_region_registered(uint64_t heap, uint64_t address, uint64_t bytes,
                            const CallerFrame& caller) {
  // No client registers heap 0, the whole process.
  if (heap == 0 && arena_of(0) == 0) nvtx_heap_registered(0, "process", 0, 0);
  const uint64_t arena = arena_of(heap);
  if (arena == 0) return;
  g_regions.insert(address, {heap, arena, bytes});
  arena_allocated(arena, address, bytes, {}, caller);
}

void nvtx_region_resized(uint64_t address, uint64_t bytes, const CallerFrame& caller) {
  const Region region = g_regions.find(address);
  if (region.arena == 0) return;
  g_regions.insert(address, {region.heap, region.arena, bytes});
  arena_allocated(region.arena, address, bytes, {}, caller);
}

void nvtx_region_named(uint64_t address, const Name& name, const CallerFrame& caller) {
  const Region region = g_regions.find(address);
  if (region.arena != 0) arena_allocated(region.arena, address, region.bytes, name, caller);
}

void nvtx_region_unregistered(uint64_t address) {
  const Region region = g_regions.find(address);
  if (region.arena == 0) return;
  g_regions.erase(address);
  arena_freed(region.arena, address);
}

void reset_nvtx() {
  g_categories.reset();
  g_schemas.reset();
  g_arenas.reset();
  g_regions.reset();
}

}  // namespace gpupeak::preload
