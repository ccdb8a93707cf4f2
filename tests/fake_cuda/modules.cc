// Modules, libraries and launches: they succeed and do nothing.
#include "export.h"

namespace fake_cuda {
namespace {

template <typename Handle>
CUresult load(Handle* out) {
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  *out = reinterpret_cast<Handle>(driver().modules.add({.context = context}));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult unload(Handle handle) {
  Module* const module = driver().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  driver().modules.remove(module);
  return CUDA_SUCCESS;
}

/// Functions and kernels are their modules.
template <typename Function, typename Handle>
CUresult function_of(Function* out, Handle handle) {
  if (driver().modules.find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<Function>(handle);
  return CUDA_SUCCESS;
}

CUresult launch() {
  return current_context() != nullptr ? CUDA_SUCCESS : no_context();
}

CUresult loading_mode(int* out) {
  *out = 2;  // CU_MODULE_LAZY_LOADING
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuModuleLoad, "cuModuleLoad", 2000, load, (CUmodule * out, const char*), (out))
FAKE_CUDA_EXPORT(cuModuleLoadData, "cuModuleLoadData", 2000, load, (CUmodule * out, const void*),
                 (out))
FAKE_CUDA_EXPORT(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, load,
                 (CUmodule * out, const void*, unsigned, CUjit_option*, void**), (out))
FAKE_CUDA_EXPORT(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, load,
                 (CUmodule * out, const void*), (out))
FAKE_CUDA_EXPORT(cuModuleUnload, "cuModuleUnload", 2000, unload, (CUmodule module), (module))
FAKE_CUDA_EXPORT(cuModuleGetFunction, "cuModuleGetFunction", 2000, function_of,
                 (CUfunction * out, CUmodule module, const char*), (out, module))
FAKE_CUDA_EXPORT(cuModuleGetLoadingMode, "cuModuleGetLoadingMode", 11070, loading_mode, (int* out),
                 (out))
FAKE_CUDA_EXPORT(cuLibraryLoadData, "cuLibraryLoadData", 12000, load,
                 (CUlibrary * out, const void*, CUjit_option*, void**, unsigned, void*, void**,
                  unsigned),
                 (out))
FAKE_CUDA_EXPORT(cuLibraryUnload, "cuLibraryUnload", 12000, unload, (CUlibrary library), (library))
FAKE_CUDA_EXPORT(cuLibraryGetKernel, "cuLibraryGetKernel", 12000, function_of,
                 (CUkernel * out, CUlibrary library, const char*), (out, library))
FAKE_CUDA_EXPORT(cuLibraryGetModule, "cuLibraryGetModule", 12000, function_of,
                 (CUmodule * out, CUlibrary library), (out, library))
FAKE_CUDA_EXPORT(cuKernelGetFunction, "cuKernelGetFunction", 12000, function_of,
                 (CUfunction * out, CUkernel kernel), (out, kernel))
FAKE_CUDA_EXPORT(cuLaunchKernel, "cuLaunchKernel", 4000, launch,
                 (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  CUstream, void**, void**),
                 ())
FAKE_CUDA_EXPORT_PER_THREAD(cuLaunchKernel, _ptsz, "cuLaunchKernel", 7000, launch,
                            (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void**, void**),
                            ())
FAKE_CUDA_EXPORT_BOTH(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, launch,
                      (const void*, CUfunction, void**, void**), ())

}  // namespace fake_cuda
