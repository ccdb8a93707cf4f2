// What NVTX's objects are to us: domains, registered strings and categories are ids of the log's
// strings; heaps are arenas, regions what they hand out. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "stack/stack.h"
#include "track/phases.h"

namespace gpupeak::preload {

/// Of a domain's name or a registered string: what the client keeps as its handle. 0: failed.
uint32_t nvtx_string(std::string_view text);
void nvtx_name_category(uint64_t domain, uint32_t category, std::string_view name);
/// The string id of a category's name; 0: it has none.
uint32_t nvtx_category(uint64_t domain, uint32_t category);

/// The name of a payload's schema with a number of the client's own.
void nvtx_name_schema(uint64_t domain, uint64_t schema, uint32_t name);
/// The string id of the name; 0: it has none.
uint32_t nvtx_schema(uint64_t domain, uint64_t schema);

/// A heap's handle is what the client is given for it; 0 is all of the process's memory.
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
