// Names of errors, and private tables that only NVIDIA's own libraries can use.
#include "export.h"

namespace fake_cuda {
namespace {

struct Name {
  CUresult result;
  const char* name;
  const char* text;
};
constexpr Name kNames[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

CUresult describe(CUresult result, const char** out, const char* Name::*field) {
  for (const Name& entry : kNames) {
    if (entry.result != result) continue;
    *out = entry.*field;
    return CUDA_SUCCESS;
  }
  *out = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult no_table(const void** out) {
  if (out != nullptr) *out = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace

FAKE_CUDA_EXPORT_EARLY(cuGetErrorName, "cuGetErrorName", 6000, describe,
                       (CUresult result, const char** out), (result, out, &Name::name))
FAKE_CUDA_EXPORT_EARLY(cuGetErrorString, "cuGetErrorString", 6000, describe,
                       (CUresult result, const char** out), (result, out, &Name::text))
FAKE_CUDA_EXPORT_EARLY(cuGetExportTable, "cuGetExportTable", 3000, no_table,
                       (const void** out, const CUuuid*), (out))

}  // namespace fake_cuda
