// longjmp and its family. A jump that leaves a hook of ours or a driver call leaves no lock and no
// scope behind.
#include <cstdint>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "hooks/adapters.h"
#include "hooks/export.h"
#include "hooks/jump_target.h"

namespace gpupeak::preload {
namespace {

using Jump = void (*)(void*, int);

struct RealJump {
  const char* name;
  Jump function = nullptr;

  [[noreturn]] void to(void* buffer, int value) {
    Jump jump = __atomic_load_n(&function, __ATOMIC_RELAXED);
    if (jump == nullptr) {
      jump = reinterpret_cast<Jump>(find_next(name));
      __atomic_store_n(&function, jump, __ATOMIC_RELAXED);
    }
    const uintptr_t target = jump_target(buffer);
    leave_scopes_for(target);
    leave_adapters_for(target);
    jump(buffer, value);
    __builtin_unreachable();
  }
};
constinit RealJump g_longjmp{"longjmp"}, g_underscore_longjmp{"_longjmp"},
    g_siglongjmp{"siglongjmp"}, g_longjmp_chk{"__longjmp_chk"};

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT __attribute__((noreturn)) void longjmp(void* buffer, int value) {
  g_longjmp.to(buffer, value);
}

GPUPEAK_EXPORT __attribute__((noreturn)) void _longjmp(void* buffer, int value) {
  g_underscore_longjmp.to(buffer, value);
}

GPUPEAK_EXPORT __attribute__((noreturn)) void siglongjmp(void* buffer, int value) {
  g_siglongjmp.to(buffer, value);
}

/// Programs built with _FORTIFY_SOURCE call this.
GPUPEAK_EXPORT __attribute__((noreturn)) void __longjmp_chk(void* buffer, int value) {
  g_longjmp_chk.to(buffer, value);
}
