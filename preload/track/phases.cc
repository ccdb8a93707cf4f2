#include "track/phases.h"

#include <atomic>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "log/log.h"
#include "thread/emit.h"
#include "thread/heap_sample.h"
#include "thread/resident.h"
#include "track/ledger.h"

namespace gpupeak::preload {
namespace {

constexpr uint64_t kThisThread = 0;
constexpr uint64_t kProcess = 1;

/// The open calls of a thread, outermost first. Calls deeper than kMost are not recorded.
struct OpenCalls {
  static constexpr uint32_t kMost = 16;
  struct Call {
    uintptr_t frame;  ///< the wrapper's; the frames of its callees lie below
    uint64_t generation;
    uint64_t instance;
    gpupeak_phase_source source;
  };
  uint32_t count = 0;
  Call calls[kMost] = {};
};
constinit thread_local OpenCalls t_calls __attribute__((tls_model("initial-exec")));
constinit std::atomic<uint64_t> g_last_range{0};

const Record& add(Record&& record, const Label& label) {
  const uint32_t name = id_of(label.name);
  record.u(name).u(label.instance).u(id_of(label.category));
  if (name == 0) record.s(label.name.text);
  return record;
}

void push(uint64_t scope, const Label& label) {
  emit(add(Record{GPUPEAK_REC_PHASE_PUSH, scope, label.source}, label));
}

void pop(uint64_t scope, gpupeak_phase_source source, uint64_t instance) {
  emit(Record{GPUPEAK_REC_PHASE_POP, scope, source, instance});
}

void close_call() {
  const OpenCalls::Call& call = t_calls.calls[--t_calls.count];
  // The calls that were open at a fork are in the parent's log.
  if (call.generation == g_process->generation) pop(kThisThread, call.source, call.instance);
}

/// Closes the calls at or below `frame`: they were left without a return.
void close_left_calls(const void* frame) {
  const auto here = reinterpret_cast<uintptr_t>(frame);
  while (t_calls.count > 0 &&
         was_left_by_longjmp(t_calls.calls[t_calls.count - 1].frame - 1, here)) {
    close_call();
  }
}

}  // namespace

uint32_t id_of(const Name& name) {
  return name.id != 0 || name.text.empty() ? name.id : intern_string(name.text);
}

void phase_push(const Label& label, const void* frame) {
  if (recording()) sample_driver_memory_at_border();
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  look_at_request(*g_process);
  close_left_calls(frame);
  push(kThisThread, label);
  sample_at_border();
}

void phase_pop(gpupeak_phase_source source, uint64_t instance, const void* frame) {
  if (recording()) sample_driver_memory_at_border();
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  close_left_calls(frame);
  sample_at_border();
  pop(kThisThread, source, instance);
}

void enter_process_phase(std::string_view name) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  static uint64_t begun_in = 0;  // the generation whose log has a process phase open
  sample(Moment::kAny);
  if (begun_in == g_process->generation) pop(kProcess, GPUPEAK_PHASE_AUTO, 0);
  begun_in = g_process->generation;
  push(kProcess, {GPUPEAK_PHASE_AUTO, name});
}

uint64_t range_begin(const Label& label) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  const uint64_t id = g_last_range.fetch_add(1, std::memory_order_relaxed) + 1;
  emit(add(Record{GPUPEAK_REC_RANGE_BEGIN, id, label.source}, label));
  sample_at_border();
  return id;
}

void range_end(uint64_t id) {
  HookScope hook;
  if (id == 0 || !hook.entered() || !recording()) return;
  sample_at_border();
  emit(Record{GPUPEAK_REC_RANGE_END, id});
}

void mark(const Label& label) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  emit(add(Record{GPUPEAK_REC_MARK, label.source}, label));
}

void tag_push(const Name& name) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  const uint32_t id = id_of(name);
  Record record{GPUPEAK_REC_TAG_PUSH, id};
  if (id == 0) record.s(name.text);
  emit(record);
}

void tag_pop() {
  HookScope hook;
  if (hook.entered() && recording()) emit(Record{GPUPEAK_REC_TAG_POP});
}

CallPhase::CallPhase(const Label& label, const void* frame) : index_(OpenCalls::kMost) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  close_left_calls(frame);
  if (t_calls.count == OpenCalls::kMost) return;
  index_ = t_calls.count++;
  t_calls.calls[index_] = {reinterpret_cast<uintptr_t>(frame), g_process->generation,
                           label.instance, label.source};
  push(kThisThread, label);
  sample_at_border();
}

CallPhase::~CallPhase() {
  if (index_ == OpenCalls::kMost) return;
  HookScope hook;
  if (!hook.entered()) return;
  if (t_calls.count > index_) sample_at_border();
  while (t_calls.count > index_) close_call();  // and calls inside it that were left by a jump
}

}  // namespace gpupeak::preload
