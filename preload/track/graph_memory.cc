#include "track/graph_memory.h"

#include <atomic>

#include "base/hook_scope.h"
#include "base/spinlock.h"
#include "log/log.h"
#include "thread/own_stack.h"
#include "track/device_book.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

struct Reserve {
  uint64_t bytes = 0;
  uint32_t blocks = 0;  ///< numbered from 1; the latest is given back first
};
constinit Reserve g_reserves[GPUPEAK_LOG_MAX_DEVICES];  // under the book's lock
constinit std::atomic<bool> g_has_graphs{false};

uint64_t graph_block(int device, uint32_t number) {
  return static_cast<uint64_t>(device) << 32 | number;
}

}  // namespace

bool has_graph_memory() {
  return g_has_graphs.load(std::memory_order_relaxed);
}

void graph_reserve_read(const ApiCall& call, int device) {
  HookScope scope;
  if (!scope.entered() || device < 0 || device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return;
  introduce_device(device);
  LockGuard guard(g_book.lock);
  const uint64_t reserved_bytes = graph_reserve(device);
  Reserve& reserve = g_reserves[device];
  if (reserve.bytes == reserved_bytes) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_call_site(call.caller);
  while (reserve.bytes > reserved_bytes && reserve.blocks > 0) {
    const uint64_t key = key_of(KeySpace::kGraphReserve, graph_block(device, reserve.blocks--));
    if (const DeviceBlock* block = g_book.blocks.find(key)) {
      reserve.bytes -= block->bytes;
      log_free(*block, api, stack);
      g_book.blocks.erase(key);
    }
  }
  if (reserve.bytes >= reserved_bytes) return;
  add_block(KeySpace::kGraphReserve, graph_block(device, ++reserve.blocks),
            {.bytes = reserved_bytes - reserve.bytes, .device = device, .kind = GPUPEAK_KIND_GRAPH},
            api, stack);
  reserve.bytes = reserved_bytes;
}

void note_graph_memory() {
  g_has_graphs.store(true, std::memory_order_relaxed);
}

void forget_graph_memory() {
  for (Reserve& reserve : g_reserves) reserve = {};
  g_has_graphs = false;
}

}  // namespace gpupeak::preload
