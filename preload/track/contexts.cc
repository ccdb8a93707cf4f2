#include "track/contexts.h"

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "gpupeak/memory_kinds.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

// From contexts to their devices; under the book's lock.
constinit FlatMap<int> g_contexts;
constinit FlatMap<int> g_green_contexts;

int device_in(FlatMap<int>& contexts, const void* context) {
  HookScope scope;
  if (!scope.entered()) return kNoDevice;
  const BookGuard guard;
  if (!guard) return kNoDevice;
  const int* known = contexts.find(reinterpret_cast<uint64_t>(context));
  return known != nullptr ? *known : kNoDevice;
}

bool ends_with_context(gpupeak_kind kind) {
  return memory_kind(kind).end == MemoryKind::End::Context;
}

}  // namespace

void context_began(CUcontext context, int device) {
  HookScope scope;
  if (!scope.entered()) return;
  introduce_device(device);
  const BookGuard guard;
  if (!guard) return;
  g_contexts.insert(reinterpret_cast<uint64_t>(context), device);
  Record record = numbered(GPUPEAK_REC_CONTEXT);
  emit(record.u(reinterpret_cast<uint64_t>(context))
           .u(logged_device(device))
           .u(GPUPEAK_CONTEXT_CREATED));
}

void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event) {
  HookScope scope;
  if (!scope.entered() || context == nullptr) return;
  const uint32_t api = api_of(call);
  const uint32_t stack = capture_stack(call.caller);
  const BookGuard guard;
  if (!guard) return;
  for (;;) {
    uint64_t keys[64];  // a batch at a time, since erasing moves entries
    size_t n = 0;
    g_book.blocks.for_each([&](uint64_t key, const DeviceBlock& block) {
      if (n < 64 && block.context == context && ends_with_context(block.kind)) keys[n++] = key;
    });
    for (size_t i = 0; i < n; ++i) {
      log_free(*g_book.blocks.find(keys[i]), api, stack);
      g_book.blocks.erase(keys[i]);
    }
    if (n < 64) break;
  }
  const int* known = g_contexts.find(reinterpret_cast<uint64_t>(context));
  const int device = known != nullptr ? *known : kNoDevice;
  g_contexts.erase(reinterpret_cast<uint64_t>(context));
  Record record = numbered(GPUPEAK_REC_CONTEXT);
  emit(record.u(reinterpret_cast<uint64_t>(context)).u(logged_device(device)).u(event));
}

int device_of_context(CUcontext context) {
  return device_in(g_contexts, context);
}

int device_of_green_context(const void* green) {
  return device_in(g_green_contexts, green);
}

void green_context_began(const void* green, int device) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  g_green_contexts.insert(reinterpret_cast<uint64_t>(green), device);
}

void green_context_ended(const void* green) {
  HookScope scope;
  if (!scope.entered()) return;
  const BookGuard guard;
  if (!guard) return;
  g_green_contexts.erase(reinterpret_cast<uint64_t>(green));
}

void forget_contexts() {
  g_contexts.forget();
  g_green_contexts.forget();
}

}  // namespace gpupeak::preload
