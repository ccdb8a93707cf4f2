// Memory that somebody else owns: IPC handles (here also within one process), pointers of shared
// pools, and external memory. An import takes addresses and no memory.
#include <cstring>

#include "export.h"

namespace fake_cuda {
namespace {

/// The content of an IPC handle, and of a pool's export data.
struct Shared {
  CUdeviceptr at;
  uint64_t bytes;
};

struct Opened {
  CUdeviceptr at = 0;
  uint64_t times = 0;
};

/// Opened handles by the exporter's address. A handle that is opened again has the same address.
std::map<CUdeviceptr, Opened>& opened() {
  static auto* const instance = new std::map<CUdeviceptr, Opened>;
  return *instance;
}

CUresult import(CUdeviceptr* out, uint64_t bytes) {
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  const uint64_t reserved = round_up(bytes, kPage);
  const CUdeviceptr at = reserve_addresses(reserved);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  driver().blocks[at] = {.owner = Block::Owner::imported,
                         .bytes = bytes,
                         .physical = reserved,
                         .device = context->device,
                         .context = context};
  ledger_add(context->device, Kind::imported, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult get_handle(Handle* out, CUdeviceptr at) {
  const auto found = driver().blocks.find(at);
  if (out == nullptr || found == driver().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  const Shared shared{at, found->second.bytes};
  static_assert(sizeof shared <= sizeof *out);
  memcpy(out, &shared, sizeof shared);
  return CUDA_SUCCESS;
}

CUresult ipc_open(CUdeviceptr* out, CUipcMemHandle handle, unsigned) {
  Shared shared;
  memcpy(&shared, &handle, sizeof shared);
  Opened& entry = opened()[shared.at];
  if (entry.times == 0) {
    const CUresult result = import(&entry.at, shared.bytes);
    if (result != CUDA_SUCCESS) return result;
  }
  ++entry.times;
  *out = entry.at;
  return CUDA_SUCCESS;
}

CUresult ipc_close(CUdeviceptr at) {
  for (auto entry = opened().begin(); entry != opened().end(); ++entry) {
    if (entry->second.at != at) continue;
    if (--entry->second.times > 0) return CUDA_SUCCESS;
    opened().erase(entry);
    return free_pointer(at);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult import_pool_pointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  if (driver().pools.find(pool) == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Shared shared;
  memcpy(&shared, data, sizeof shared);
  return import(out, shared.bytes);
}

/// The handle's description does not matter here.
CUresult import_external(CUexternalMemory* out) {
  *out = reinterpret_cast<CUexternalMemory>(new char);
  return CUDA_SUCCESS;
}

CUresult destroy_external(CUexternalMemory memory) {
  delete reinterpret_cast<char*>(memory);
  return CUDA_SUCCESS;
}

CUresult map_external(CUdeviceptr* out, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer) {
  return import(out, buffer->size);
}

}  // namespace

FAKE_CUDA_EXPORT(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, get_handle,
                 (CUipcMemHandle * out, CUdeviceptr at), (out, at))
FAKE_CUDA_EXPORT(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, ipc_open,
                 (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags), (out, handle, flags))
FAKE_CUDA_EXPORT(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, ipc_open,
                 (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags), (out, handle, flags))
FAKE_CUDA_EXPORT(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, ipc_close, (CUdeviceptr at),
                 (at))
FAKE_CUDA_EXPORT(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, get_handle,
                 (CUmemPoolPtrExportData * out, CUdeviceptr at), (out, at))
FAKE_CUDA_EXPORT(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020, import_pool_pointer,
                 (CUdeviceptr * out, CUmemoryPool pool, CUmemPoolPtrExportData* data),
                 (out, pool, data))
FAKE_CUDA_EXPORT(cuImportExternalMemory, "cuImportExternalMemory", 10000, import_external,
                 (CUexternalMemory * out, const void*), (out))
FAKE_CUDA_EXPORT(cuDestroyExternalMemory, "cuDestroyExternalMemory", 10000, destroy_external,
                 (CUexternalMemory memory), (memory))
FAKE_CUDA_EXPORT(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", 10000,
                 map_external,
                 (CUdeviceptr * out, CUexternalMemory,
                  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer),
                 (out, buffer))

}  // namespace fake_cuda
