#include "base/call_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "base/syscalls.h"
#include "gpupeak/pages.h"

namespace gpupeak::preload {
namespace {

struct Call {
  int number;
  uint64_t arguments[4] = {};
};
constexpr uint64_t kHere = static_cast<uint64_t>(AT_FDCWD);
/// The calls of a thread's first record, of a full chunk, of locks and of the end.
constexpr Call kCalls[] = {
    {SYS_getpid},
    {SYS_gettid},
    {SYS_prctl, {PR_GET_NAME}},
    {SYS_rt_sigprocmask, {SIG_BLOCK, 0, 0, 8}},
    {SYS_sigaltstack},
    {SYS_mmap, {0, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}},
    {SYS_mremap, {0, kPageBytes, 2 * kPageBytes, MREMAP_MAYMOVE}},
    {SYS_mprotect, {0, kPageBytes, PROT_READ | PROT_WRITE}},
    {SYS_madvise, {0, kPageBytes, MADV_POPULATE_WRITE}},
    {SYS_munmap, {0, kPageBytes}},
    {SYS_openat, {kHere, 0, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK}},
    {SYS_openat, {kHere, 0, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY}},
    {SYS_fstat},
    {SYS_read},
    {SYS_pwrite64},
    {SYS_ftruncate},
    {SYS_flock},
    {SYS_close},
    {SYS_brk},
    {SYS_futex},
    {SYS_tgkill},
    {SYS_tkill},
    {SYS_sched_getscheduler},
};

constexpr Call kCallsOfExitLines[] = {
    {SYS_clone, {CLONE_VM | CLONE_VFORK}}, {SYS_wait4}, {SYS_faccessat}, {SYS_geteuid}};

constexpr Call kCallsOfLookups[] = {
    {SYS_prlimit64}, {SYS_faccessat, {kHere, 0, X_OK}},
    {SYS_pread64},   {SYS_fgetxattr},
    {SYS_mincore},   {SYS_clock_gettime, {CLOCK_THREAD_CPUTIME_ID}}};
constinit bool g_gave_up_lookups = false;

/// The filter's verdict on a call: the kernel's, for filters of the steps that those who write them
/// use (libseccomp, Chromium). 0, which means kill, at any other step.
uint32_t verdict_on(const sock_fprog& filter, const seccomp_data& data) {
  uint32_t a = 0;
  for (size_t at = 0; at < filter.len; ++at) {
    const sock_filter& step = filter.filter[at];
    const uint32_t k = step.k;
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (k % 4 != 0 || k >= sizeof data) return 0;
        a = reinterpret_cast<const uint32_t*>(&data)[k / 4];
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= k;
        break;
      case BPF_JMP | BPF_JA:
        at += k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += a == k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += a > k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += a >= k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (a & k) != 0 ? step.jt : step.jf;
        break;
      case BPF_RET | BPF_K:
        return k;
      default:
        return 0;
    }
  }
  return 0;
}

bool does_harm(uint32_t verdict) {
  constexpr uint32_t kAction = 0xffff0000;
  constexpr uint32_t kErrno = 0x00050000, kTrace = 0x7ff00000, kLog = 0x7ffc0000,
                     kAllow = 0x7fff0000;
  const uint32_t action = verdict & kAction;
  return action != kErrno && action != kTrace && action != kLog && action != kAllow;
}

template <size_t kCount>
bool ends_any(const sock_fprog& filter, const Call (&calls)[kCount]) {
  for (const Call& call : calls) {
    seccomp_data data{};
    data.nr = call.number;
    data.arch = arch::kMachine | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE;
    data.instruction_pointer = reinterpret_cast<uint64_t>(&ends_our_calls);
    for (size_t i = 0; i < 4; ++i) data.args[i] = call.arguments[i];
    if (does_harm(verdict_on(filter, data))) return true;
  }
  return false;
}

/// The kernel copies a signal set before it finds `how` unknown: only EFAULT means unreadable.
bool can_copy(uintptr_t at) {
  constexpr int kNothing = -1;
  return sys::sigprocmask(kNothing, reinterpret_cast<const uint64_t*>(at), nullptr) != -EFAULT;
}

}  // namespace

bool can_copy(const void* from, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(from), last = begin + bytes - sizeof(uint64_t);
  for (uintptr_t at = begin; at < last; at = (at / kPageBytes + 1) * kPageBytes) {
    if (!can_copy(at)) return false;
  }
  return can_copy(last);
}

bool is_readable(const sock_fprog* filter) {
  return can_copy(filter, sizeof *filter) && filter->len > 0 &&
         can_copy(filter->filter, filter->len * sizeof *filter->filter);
}

bool ends_our_calls(const sock_fprog& filter) {
  return ends_any(filter, kCalls);
}

bool ends_calls_of_exit_lines(const sock_fprog& filter) {
  return ends_any(filter, kCallsOfExitLines);
}

bool ends_calls_of_lookups(const sock_fprog& filter) {
  return ends_any(filter, kCallsOfLookups);
}
void give_up_lookups() {
  g_gave_up_lookups = true;
}
bool has_given_up_lookups() {
  return g_gave_up_lookups;
}

}  // namespace gpupeak::preload
