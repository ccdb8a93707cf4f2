// Host memory: pinned (mapped by the driver) and registered (mapped by the program).
#include <sys/mman.h>

#include "export.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kHostPage = 4096;

CUresult host_alloc(void** out, uint64_t bytes, unsigned flags) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  const uint64_t mapped = round_up(bytes, kHostPage);
  void* const at =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  driver().host_blocks[reinterpret_cast<uintptr_t>(at)] = {
      .bytes = bytes, .mapped = mapped, .context = context, .flags = flags};
  ledger_add(-1, Kind::pinned, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

void unpin(uintptr_t at, const HostBlock& block) {
  ledger_remove(-1, Kind::pinned, block.bytes);
  munmap(reinterpret_cast<void*>(at), block.mapped);
}

CUresult free_host(void* at) {
  auto& blocks = driver().host_blocks;
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(at));
  if (found == blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  unpin(found->first, found->second);
  blocks.erase(found);
  return CUDA_SUCCESS;
}

CUresult host_register(void* at, size_t bytes, unsigned flags) {
  if (at == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  const auto begin = reinterpret_cast<uintptr_t>(at);
  for (const auto& [other, block] : driver().registered) {
    if (begin < other + block.bytes && other < begin + bytes)
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  driver().registered[begin] = {.bytes = bytes, .context = context, .flags = flags};
  ledger_add(-1, Kind::registered, bytes);
  return CUDA_SUCCESS;
}

CUresult host_unregister(void* at) {
  auto& blocks = driver().registered;
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(at));
  if (found == blocks.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  ledger_remove(-1, Kind::registered, found->second.bytes);
  blocks.erase(found);
  return CUDA_SUCCESS;
}

const HostBlock* host_block_at(void* pointer) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  for (const auto* blocks : {&driver().host_blocks, &driver().registered}) {
    const auto found = blocks->upper_bound(at);
    if (found == blocks->begin()) continue;
    const auto& [base, block] = *std::prev(found);
    if (at - base < block.bytes) return &block;
  }
  return nullptr;
}

CUresult device_pointer(CUdeviceptr* out, void* pointer, unsigned) {
  if (host_block_at(pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult host_flags(unsigned* out, void* pointer) {
  const HostBlock* const block = host_block_at(pointer);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = block->flags;
  return CUDA_SUCCESS;
}

}  // namespace

void free_host_of(Context* context) {
  auto& pinned = driver().host_blocks;
  for (auto at = pinned.begin(); at != pinned.end();) {
    const bool dies = at->second.context == context;
    if (dies) unpin(at->first, at->second);
    at = dies ? pinned.erase(at) : std::next(at);
  }
  auto& registered = driver().registered;
  for (auto at = registered.begin(); at != registered.end();) {
    const bool dies = at->second.context == context;
    if (dies) ledger_remove(-1, Kind::registered, at->second.bytes);
    at = dies ? registered.erase(at) : std::next(at);
  }
}

FAKE_CUDA_EXPORT(cuMemAllocHost, "cuMemAllocHost", 2000, host_alloc, (void** out, unsigned bytes),
                 (out, bytes, 0))
FAKE_CUDA_EXPORT(cuMemAllocHost_v2, "cuMemAllocHost", 3020, host_alloc, (void** out, size_t bytes),
                 (out, bytes, 0))
FAKE_CUDA_EXPORT(cuMemHostAlloc, "cuMemHostAlloc", 2020, host_alloc,
                 (void** out, size_t bytes, unsigned flags), (out, bytes, flags))
FAKE_CUDA_EXPORT(cuMemFreeHost, "cuMemFreeHost", 2000, free_host, (void* at), (at))
FAKE_CUDA_EXPORT(cuMemHostRegister, "cuMemHostRegister", 4000, host_register,
                 (void* at, size_t bytes, unsigned flags), (at, bytes, flags))
FAKE_CUDA_EXPORT(cuMemHostRegister_v2, "cuMemHostRegister", 6050, host_register,
                 (void* at, size_t bytes, unsigned flags), (at, bytes, flags))
FAKE_CUDA_EXPORT(cuMemHostUnregister, "cuMemHostUnregister", 4000, host_unregister, (void* at),
                 (at))
FAKE_CUDA_EXPORT(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer", 2020, device_pointer,
                 (CUdeviceptr * out, void* at, unsigned flags), (out, at, flags))
FAKE_CUDA_EXPORT(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020, device_pointer,
                 (CUdeviceptr * out, void* at, unsigned flags), (out, at, flags))
FAKE_CUDA_EXPORT(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, host_flags,
                 (unsigned* out, void* at), (out, at))

}  // namespace fake_cuda
