// Modules, libraries and launches: they succeed and only take memory.
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include "costs.h"
#include "export.h"

#if CUDA_VERSION < 12000  // whose headers do not have them yet
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
#endif

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
  discharge_module(module);
  driver().functions.remove_if([&](const auto& function) { return function.module == module; });
  driver().modules.remove(module);
  return CUDA_SUCCESS;
}

/// The module of a library, which is the same in every context.
CUresult module_of(CUmodule* out, CUlibrary library) {
  if (driver().modules.find(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

std::vector<size_t> parameters_of(const char* name) {
  std::vector<size_t> bytes;
  const char* takes = strstr(name, "takes_");
  if (takes == nullptr) return bytes;
  for (takes = strchr(takes, '_'); takes != nullptr; takes = strchr(takes + 1, '_'))
    bytes.push_back(strtoul(takes + 1, nullptr, 10));
  return bytes;
}

template <typename Out, typename Handle>
CUresult function_of(Out* out, Handle handle, const char* name) {
  Module* const module = driver().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const char* const local = strstr(name, "local_");
  Function* const function =
      driver().functions.add({.module = module,
                              .name = name,
                              .local_bytes = local != nullptr ? atoi(local + 6) : 0,
                              .is_kernel = std::is_same_v<Out, CUkernel>,
                              .parameter_bytes = parameters_of(name)});
  *out = reinterpret_cast<Out>(function);
  return CUDA_SUCCESS;
}

/// A parameter of a function, or of a kernel of a library. As with the real driver, each of the two
/// has a call of its own, which refuses the other.
CUresult parameter_info(bool of_kernel, const void* handle, size_t index, size_t* offset,
                        size_t* bytes) {
  const Function* const function = driver().functions.find(handle);
  if (function == nullptr || function->is_kernel != of_kernel) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= function->parameter_bytes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameter_offset(*function, index);
  *bytes = function->parameter_bytes[index];
  return CUDA_SUCCESS;
}

CUresult function_of_kernel(CUfunction* out, CUkernel kernel) {
  if (driver().functions.find(kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult function_attribute(int* out, CUfunction_attribute attribute, CUfunction handle) {
  const Function* const function = driver().functions.find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES ? function->local_bytes : 0;
  return CUDA_SUCCESS;
}

CUresult function_name(const char** out, CUfunction handle) {
  const Function* const function = driver().functions.find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, CUstream stream = nullptr, void** parameters = nullptr) {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  if (capture_launch(stream, function, parameters)) return CUDA_SUCCESS;
  return charge_launch(context->device, context, function) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_OUT_OF_MEMORY;
}

struct Configuration {
  unsigned sizes[7];
  CUstream stream;
};
CUresult launch_configured(const void* configuration, CUfunction function, void** parameters) {
  return launch(function, static_cast<const Configuration*>(configuration)->stream, parameters);
}

struct OneLaunch {
  CUfunction function;
  unsigned sizes[7];
  CUstream stream;
  void** parameters;
};
CUresult launch_all(const void* list, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const OneLaunch& one = static_cast<const OneLaunch*>(list)[i];
    const CUresult result = launch(one.function, one.stream, one.parameters);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult loading_mode(int* out) {
  *out = 2;  // CU_MODULE_LAZY_LOADING
  return CUDA_SUCCESS;
}

}  // namespace

size_t parameter_offset(const Function& function, size_t index) {
  size_t end = 0, offset = 0;
  for (size_t i = 0; i <= index; ++i) {
    const size_t bytes = function.parameter_bytes[i];
    const size_t alignment = bytes >= 128 ? 64 : bytes >= 8 ? 8 : bytes;
    offset = (end + alignment - 1) / alignment * alignment;
    end = offset + bytes;
  }
  return offset;
}

FAKE_CUDA_EXPORT(cuModuleLoad, "cuModuleLoad", 2000, load, (CUmodule * out, const char*), (out))
FAKE_CUDA_EXPORT(cuModuleLoadData, "cuModuleLoadData", 2000, load, (CUmodule * out, const void*),
                 (out))
FAKE_CUDA_EXPORT(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, load,
                 (CUmodule * out, const void*, unsigned, CUjit_option*, void**), (out))
FAKE_CUDA_EXPORT(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, load,
                 (CUmodule * out, const void*), (out))
FAKE_CUDA_EXPORT(cuModuleUnload, "cuModuleUnload", 2000, unload, (CUmodule module), (module))
FAKE_CUDA_EXPORT(cuModuleGetFunction, "cuModuleGetFunction", 2000, function_of,
                 (CUfunction * out, CUmodule module, const char* name), (out, module, name))
FAKE_CUDA_EXPORT(cuFuncGetAttribute, "cuFuncGetAttribute", 2020, function_attribute,
                 (int* out, CUfunction_attribute attribute, CUfunction function),
                 (out, attribute, function))
FAKE_CUDA_EXPORT(cuFuncGetName, "cuFuncGetName", 12030, function_name,
                 (const char** out, CUfunction function), (out, function))
FAKE_CUDA_EXPORT(cuModuleGetLoadingMode, "cuModuleGetLoadingMode", 11070, loading_mode, (int* out),
                 (out))
FAKE_CUDA_EXPORT(cuLibraryLoadData, "cuLibraryLoadData", 12000, load,
                 (CUlibrary * out, const void*, CUjit_option*, void**, unsigned, void*, void**,
                  unsigned),
                 (out))
FAKE_CUDA_EXPORT(cuLibraryUnload, "cuLibraryUnload", 12000, unload, (CUlibrary library), (library))
FAKE_CUDA_EXPORT(cuLibraryGetKernel, "cuLibraryGetKernel", 12000, function_of,
                 (CUkernel * out, CUlibrary library, const char* name), (out, library, name))
FAKE_CUDA_EXPORT(cuLibraryGetModule, "cuLibraryGetModule", 12000, module_of,
                 (CUmodule * out, CUlibrary library), (out, library))
FAKE_CUDA_EXPORT(cuKernelGetFunction, "cuKernelGetFunction", 12000, function_of_kernel,
                 (CUfunction * out, CUkernel kernel), (out, kernel))
FAKE_CUDA_EXPORT(cuFuncGetParamInfo, "cuFuncGetParamInfo", 12040, parameter_info,
                 (CUfunction function, size_t index, size_t* offset, size_t* bytes),
                 (false, function, index, offset, bytes))
FAKE_CUDA_EXPORT(cuKernelGetParamInfo, "cuKernelGetParamInfo", 12040, parameter_info,
                 (CUkernel kernel, size_t index, size_t* offset, size_t* bytes),
                 (true, kernel, index, offset, bytes))
FAKE_CUDA_EXPORT(cuLaunchKernel, "cuLaunchKernel", 4000, launch,
                 (CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, CUstream stream, void** parameters, void**),
                 (function, stream, parameters))
FAKE_CUDA_EXPORT_PER_THREAD(cuLaunchKernel, _ptsz, "cuLaunchKernel", 7000, launch,
                            (CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, CUstream stream, void** parameters, void**),
                            (function, stream, parameters))
FAKE_CUDA_EXPORT_BOTH(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, launch_configured,
                      (const void* configuration, CUfunction function, void** parameters, void**),
                      (configuration, function, parameters))
FAKE_CUDA_EXPORT_BOTH(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, launch,
                      (CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, CUstream stream, void** parameters),
                      (function, stream, parameters))
FAKE_CUDA_EXPORT(cuLaunchCooperativeKernelMultiDevice, "cuLaunchCooperativeKernelMultiDevice", 9000,
                 launch_all, (const void* list, unsigned count, unsigned), (list, count))

}  // namespace fake_cuda
