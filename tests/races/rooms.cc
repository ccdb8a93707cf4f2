// The preload's rooms below hooks/, linked as a library of their own, with the calls that hooks
// make. The one function of hooks/ that these rooms call has a stand-in here.
#include "rooms.h"

#include "life/process.h"
#include "stack/frame_layout.h"
#include "track/heap.h"
#include "track/mapping.h"

namespace gpupeak::preload {

bool take_over_allocators() {
  return false;
}

namespace {

/// The size stands in the block's first word.
size_t size_of(void* block) {
  return *static_cast<const size_t*>(block);
}

constinit BlockSize g_size;

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

void rooms_begin() {
  g_size.init(size_of, false);
  ensure_started();
}

int rooms_record() {
  return recording() ? 1 : 0;
}

void rooms_allocated(void* block, size_t bytes) {
  if (host_recording()) heap_allocated(block, bytes, bytes, GPUPEAK_CALLER);
}

void rooms_freed(void* block) {
  if (host_recording()) heap_freed(block, g_size);
}

void rooms_mapped(void* at, size_t bytes) {
  if (host_recording()) mapped(at, bytes, 3, 0x22, GPUPEAK_CALLER);
}

void rooms_unmapping(void* at, size_t bytes) {
  if (host_recording()) unmapping(at, bytes);
}
