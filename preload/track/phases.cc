#include "track/phases.h"

#include "base/hook_scope.h"
#include "log/log.h"
#include "track/process.h"
#include "track/sample.h"

namespace gpupeak::preload {
namespace {

constexpr uint64_t kThisThread = 0;
constexpr uint64_t kProcess = 1;

void push(uint64_t scope, gpupeak_phase_source source, std::string_view name) {
  Record record(GPUPEAK_REC_PHASE_PUSH);
  emit(record.u(scope).u(source).u(intern_string(name)));
}

void pop(uint64_t scope) {
  Record record(GPUPEAK_REC_PHASE_POP);
  emit(record.u(scope));
}

}  // namespace

void phase_push(gpupeak_phase_source source, std::string_view name) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  push(kThisThread, source, name);
  sample_process();
}

void phase_pop() {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  sample_process();
  pop(kThisThread);
}

void enter_process_phase(std::string_view name) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  static uint64_t begun_in = 0;  // the generation whose log has a process phase open
  sample_process();
  if (begun_in == g_process->generation) pop(kProcess);
  begun_in = g_process->generation;
  push(kProcess, GPUPEAK_PHASE_AUTO, name);
}

}  // namespace gpupeak::preload
