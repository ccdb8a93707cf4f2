// setrlimit and its family. A program may limit its own addresses (RLIMIT_AS). The kernel counts
// our addresses, too, so those that we have only reserved are given back first.
#include <sys/resource.h>

#include "base/elf_lookup.h"
#include "base/futex_lock.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "life/process.h"
#include "log/definitions.h"
#include "stack/trie.h"

namespace gpupeak::preload {
namespace {

using SetLimit = int (*)(int, const struct rlimit*);
using ProcessLimit = int (*)(pid_t, int, const struct rlimit*, struct rlimit*);
constinit SetLimit g_setrlimit = nullptr;
constinit ProcessLimit g_prlimit = nullptr;

/// Called before the program's first call, as in signals.cc.
__attribute__((constructor)) void resolve() {
  if (g_prlimit != nullptr) return;
  find_next({{"setrlimit", g_setrlimit}, {"prlimit", g_prlimit}});
}

void give_back_addresses() {
  if (is_stopped_for_filter()) return;  // a system call of ours might end the program
  const HookScope scope;
  if (!scope.entered()) return;
  if (!recording()) return give_back_spare_nodes();
  if (g_process->pid != sys::getpid()) return;  // a vfork child: the addresses are its parent's
  const LockGuard guard(definitions_lock());
  give_back_spare_nodes();
}

void before_limit(int resource, const struct rlimit* limit) {
  if (resource == RLIMIT_AS && limit != nullptr && limit->rlim_cur != RLIM_INFINITY)
    give_back_addresses();
}

int set_limit(int resource, const struct rlimit* limit) {
  if (g_prlimit == nullptr) resolve();  // called by a library's constructor, before ours ran
  before_limit(resource, limit);
  return g_setrlimit(resource, limit);
}

int process_limit(pid_t pid, int resource, const struct rlimit* limit, struct rlimit* old) {
  if (g_prlimit == nullptr) resolve();
  if (pid == 0 || (resource == RLIMIT_AS && pid == sys::getpid())) before_limit(resource, limit);
  return g_prlimit(pid, resource, limit, old);
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

// The functions with and without 64 in their names are the same on 64-bit processors.

extern "C" __attribute__((visibility("default"))) int gpupeak_hook_setrlimit(
    int, const struct rlimit*) asm("setrlimit");
int gpupeak_hook_setrlimit(int resource, const struct rlimit* limit) {
  return set_limit(resource, limit);
}

extern "C" __attribute__((visibility("default"))) int gpupeak_hook_setrlimit64(
    int, const struct rlimit*) asm("setrlimit64");
int gpupeak_hook_setrlimit64(int resource, const struct rlimit* limit) {
  return set_limit(resource, limit);
}

extern "C" __attribute__((visibility("default"))) int gpupeak_hook_prlimit(
    pid_t, int, const struct rlimit*, struct rlimit*) asm("prlimit");
int gpupeak_hook_prlimit(pid_t pid, int resource, const struct rlimit* limit, struct rlimit* old) {
  return process_limit(pid, resource, limit, old);
}

extern "C" __attribute__((visibility("default"))) int gpupeak_hook_prlimit64(
    pid_t, int, const struct rlimit*, struct rlimit*) asm("prlimit64");
int gpupeak_hook_prlimit64(pid_t pid, int resource, const struct rlimit* limit,
                           struct rlimit* old) {
  return process_limit(pid, resource, limit, old);
}
