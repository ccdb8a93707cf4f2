#include "track/frameworks.h"

#include <sys/stat.h>

#include <atomic>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "log/log_file.h"
#include "thread/thread_slot.h"
#include "track/locked_map.h"

namespace gpupeak::preload {
namespace {

/// The name of a program, and the log that has it.
struct ProgramName {
  uint32_t id = 0;
  uint64_t generation = 0;
};
constinit LockedMap<uint64_t> g_sessions;     // their numbers, by address
constinit LockedMap<ProgramName> g_programs;  // by address
constinit std::atomic<uint64_t> g_last_number{0};

constinit FutexLock g_runs_lock;
constinit OrtAsyncRun* g_free_runs = nullptr;

/// How much older a file's time may look: file times advance by the kernel's tick, 10 ms at most.
constexpr uint64_t kFileTimeNs = 20'000'000;
constexpr int kMostDescriptors = 4096;

std::atomic<bool> g_is_programs{false};

/// Finds the profile's file: it is open, still empty, named *.json, and was made or emptied right
/// before the profile began. Sessions that are made at once have several such files. Names that we
/// asked for have the session's number; of other files there must be only one.
bool find_file(uint64_t session, uint64_t began_realtime_ns, Path& path) {
  bool found = false;
  const Path asked_for(log_path(), ".ort-"), own(asked_for, session, "_");
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    struct stat status {};
    if (sys::failed(sys::fstat(fd, &status)) || !S_ISREG(status.st_mode) || status.st_size != 0)
      continue;
    const Text<40> link("/proc/self/fd/", fd);
    char name[4096];
    const long bytes = sys::readlink(link.c_str(), name, sizeof name);
    if (sys::failed(bytes)) continue;
    const std::string_view file(name, static_cast<size_t>(bytes));
    if (!file.ends_with(".json")) continue;
    if (file.starts_with(asked_for.view())) {
      if (!file.starts_with(own.view())) continue;
      path = Path(file);
      return true;
    }
    const uint64_t changed = static_cast<uint64_t>(status.st_mtim.tv_sec) * kNsPerSecond +
                             static_cast<uint64_t>(status.st_mtim.tv_nsec);
    if (changed > began_realtime_ns || changed + kFileTimeNs < began_realtime_ns) continue;
    if (found) return false;
    path = Path(file);
    found = true;
  }
  return found;
}

}  // namespace

uint64_t number_ort_session(std::string_view model) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  const uint64_t number = ++g_last_number;
  define_fact(Text<32>("ort.session.", number), model);
  return number;
}

void ort_session_created(const void* session, uint64_t number) {
  if (number != 0) g_sessions.insert(address_of(session), number);
}

void ort_session_released(const void* session) {
  g_sessions.erase(address_of(session));
}

uint64_t ort_session_number(const void* session) {
  return recording() ? g_sessions.find(address_of(session)) : 0;
}

OrtAsyncRun* new_ort_async_run() {
  HookScope hook;
  if (!hook.entered() || !recording()) return nullptr;
  LockGuard guard(g_runs_lock);
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
  LockGuard guard(g_runs_lock);
  run->next = g_free_runs;
  g_free_runs = run;
}

bool wants_ort_profile() {
  return recording() && environment().ort_nodes && !g_is_programs.load(std::memory_order_relaxed);
}

void ort_profile_is_the_programs() {
  g_is_programs.store(true, std::memory_order_relaxed);
}

void ort_profile_prefix(uint64_t session, Path& prefix) {
  prefix.add(log_path()).add(".ort-").add(session);
}

void ort_session_profiled(uint64_t session, uint64_t start_ns, uint64_t called_ns) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  const Instant now = now_by_all_clocks();
  // std::chrono::high_resolution_clock is CLOCK_REALTIME in libstdc++ and CLOCK_MONOTONIC in
  // libc++. With the right one the profile begins while the session was made.
  const bool is_monotonic = start_ns >= called_ns && start_ns <= now.monotonic_ns;
  const uint64_t age_ns = is_monotonic ? now.monotonic_ns - start_ns : now.realtime_ns - start_ns;
  const uint64_t zero_ns = now.monotonic_ns - age_ns;
  if (age_ns > now.monotonic_ns || zero_ns < called_ns) {
    return define_fact("ort.profile.off",
                       Text<64>("session ", session, ": its clock is not known"));
  }
  Path file;
  if (!find_file(session, now.realtime_ns - age_ns, file)) {
    return define_fact("ort.profile.off",
                       Text<80>("session ", session, ": its file could not be told from others"));
  }
  stamp_every_event();
  define_fact("ort.profile",
              Path(session, " ", zero_ns, " ", is_monotonic ? 0 : now.error_ns, " ", file));
}

Name xla_program_name(uint64_t program) {
  const ProgramName known = g_programs.find(program);
  return recording() && known.generation == g_process->generation ? Name(known.id) : Name();
}

Name name_xla_program(uint64_t program, std::string_view name) {
  ProgramName known;
  {
    HookScope hook;
    if (!hook.entered() || !recording()) return {};
    known = {intern_string(name), g_process->generation};
  }
  g_programs.insert(program, known);
  return Name(known.id);
}

void xla_program_gone(uint64_t program) {
  g_programs.erase(program);
}

void reset_frameworks() {
  g_sessions.reset();
  g_runs_lock.reset();
  g_programs.reset();
}

}  // namespace gpupeak::preload
