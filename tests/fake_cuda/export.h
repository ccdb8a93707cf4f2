// How a call becomes one of the driver's exported functions.
#pragma once

#include <cuda.h>

#include "driver.h"

namespace fake_cuda {

// Which stream a variant takes as the null stream: values of the flags of cuGetProcAddress.
constexpr int kLegacyStream = 0;
constexpr int kPerThreadStream = 2;

struct Export {
  const char* base_name;    ///< as cuGetProcAddress knows it
  const char* export_name;  ///< as dlsym knows it
  int version;              ///< of the ABI
  int stream;               ///< kLegacyStream or kPerThreadStream
  void* address;
};

/// Returns true, so that a constant can be initialised with the call.
bool register_export(const Export& entry);

/// The end of a call, after the lock was released: calls the function that fake_cuda_on_return()
/// got.
struct CallEnd {
  const char* base_name;
  ~CallEnd();
};

/// Lives while a call runs, and holds the lock. refusal(): why the call must fail at once, for an
/// injected failure or a missing cuInit.
class Call {
 public:
  explicit Call(const char* base_name, bool needs_init = true);
  CUresult refusal() const { return refusal_; }

 private:
  const CallEnd end_;
  std::lock_guard<std::mutex> guard_;
  CUresult refusal_;
};

}  // namespace fake_cuda

// Exports `function` under the name `export_name`. cuda.h has macros and other declarations of
// these names. So the macros below paste the name before it can be expanded, and an assembler label
// names our function.
#define FAKE_CUDA_DEFINE(symbol, export_name, entry, base, version, stream, needs_init, function, \
                         parameters, arguments)                                                   \
  extern "C" __attribute__((visibility("default"))) CUresult symbol parameters asm(export_name);  \
  CUresult symbol parameters {                                                                    \
    const ::fake_cuda::Call call(base, needs_init);                                               \
    return call.refusal() != CUDA_SUCCESS ? call.refusal() : function arguments;                  \
  }                                                                                               \
  [[maybe_unused]] static const bool entry = ::fake_cuda::register_export(                        \
      {base, export_name, version, stream, reinterpret_cast<void*>(&symbol)});

#define FAKE_CUDA_EXPORT(name, base, version, function, parameters, arguments) \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version,       \
                   ::fake_cuda::kLegacyStream, true, function, parameters, arguments)

// For functions that work before cuInit.
#define FAKE_CUDA_EXPORT_EARLY(name, base, version, function, parameters, arguments) \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version,             \
                   ::fake_cuda::kLegacyStream, false, function, parameters, arguments)

// The variant for the per-thread default stream: `suffix` is _ptsz or _ptds.
#define FAKE_CUDA_EXPORT_PER_THREAD(name, suffix, base, version, function, parameters, arguments) \
  FAKE_CUDA_DEFINE(fake_##name##suffix, #name #suffix, registered_##name##suffix, base, version,  \
                   ::fake_cuda::kPerThreadStream, true, function, parameters, arguments)

// Both variants, which do the same here.
#define FAKE_CUDA_EXPORT_BOTH(name, base, version, function, parameters, arguments)            \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version,                       \
                   ::fake_cuda::kLegacyStream, true, function, parameters, arguments)          \
  FAKE_CUDA_DEFINE(fake_##name##_ptsz, #name "_ptsz", registered_##name##_ptsz, base, version, \
                   ::fake_cuda::kPerThreadStream, true, function, parameters, arguments)
