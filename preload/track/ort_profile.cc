#include "track/ort_profile.h"

#include <sys/stat.h>

#include <atomic>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "log/log_file.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
/// How much older a file's time may look: file times advance by the kernel's tick, 10 ms at most.
constexpr uint64_t kFileTimeNs = 20'000'000;
constexpr int kMostDescriptors = 4096;

std::atomic<bool> g_is_programs{false};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && tail(text, text.size() - end.size()) == end;
}

bool starts_with(std::string_view text, std::string_view begin) {
  return text.size() >= begin.size() && std::string_view(text.data(), begin.size()) == begin;
}

/// Finds the profile's file: it is open, still empty, named *.json, and was made or emptied right
/// before the profile began. Sessions that are made at once have several such files. Names that we
/// asked for have the session's number; of other files there must be only one.
bool find_file(uint64_t session, uint64_t began_realtime_ns, Path& path) {
  bool found = false;
  Path asked_for, own;
  asked_for.add(log_path()).add(".ort-");
  own.add(asked_for.view()).add(session).add("_");
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    struct stat status {};
    if (sys::failed(sys::fstat(fd, &status)) || !S_ISREG(status.st_mode) || status.st_size != 0) {
      continue;
    }
    Text<40> link;
    link.add("/proc/self/fd/").add(static_cast<uint64_t>(fd));
    char name[4096];
    const long bytes = sys::readlink(link.c_str(), name, sizeof name);
    if (sys::failed(bytes)) continue;
    const std::string_view file(name, static_cast<size_t>(bytes));
    if (!ends_with(file, ".json")) continue;
    if (starts_with(file, asked_for.view())) {
      if (!starts_with(file, own.view())) continue;
      path.clear();
      path.add(file);
      return true;
    }
    const uint64_t changed = static_cast<uint64_t>(status.st_mtim.tv_sec) * kNsPerSecond +
                             static_cast<uint64_t>(status.st_mtim.tv_nsec);
    if (changed > began_realtime_ns || changed + kFileTimeNs < began_realtime_ns) continue;
    if (found) return false;
    path.clear();
    path.add(file);
    found = true;
  }
  return found;
}

void define_profile_fact(std::string_view key, const Path& value) {
  Record record(GPUPEAK_DEF_FACT);
  define(record.s(key).s(value.view()));
}

}  // namespace

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
  Path text;
  if (age_ns > now.monotonic_ns || zero_ns < called_ns) {
    text.add("session ").add(session).add(": its clock is not known");
    return define_profile_fact("ort.profile.off", text);
  }
  Path file;
  if (!find_file(session, now.realtime_ns - age_ns, file)) {
    text.add("session ").add(session).add(": its file could not be told from others");
    return define_profile_fact("ort.profile.off", text);
  }
  stamp_every_event();
  text.add(session).add(" ").add(zero_ns).add(" ").add(is_monotonic ? 0 : now.error_ns).add(" ");
  text.add(file.view());
  define_profile_fact("ort.profile", text);
}

}  // namespace gpupeak::preload
