// The two ends of a copy, and what role a copy gives the blocks there. HOOK-SAFE, inside a
// DriverScope.
//
//   cuMemcpyHtoD(to, host)     to: copied_in
//   cuMemcpy(to, from)         each by where the other lies: the driver is asked if no block is
//   there
#pragma once

#include <cuda.h>

#include <cstdint>

#include "track/last_use.h"

namespace gpupeak::preload {

struct CopyEnd {
  enum class In : uint8_t { kHost, kDevice, kEither, kArray } in;
  uint64_t at;  ///< an address, or the array's handle
};

/// Where addresses of type CUdeviceptr lie, for the rows of copies in cuda_uses.def.
constexpr auto kOfDevice = CopyEnd::In::kDevice, kOfEither = CopyEnd::In::kEither;

inline bool is_host(const CopyEnd& end) {
  return end.in == CopyEnd::In::kHost || (end.in == CopyEnd::In::kEither && !is_on_device(end.at));
}

/// Looks at both ends. `on_array(array, role)` is called for an end that is an array.
template <typename OnArray>
void look_at_copy(SeenWords& seen, const CopyEnd& to, const CopyEnd& from, OnArray on_array) {
  const auto look = [&](const CopyEnd& end, gpupeak_role role) {
    if (end.in == CopyEnd::In::kArray)
      on_array(reinterpret_cast<CUarray>(end.at), role);
    else
      seen.look_at(end.at, role);
  };
  look(to, is_host(from) ? GPUPEAK_ROLE_COPIED_IN : GPUPEAK_ROLE_COPIED_TO);
  look(from, is_host(to) ? GPUPEAK_ROLE_COPIED_OUT : GPUPEAK_ROLE_COPIED_FROM);
}

inline CopyEnd copy_end(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  using In = CopyEnd::In;
  if (type == CU_MEMORYTYPE_ARRAY) return {In::kArray, reinterpret_cast<uint64_t>(array)};
  if (type == CU_MEMORYTYPE_HOST) return {In::kHost, reinterpret_cast<uint64_t>(host)};
  return {type == CU_MEMORYTYPE_DEVICE ? In::kDevice : In::kEither, device};
}

/// The same for a structure such as CUDA_MEMCPY3D.
template <typename Structure, typename OnArray>
void look_at_copy_of(SeenWords& seen, const Structure& copy, OnArray on_array) {
  look_at_copy(seen, copy_end(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray),
               copy_end(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray), on_array);
}

}  // namespace gpupeak::preload
