#include "track/host_failure.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/arch.h"
#include "base/call_filter.h"
#include "base/hook_scope.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "thread/emit.h"

namespace gpupeak::preload {
namespace {

/// No more requests are recorded, since a program may try again and again.
constexpr uint32_t kMostRecorded = 1000;
constinit std::atomic<uint32_t> g_recorded{0};
constinit uint64_t g_generation = 0;

/// A limit of the process, and how much of it is used.
struct Limit {
  gpupeak_host_limit kind = GPUPEAK_LIMIT_NONE;
  uint64_t bytes = 0, used = 0;
};

bool is_beyond(const Limit& limit, size_t bytes) {
  return limit.used > limit.bytes || bytes > limit.bytes - limit.used;
}

uint64_t soft_limit(int resource) {
  rlimit64 limit{};
  const long result = sys::getrlimit(resource, &limit);
  return sys::failed(result) ? RLIM64_INFINITY : limit.rlim_cur;
}

/// A value of /proc/meminfo, for instance of the line "CommitLimit:  123 kB".
uint64_t meminfo_bytes(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at != nullptr ? number_at(at + strlen(name)) << 10 : 0;
}

/// The machine's commit limit, if the kernel keeps it strictly (vm.overcommit_memory is 2).
Limit commit_limit() {
  char text[2048];
  text[read_file("/proc/sys/vm/overcommit_memory", text, sizeof text - 1)] = 0;
  if (text[0] != '2') return {};
  text[read_file("/proc/meminfo", text, sizeof text - 1)] = 0;
  return {GPUPEAK_LIMIT_COMMIT, meminfo_bytes(text, "\nCommitLimit:"),
          meminfo_bytes(text, "\nCommitted_AS:")};
}

/// The limit that a request of so many bytes would have passed.
Limit limit_for(size_t bytes) {
  char text[128];
  text[read_file("/proc/self/statm", text, sizeof text - 1)] = 0;
  uint64_t pages[7] = {};  // size resident shared text lib data dirty
  const char* at = text;
  for (uint64_t& count : pages) count = next_number(at);
  const Limit addresses{GPUPEAK_LIMIT_ADDRESSES, soft_limit(RLIMIT_AS),
                        pages[0] * arch::page_bytes()};
  const Limit data{GPUPEAK_LIMIT_DATA, soft_limit(RLIMIT_DATA), pages[5] * arch::page_bytes()};
  for (const Limit& limit : {addresses, data}) {
    if (limit.bytes != RLIM64_INFINITY && is_beyond(limit, bytes)) return limit;
  }
  const Limit commit = commit_limit();
  return commit.bytes != 0 && is_beyond(commit, bytes) ? commit : Limit{};
}

}  // namespace

void host_allocation_failed(gpupeak_kind kind, const char* api, size_t bytes, int error,
                            const CallerFrame& caller) {
  if (error != ENOMEM || bytes == 0) return;
  HookScope scope;
  if (!scope.entered() || !recording()) return;
  if (g_generation != g_process->generation) {  // a forked child counts anew
    g_generation = g_process->generation;
    g_recorded.store(0, std::memory_order_relaxed);
  }
  if (g_recorded.fetch_add(1, std::memory_order_relaxed) >= kMostRecorded) return;
  const int saved_errno = errno;
  set_quality(GPUPEAK_Q_HOST_REFUSED);
  const Limit limit = has_given_up_lookups() ? Limit{} : limit_for(bytes);
  const uint32_t stack = capture_call_site(caller);
  Record record(GPUPEAK_REC_HOST_FAILED);
  record.u(kind).u(bytes).u(static_cast<uint64_t>(error)).u(limit.kind).u(limit.bytes);
  record.u(limit.used).u(intern_string(api)).u(stack);
  emit(record.u(limit.kind == GPUPEAK_LIMIT_ADDRESSES ? mapped_addresses() : 0));
  errno = saved_errno;
}

}  // namespace gpupeak::preload
