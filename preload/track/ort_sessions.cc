#include "track/ort_sessions.h"

#include "base/flat_map.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constinit FutexLock g_lock;
constinit FlatMap<uint64_t> g_numbers;  // by address of the session
constinit uint64_t g_last_number = 0;
constinit OrtAsyncRun* g_free_runs = nullptr;

uint64_t key_of(const void* session) {
  return reinterpret_cast<uint64_t>(session);
}

}  // namespace

uint64_t number_ort_session(std::string_view model) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  uint64_t number;
  {
    LockGuard guard(g_lock);
    number = ++g_last_number;
  }
  Text<32> key;
  key.add("ort.session.").add(number);
  Record record(GPUPEAK_DEF_FACT);
  define(record.s(key.view()).s(model));
  return number;
}

void ort_session_created(const void* session, uint64_t number) {
  HookScope hook;
  if (!hook.entered() || number == 0) return;
  LockGuard guard(g_lock);
  g_numbers.insert(key_of(session), number);
}

void ort_session_released(const void* session) {
  HookScope hook;
  if (!hook.entered()) return;
  LockGuard guard(g_lock);
  g_numbers.erase(key_of(session));
}

uint64_t ort_session_number(const void* session) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  LockGuard guard(g_lock);
  const uint64_t* number = g_numbers.find(key_of(session));
  return number != nullptr ? *number : 0;
}

OrtAsyncRun* new_ort_async_run() {
  HookScope hook;
  if (!hook.entered() || !recording()) return nullptr;
  LockGuard guard(g_lock);
  if (g_free_runs == nullptr) {
    constexpr size_t kBytes = 4096;
    auto* runs = static_cast<OrtAsyncRun*>(map_pages(kBytes));
    if (runs == nullptr) return nullptr;
    for (size_t i = 0; i < kBytes / sizeof(OrtAsyncRun); ++i) {
      runs[i].next = g_free_runs;
      g_free_runs = &runs[i];
    }
  }
  OrtAsyncRun* run = g_free_runs;
  g_free_runs = run->next;
  return run;
}

void free_ort_async_run(OrtAsyncRun* run) {
  HookScope hook;
  if (!hook.entered()) return;  // then 32 bytes are lost
  LockGuard guard(g_lock);
  run->next = g_free_runs;
  g_free_runs = run;
}

void reset_ort_sessions() {
  g_lock.reset();
}

}  // namespace gpupeak::preload
