#include "tools/attach/waits.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

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
    {SYS_restart_syscall, Limit::kNone},  // poll, nanosleep or futex, begun anew by the kernel
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

std::string field(const std::map<std::string, std::string>& fields, const char* name) {
  const auto found = fields.find(name);
  return found != fields.end() ? found->second : std::string();
}

/// When a thread began to run last, in milliseconds by the clock of its processor; none: the kernel
/// does not say it.
std::optional<double> ran_at(pid_t thread) {
  constexpr std::string_view kName = "se.exec_start";
  const std::string text = text_of_process(thread, "sched");
  const size_t name = text.find(kName);
  const size_t colon = name != std::string::npos ? text.find(':', name) : name;
  if (colon == std::string::npos) return std::nullopt;
  return strtod(text.c_str() + colon + 1, nullptr);
}

/// When a thread that waits ran last: that is when its wait began. Each processor has a clock of
/// its own for that, so the time is told beside that of this thread, which goes to that processor.
std::optional<Instant> last_ran(pid_t thread) {
  const std::string text = text_of_process(thread, "stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 37 && words >> word; ++i) {
  }
  const int processor = atoi(word.c_str());
  cpu_set_t before, there;
  CPU_ZERO(&there);
  CPU_SET(static_cast<size_t>(processor), &there);
  if (sched_getaffinity(0, sizeof before, &before) != 0 ||
      sched_setaffinity(0, sizeof there, &there) != 0)
    return std::nullopt;
  sched_yield();
  const std::optional<double> theirs = ran_at(thread), ours = ran_at(gettid());
  const Instant now = std::chrono::steady_clock::now();
  sched_setaffinity(0, sizeof before, &before);
  if (!theirs || !ours) return std::nullopt;
  const std::chrono::duration<double, std::milli> since(std::max(0.0, *ours - *theirs));
  return now - std::chrono::duration_cast<Instant::duration>(since);
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

bool has_unknown_limit(pid_t pid, const user_regs_struct& registers) {
  const Wait* const wait = find_wait(static_cast<long>(registers.orig_rax));
  if (wait == nullptr) return false;
  if (wait->limit == Limit::kThird) return registers.rdx != 0;
  if (wait->limit == Limit::kFourth) return registers.r10 != 0;
  return wait->limit == Limit::kSocket && has_receive_limit(pid, registers.rdi);
}

Look look_at(pid_t pid, pid_t thread) {
  const auto status = status_of(thread);
  std::string text;
  std::getline(std::istringstream(text_of_process(thread, "syscall")), text);
  Look look;
  look.at = look.began = std::chrono::steady_clock::now();
  look.waits = field(status, "voluntary_ctxt_switches");
  // A parent of vfork does not stop before its child lets it go on.
  if (field(status, "State").starts_with("D")) {
    look.not_now = "it waits for a child of vfork, or for a device";
  } else if (text.empty()) {
    look.not_now = "the kernel does not say in which system call it is";
  }
  if (!look.not_now.empty() || text.starts_with("running") || text.starts_with("-1")) return look;
  user_regs_struct registers{};
  std::istringstream words(text);
  words >> std::dec >> registers.orig_rax >> std::hex >> registers.rdi >> registers.rsi >>
      registers.rdx >> registers.r10;
  const Wait* const wait = find_wait(static_cast<long>(registers.orig_rax));
  if (wait == nullptr) {
    look.not_now = fmt::format("it is in system call {}", registers.orig_rax);
    return look;
  }
  bool is_unknown = has_unknown_limit(pid, registers);
  if (wait->limit == Limit::kMilliseconds && static_cast<int>(registers.r10) > 0) {
    const std::optional<Instant> began = last_ran(thread);
    is_unknown = !began;
    look.began = began.value_or(look.at);
  }
  if (is_unknown) {
    look.not_now = fmt::format(
        "it is in system call {} with a time limit, and what is left of that is not known",
        registers.orig_rax);
  }
  return look;
}

Instant wait_began(pid_t thread, const Look& look) {
  const auto number = [](const std::string& text) { return strtoull(text.c_str(), nullptr, 10); };
  // To stop counts as one more wait. If there are others, it has left the wait that was seen.
  const std::string now = field(status_of(thread), "voluntary_ctxt_switches");
  return number(now) > number(look.waits) + 1 ? look.at : look.began;
}

}  // namespace gpupeak::tools
