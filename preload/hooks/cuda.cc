// The hooks of the driver's functions, under the names that the driver exports: one wrapper for
// each row of cuda_table.def. There is no logic here: a wrapper finds the real
// function, and passes that and the arguments to calls/.
#include <cuda.h>

#include <string_view>

#include "base/kept_errno.h"
#include "calls/allocate.h"
#include "calls/contexts.h"
#include "calls/uses.h"
#include "calls/virtual_memory.h"
#include "hooks/cuda_lookup.h"
#include "stack/unwinder.h"
#include "track/card_server.h"

namespace gpupeak::preload {

/// The descriptors of the first ABI, with 32-bit extents.
struct ArrayDescriptor32 {
  unsigned Width, Height;
  CUarray_format Format;
  unsigned NumChannels;
};
struct Array3dDescriptor32 {
  unsigned Width, Height, Depth;
  CUarray_format Format;
  unsigned NumChannels, Flags;
};

namespace calls {

template <typename Real>
CUresult init(const ApiCall&, Real real, unsigned flags) {
  if (ensure_started_for_cuda()) {
    load_unwinder();
    __atomic_store_n(&g_process->uses_cuda, 1, __ATOMIC_RELAXED);
    wake_card_server();
  }
  DriverScope scope;
  const CUresult result = real(flags);
  if (scope.accounts()) log_missing_hooks();
  return result;
}

void* hook_or_self(const ApiCall& call, const char* name, void* found) {
  if (found == nullptr) return nullptr;
  if (is_next_interposer(reinterpret_cast<const void*>(call.caller.ip))) return found;
  if (void* hook = hook_of_address(found)) return hook;
  note_unhooked(name);
  return found;
}

/// cuGetProcAddress. The driver answers; if the answer is a function that we hook, the program gets
/// the hook.
template <typename Real, typename... Rest>
CUresult proc_address(const ApiCall& call, Real real, const char* name, void** out, int version,
                      cuuint64_t flags, Rest... status) {
  const CUresult result = real(name, out, version, flags, status...);
  if (result == CUDA_SUCCESS && out != nullptr) *out = hook_or_self(call, name, *out);
  return result;
}

}  // namespace calls

namespace {

/// The real function.
template <typename... Arguments>
struct DriverCall {
  CUresult (*function)(Arguments...);
  KeptErrno& program_errno;

  CUresult operator()(Arguments... arguments) const {
    return program_errno.call(function, arguments...);
  }
};
template <typename... Arguments>
DriverCall(CUresult (*)(Arguments...), KeptErrno&) -> DriverCall<Arguments...>;

/// Whether a function of calls/ does nothing unless uses are recorded.
constexpr bool only_sees(std::string_view function) {
  return function.starts_with("sees_");
}

enum RowIndex : int {
#define ROW(name, base, version, flags, function, parameters, arguments) kRow_##name,
#include "hooks/cuda_table.def"
#undef ROW
  kRowLimit
};

}  // namespace

#define GPUPEAK_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
// cuda.h has other declarations or macros of these names, so ours have them as assembler labels.
#define ROW(name, base, version, flags, function, parameters, arguments)                       \
  extern "C" __attribute__((visibility("default")))                                            \
  CUresult gpupeak_hook_##name parameters asm(#name);                                          \
  CUresult gpupeak_hook_##name parameters {                                                    \
    /* By far the most frequent: errno is not touched. */                                      \
    if constexpr (std::string_view(#function) == "launch") {                                   \
      const auto next = reinterpret_cast<CUresult(*) parameters>(known_function(kRow_##name)); \
      if (next != nullptr && g_launches.before(calls::launched_by arguments)) {                \
        if (!watches_uses()) return next arguments;                                            \
        const CUresult result = next arguments;                                                \
        calls::launched(nullptr, result GPUPEAK_ARGUMENTS arguments);                          \
        return result;                                                                         \
      }                                                                                        \
    }                                                                                          \
    if constexpr (only_sees(#function)) {                                                      \
      const auto next = reinterpret_cast<CUresult(*) parameters>(known_function(kRow_##name)); \
      if (next != nullptr && !watches_uses()) return next arguments;                           \
    }                                                                                          \
    KeptErrno program_errno;                                                                   \
    const auto driver = reinterpret_cast<CUresult(*) parameters>(real_function(kRow_##name));  \
    if (driver == nullptr) return CUDA_ERROR_NOT_FOUND;                                        \
    const DriverCall real{driver, program_errno};                                              \
    const ApiCall call{base, &g_driver_rows[kRow_##name].api_id, GPUPEAK_CALLER, flags != 0};  \
    return calls::function(call, real GPUPEAK_ARGUMENTS arguments);                            \
  }
#include "hooks/cuda_table.def"
#undef ROW

constinit DriverRow g_driver_rows[kRowLimit] = {};
constinit std::atomic<bool> g_driver_rows_named{false};

void name_driver_rows() {
  int row = 0;
  const auto add = [&row](const char* name, const char* base, int version, int flags, void* hook,
                          bool only_sees_uses) {
    DriverRow& it = g_driver_rows[row++];
    it.export_name = name;
    it.base_name = base;
    it.version = version;
    it.flags = flags;
    it.hook = hook;
    it.only_sees = only_sees_uses;
  };
#define ROW(name, base, version, flags, function, parameters, arguments)          \
  add(#name, base, version, flags, reinterpret_cast<void*>(&gpupeak_hook_##name), \
      only_sees(#function));
#include "hooks/cuda_table.def"
#undef ROW
  g_driver_rows_named.store(true, std::memory_order_release);
}
const size_t kDriverRowCount = kRowLimit;

}  // namespace gpupeak::preload
