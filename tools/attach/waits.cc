#include "tools/attach/waits.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <sstream>

#include "tools/attach/target.h"

namespace gpupeak::tools {
namespace {

enum class Limit {
  kNone,          ///< or the kernel itself waits for what is left
  kMilliseconds,  ///< in the fourth argument
  kThird,         ///< the third argument leads to it
  kFourth,        ///< the fourth argument leads to it
  kSocket         ///< SO_RCVTIMEO of the first argument
};

struct Wait {
  long number;
  Limit limit;
};
constexpr Wait kWaits[] = {
    {SYS_read, Limit::kSocket},
    {SYS_readv, Limit::kSocket},
    {SYS_recvfrom, Limit::kSocket},
    {SYS_recvmsg, Limit::kSocket},
    {SYS_accept, Limit::kSocket},
    {SYS_accept4, Limit::kSocket},
    {SYS_poll, Limit::kNone},
    {SYS_ppoll, Limit::kNone},
    {SYS_select, Limit::kNone},
    {SYS_pselect6, Limit::kNone},
    {SYS_epoll_wait, Limit::kMilliseconds},
    {SYS_epoll_pwait, Limit::kMilliseconds},
    {441 /* SYS_epoll_pwait2 */, Limit::kFourth},
    {SYS_nanosleep, Limit::kNone},
    {SYS_clock_nanosleep, Limit::kNone},
    {SYS_pause, Limit::kNone},
    {SYS_rt_sigsuspend, Limit::kNone},
    {SYS_rt_sigtimedwait, Limit::kThird},
    {SYS_semop, Limit::kNone},
    {SYS_semtimedop, Limit::kFourth},
    {SYS_wait4, Limit::kNone},
    {SYS_waitid, Limit::kNone},
    {SYS_futex, Limit::kNone},
};

const Wait* find_wait(long number) {
  const auto* const found = std::find_if(std::begin(kWaits), std::end(kWaits),
                                         [number](const Wait& w) { return w.number == number; });
  return found != std::end(kWaits) ? found : nullptr;
}

/// Whether a receive from this file of the process has a time limit. A copy of its descriptor says
/// so; if none can be had, it is taken to have one.
bool has_receive_limit(pid_t pid, uint64_t file) {
  constexpr long kPidfdOpen = 434, kPidfdGetfd = 438;
  const int process = static_cast<int>(syscall(kPidfdOpen, pid, 0));
  if (process < 0) return true;
  const int copy = static_cast<int>(syscall(kPidfdGetfd, process, static_cast<int>(file), 0));
  close(process);
  if (copy < 0) return true;
  timeval limit{};
  socklen_t size = sizeof limit;
  const bool known = getsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0;
  const bool is_socket = known || errno != ENOTSOCK;
  close(copy);
  return is_socket && (!known || limit.tv_sec != 0 || limit.tv_usec != 0);
}

}  // namespace

bool is_wait(long system_call) {
  return find_wait(system_call) != nullptr;
}

bool begin_wait_anew(user_regs_struct& registers, Instant began) {
  // The kernel's own value: the call begins anew, and fails with EINTR if a handler runs first.
  constexpr auto kRestartIfNoHandler = static_cast<uint64_t>(-514);
  const Wait* const wait = find_wait(static_cast<long>(registers.orig_rax));
  if (wait == nullptr) return false;
  if (registers.rax == static_cast<uint64_t>(-EINTR)) registers.rax = kRestartIfNoHandler;
  if (registers.rax != kRestartIfNoHandler) return false;
  const auto limit = static_cast<int>(registers.r10);
  if (wait->limit == Limit::kMilliseconds && limit > 0) {
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    registers.r10 = static_cast<uint64_t>(std::max<int64_t>(0, limit - spent.count()));
  }
  return true;
}

bool ThreadLooks::has_unknown_limit(const user_regs_struct& registers) const {
  const Wait* const wait = find_wait(static_cast<long>(registers.orig_rax));
  if (wait == nullptr) return false;
  if (wait->limit == Limit::kThird) return registers.rdx != 0;
  if (wait->limit == Limit::kFourth) return registers.r10 != 0;
  return wait->limit == Limit::kSocket && has_receive_limit(pid_, registers.rdi);
}

std::string ThreadLooks::not_now(pid_t thread, Instant& began) {
  constexpr auto kJustNow = std::chrono::milliseconds(5);
  const auto status = status_of(thread);
  std::string text;
  std::getline(std::istringstream(text_of_process(thread, "syscall")), text);
  began = std::chrono::steady_clock::now();
  const auto field = [&](const char* name) {
    const auto found = status.find(name);
    return found != status.end() ? found->second : std::string();
  };
  // A parent of vfork does not stop before its child lets it go on.
  if (field("State").starts_with("D")) return "it waits for a child of vfork, or for a device";
  if (text.empty()) return "the kernel does not say in which system call it is";
  const Look look{text + ' ' + field("voluntary_ctxt_switches"), began};
  const auto [last, is_first] = last_.try_emplace(thread, look);
  const bool has_just_begun =
      !is_first && last->second.call != look.call && began - last->second.at <= kJustNow;
  last->second = look;
  if (text.starts_with("running") || text.starts_with("-1")) return {};
  user_regs_struct registers{};
  std::istringstream words(text);
  words >> std::dec >> registers.orig_rax >> std::hex >> registers.rdi >> registers.rsi >>
      registers.rdx >> registers.r10;
  const Wait* const wait = find_wait(static_cast<long>(registers.orig_rax));
  if (wait == nullptr) return fmt::format("it is in system call {}", registers.orig_rax);
  const bool has_milliseconds =
      wait->limit == Limit::kMilliseconds && static_cast<int>(registers.r10) > 0;
  if ((has_milliseconds && !has_just_begun) || has_unknown_limit(registers)) {
    return fmt::format(
        "it is in system call {} with a time limit, and what is left of that is not "
        "known",
        registers.orig_rax);
  }
  return {};
}

}  // namespace gpupeak::tools
