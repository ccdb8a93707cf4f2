// What NVTX's objects are in the log. Domains, registered strings and categories are string ids.
// Heaps are arenas, and regions are the blocks that they hand out. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "stack/stack.h"
#include "track/phases.h"

namespace gpupeak::preload {

/// The string id of a domain's name or of a registered string. The client keeps it as the handle.
/// 0: failed.
uint32_t nvtx_string(std::string_view text);
void nvtx_name_category(uint64_t domain, uint32_t category, std::string_view name);
/// The string id of a category's name; 0: it has none.
uint32_t nvtx_category(uint64_t domain, uint32_t category);

/// Names a payload's schema. `schema`: a number that the client chose; `name`: string id.
void nvtx_name_schema(uint64_t domain, uint64_t schema, uint32_t name);
/// The string id of a schema's name; 0: it has none.
uint32_t nvtx_schema(uint64_t domain, uint64_t schema);

/// `heap`: the handle that the client is given; 0 stands for all of the process's memory.
void nvtx_heap_registered(uint64_t heap, const Name& name, uint64_t address, uint64_t bytes);
void nvtx_heap_unregistered(uint64_t heap);
void nvtx_heap_reset(uint64_t heap);
void nvtx_region_registered(uint64_t heap, uint64_t address, uint64_t bytes,
                            const CallerFrame& caller);
void nvtx_region_resized(uint64_t address, uint64_t bytes, const CallerFrame& caller);
void nvtx_region_named(uint64_t address, const Name& name, const CallerFrame& caller);
void nvtx_region_unregistered(uint64_t address);

/// In a forked child.
void reset_nvtx();

}  // namespace gpupeak::preload
