#include "life/killed_children.h"

#include <signal.h>

#include <atomic>
#include <cerrno>

#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

/// A limit, since a server may lose children for years.
constexpr uint32_t kMostNoted = 1000;
constinit std::atomic<uint32_t> g_noted{0};

}  // namespace

void note_killed_child(int child, int signal) {
  const bool counting = g_process->counting != 0 && signal == SIGKILL;
  if (!recording() && !counting) return;
  const int saved_errno = errno;
  const HookScope scope;
  // A vfork child shares its parent's memory, but the parent's children are not its own.
  if (scope.entered() && sys::getpid() == g_process->pid &&
      g_noted.fetch_add(1, std::memory_order_relaxed) < kMostNoted) {
    if (!recording()) open_counted_log(0);
    Text<64> text;
    text.add(static_cast<uint64_t>(child)).add(" ").add(static_cast<uint64_t>(signal));
    if (recording()) define_fact("child.killed", text.add(" ").add(monotonic_ns()).view());
  }
  errno = saved_errno;
}

}  // namespace gpupeak::preload
