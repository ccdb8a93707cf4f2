#include "track/xla_programs.h"

#include "base/flat_map.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

struct Known {
  uint32_t id;
  uint64_t generation;  ///< of the log that has the string
};
constinit FutexLock g_lock;
constinit FlatMap<Known> g_programs;

}  // namespace

Name xla_program_name(uint64_t program) {
  HookScope hook;
  if (!hook.entered() || !recording()) return {};
  LockGuard guard(g_lock);
  const Known* known = g_programs.find(program);
  return known != nullptr && known->generation == g_process->generation ? Name(known->id) : Name();
}

Name name_xla_program(uint64_t program, std::string_view name) {
  HookScope hook;
  if (!hook.entered() || !recording()) return {};
  const uint32_t id = intern_string(name);
  LockGuard guard(g_lock);
  g_programs.insert(program, {id, g_process->generation});
  return Name(id);
}

void xla_program_gone(uint64_t program) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_lock);
  g_programs.erase(program);
}

void reset_xla_programs() {
  g_lock.reset();
}

}  // namespace gpupeak::preload
