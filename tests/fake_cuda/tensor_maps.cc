// Tensor maps: 128 bytes that only the driver can read. Ours hold words that are computed from the
// address, so that nobody can find the address itself there.
#include <cstring>

#include "export.h"

namespace fake_cuda {
namespace {

CUresult encode(void* map, int kind, void* address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  uint64_t words[16];
  for (uint64_t i = 0; i < 16; ++i)
    words[i] = ~value * (2 * i + 3) ^ static_cast<uint64_t>(kind) << 7;
  memcpy(map, words, sizeof words);
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", 12000, encode,
                 (void* map, int, unsigned, void* address, const void*, const void*, const void*,
                  const void*, int, int, int, int),
                 (map, 1, address))
FAKE_CUDA_EXPORT(cuTensorMapEncodeIm2col, "cuTensorMapEncodeIm2col", 12000, encode,
                 (void* map, int, unsigned, void* address, const void*, const void*, const int*,
                  const int*, unsigned, unsigned, const void*, int, int, int, int),
                 (map, 2, address))
FAKE_CUDA_EXPORT(cuTensorMapEncodeIm2colWide, "cuTensorMapEncodeIm2colWide", 12080, encode,
                 (void* map, int, unsigned, void* address, const void*, const void*, int, int,
                  unsigned, unsigned, const void*, int, int, int, int, int),
                 (map, 3, address))
FAKE_CUDA_EXPORT(cuTensorMapReplaceAddress, "cuTensorMapReplaceAddress", 12000, encode,
                 (void* map, void* address), (map, 1, address))

}  // namespace fake_cuda
