// How a call becomes one of the driver's exported functions.
#pragma once

#include <cuda.h>

#include "driver.h"

namespace fake_cuda {

/// The stream that a variant takes for the null stream, as the flags of cuGetProcAddress have it.
constexpr int kLegacyStream = 0;
constexpr int kPerThreadStream = 2;

struct Export {
  const char* base_name;    ///< as cuGetProcAddress knows it
  const char* export_name;  ///< as dlsym knows it
  int version;              ///< of the ABI
  int stream;               ///< kLegacyStream or kPerThreadStream
  void* address;
};

/// True, so that a constant can be initialised with it.
bool register_export(const Export& entry);

/// The end of a call, when the lock is given back: what fake_cuda_on_return() was given is called.
struct CallEnd {
  const char* base_name;
  ~CallEnd();
};

/// Open while a call runs: holds the lock. It is refused by injected failures and without cuInit.
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

// Exports `function` under the name `name`. cuda.h has macros and other declarations of these
// names: so the name is pasted before it can be expanded, and ours are named by assembler labels.
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

// For what works before cuInit.
#define FAKE_CUDA_EXPORT_EARLY(name, base, version, function, parameters, arguments) \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version,             \
                   ::fake_cuda::kLegacyStream, false, function, parameters, arguments)

// The variant for the per-thread default stream: `suffix` is _ptsz or _ptds.
#define FAKE_CUDA_EXPORT_PER_THREAD(name, suffix, base, version, function, parameters, arguments) \
  FAKE_CUDA_DEFINE(fake_##name##suffix, #name #suffix, registered_##name##suffix, base, version,  \
                   ::fake_cuda::kPerThreadStream, true, function, parameters, arguments)

// Both variants, which here do the same.
#define FAKE_CUDA_EXPORT_BOTH(name, base, version, function, parameters, arguments)            \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version,                       \
                   ::fake_cuda::kLegacyStream, true, function, parameters, arguments)          \
  FAKE_CUDA_DEFINE(fake_##name##_ptsz, #name "_ptsz", registered_##name##_ptsz, base, version, \
                   ::fake_cuda::kPerThreadStream, true, function, parameters, arguments)
