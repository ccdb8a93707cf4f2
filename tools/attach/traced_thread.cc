#include <elf.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

#include "collector/files/regular_file.h"
#include "collector/text/error.h"
#include "collector/text/text_format.h"
#include "gpupeak/smaps.h"
#include "tools/attach/target.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

using collector::LogError;

constexpr uint64_t kStackBytes = 512 << 10, kPlaceBytes = 64 << 10, kPage = 4096;
/// call *%rax; int3
constexpr uint64_t kCode = 0xccd0ff;
constexpr uint64_t kTrapBytes = 3;
constexpr double kStopSeconds = 2;
/// A call that does not return takes with it what it has taken. So its limit is its own, and longer
/// than other threads hold a lock.
constexpr double kCallSeconds = 60;
/// For a thread that waits for a disk while it is asked to stop, or for a processor.
constexpr double kLastSeconds = 120;

[[noreturn]] void fail(const std::string& what) {
  throw LogError(what, 0);
}

std::string last_error() {
  return strerror(errno);
}

/// Blocks all signals, except those that a fault raises: if blocked, these would end the program.
uint64_t mask_of_call() {
  uint64_t mask = ~uint64_t{0};
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS})
    mask &= ~(uint64_t{1} << (signal - 1));
  return mask;
}

}  // namespace

TracedThread::TracedThread(pid_t thread, const Look& look) : thread_(thread), began_(look.began) {
  if (ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0) {
    fail(fmt::format(
        "thread {} cannot be stopped: {}{}", thread_, last_error(),
        errno == EPERM ? " (is ptrace restricted? /proc/sys/kernel/yama/ptrace_scope)" : ""));
  }
  if (ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) {
    ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
    fail(fmt::format("thread {} cannot be stopped: {}", thread_, last_error()));
  }
  const int status = wait_for_stop(kStopSeconds);
  if (status < 0) fail(fmt::format("thread {} has ended", thread_));
  // It would stop later, and stand still for as long as this command runs: so that ends.
  if (status == 0) {
    throw collector::UsageError("thread {} does not stop, and was left alone", thread_);
  }
  began_ = wait_began(thread_, look);
  saved_extended_.resize(64 << 10);
  iovec registers{&saved_, sizeof saved_}, extended{saved_extended_.data(), saved_extended_.size()};
  // Any other stop means that a signal is being delivered: pass it on.
  const bool is_ours = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
  const bool is_read = ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &registers) == 0 &&
                       ptrace(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, &extended) == 0 &&
                       ptrace(PTRACE_GETSIGMASK, thread_, sizeof saved_mask_, &saved_mask_) == 0;
  if (!is_read || !is_ours) {
    const std::string error = last_error();
    let_go(!is_ours && status >> 16 == 0 ? WSTOPSIG(status) : 0);
    if (!is_ours) fail(fmt::format("thread {} is just getting a signal", thread_));
    fail(fmt::format("the registers of thread {} cannot be read: {}", thread_, error));
  }
  saved_extended_.resize(extended.iov_len);
}

TracedThread::~TracedThread() {
  if (!is_stopped_) return;
  if (memory_ != 0) {
    try {
      system_call(SYS_munmap, {memory_, kPage + kPlaceBytes + kStackBytes});
    } catch (const LogError&) {  // the memory stays mapped: that takes only addresses
    }
  }
  restore();
  let_go();
}

/// The status with which the thread has stopped; -1: it has ended; 0: it has not stopped in time.
int TracedThread::wait_for_stop(double seconds) {
  int result = 0;
  wait_until(seconds, std::chrono::milliseconds(2), [&] {
    int status = 0;
    const pid_t stopped = waitpid(thread_, &status, __WALL | WNOHANG);
    is_stopped_ = stopped == thread_ && WIFSTOPPED(status);
    const bool is_gone = stopped == thread_ || (stopped < 0 && errno != EINTR);
    result = is_stopped_ ? status : is_gone ? -1 : 0;
    return result != 0;
  });
  return result;
}

/// Lets the thread run, until it stops for another reason than that the program is stopped as a
/// whole: it then stands still as the others do, and goes on with them. As wait_for_stop().
int TracedThread::go_on(__ptrace_request how, double seconds) {
  constexpr double kForGood = 1e9;
  for (long signal = 0;;) {
    if (ptrace(how, thread_, nullptr, signal) != 0) return -1;
    is_stopped_ = false;
    int status = wait_for_stop(seconds);
    if (status <= 0) return status;
    const bool is_event = status >> 16 == PTRACE_EVENT_STOP;
    signal = !is_event && WSTOPSIG(status) == SIGSTOP ? SIGSTOP : 0;  // no mask blocks it
    if (!is_event && signal == 0) return status;
    if (!is_event || WSTOPSIG(status) == SIGTRAP) continue;
    const auto began = std::chrono::steady_clock::now();
    if (ptrace(PTRACE_LISTEN, thread_, nullptr, nullptr) != 0) return -1;
    status = wait_for_stop(kForGood);
    if (status < 0) return status;
    stood_still_ += std::chrono::steady_clock::now() - began;
  }
}

void TracedThread::restore() {
  if (!is_saved_) return;
  iovec extended{saved_extended_.data(), saved_extended_.size()};
  ptrace(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, &extended);
  ptrace(PTRACE_SETSIGMASK, thread_, sizeof saved_mask_, &saved_mask_);
}

void TracedThread::let_go(int signal) {
  iovec registers{&saved_, sizeof saved_};
  const bool is_changed = begin_wait_anew(saved_, began_);
  if (is_saved_ || is_changed) ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &registers);
  ptrace(PTRACE_DETACH, thread_, nullptr, signal);
  is_stopped_ = false;
}

/// Gives the thread the registers of a call of ours, and blocks its signals.
void TracedThread::set_up(user_regs_struct& registers, const std::vector<uint64_t>& arguments) {
  registers.orig_rax = ~uint64_t{0};  // no system call is in progress, so none is restarted
  // The fourth is a system call's: functions are called with three at most.
  unsigned long long* const places[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                        &registers.r10, &registers.r8,  &registers.r9};
  for (size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  const iovec all{&registers, sizeof registers};
  const uint64_t mask = mask_of_call();
  is_saved_ = true;
  if (ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask) != 0 ||
      ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &all) != 0)
    fail(fmt::format("thread {} cannot be made to call: {}", thread_, last_error()));
}

uint64_t TracedThread::system_call(long number, const std::vector<uint64_t>& arguments) {
  user_regs_struct registers = saved_;
  registers.rip = system_call_at_;
  registers.rax = static_cast<uint64_t>(number);
  set_up(registers, arguments);
  // Left to itself it would run into the trap of the step, which ends the program.
  const int status = go_on(PTRACE_SINGLESTEP, kLastSeconds);
  if (status < 0) fail("the program has ended meanwhile");
  if (status == 0) fail("a system call of the program did not return");
  iovec all{&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &all) != 0 || WSTOPSIG(status) != SIGTRAP)
    fail("a system call of the program was interrupted");
  return registers.rax;
}

void TracedThread::prepare(uint64_t system_call) {
  system_call_at_ = system_call;
  constexpr uint64_t kBytes = kPage + kPlaceBytes + kStackBytes;
  const uint64_t at = this->system_call(
      SYS_mmap, {0, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
  if (at > -uint64_t{4096}) fail("the program has no memory left: " + last_error());
  memory_ = at;
  next_place_ = at + kPage;
  write(at, &kCode, sizeof kCode);
  if (this->system_call(SYS_mprotect, {at, kPage, PROT_READ | PROT_EXEC}) != 0)
    fail("the program may not have code of ours");
}

/// "libc.so.6+0x12345": from the file's first mapping on, as its symbols have it.
std::string TracedThread::place_of(uint64_t address) const {
  std::istringstream lines(kernel_text(of_process(thread_, "maps")).value_or(""));
  std::string name;
  uint64_t begin = 0;
  Mapping mapping;
  for (std::string line; std::getline(lines, line);) {
    if (!smaps::parse_mapping(line.c_str(), mapping)) continue;
    if (mapping.name != name) {
      name = mapping.name;
      begin = mapping.begin;
    }
    if (address >= mapping.begin && address < mapping.end)
      return fmt::format("{}+{:#x}", collector::file_name(name), address - begin);
  }
  return fmt::format("{:#x}", address);
}

uint64_t TracedThread::place(size_t bytes) {
  const uint64_t at = next_place_;
  next_place_ += (bytes + 15) / 16 * 16;
  if (next_place_ > memory_ + kPage + kPlaceBytes) fail("no room for arguments");
  return at;
}

void TracedThread::write(uint64_t at, const void* from, size_t bytes) const {
  const iovec ours{const_cast<void*>(from), bytes}, theirs{reinterpret_cast<void*>(at), bytes};
  if (process_vm_writev(thread_, &ours, 1, &theirs, 1, 0) != static_cast<ssize_t>(bytes))
    fail("the program's memory cannot be written: " + last_error());
}

void TracedThread::read(uint64_t at, void* to, size_t bytes) const {
  const iovec ours{to, bytes}, theirs{reinterpret_cast<void*>(at), bytes};
  if (process_vm_readv(thread_, &ours, 1, &theirs, 1, 0) != static_cast<ssize_t>(bytes))
    fail("the program's memory cannot be read: " + last_error());
}

std::string TracedThread::read_text(uint64_t at) const {
  constexpr size_t kMost = 1000;
  std::string text;
  for (char c = 0; text.size() < kMost; text += c) {
    read(at + text.size(), &c, 1);
    if (c == 0) break;
  }
  return text;
}

/// Whether the thread has stopped in a system call that waits for a lock.
bool TracedThread::is_waiting_for_lock() {
  user_regs_struct now{};
  iovec registers{&now, sizeof now};
  return ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &registers) == 0 &&
         now.orig_rax == SYS_futex;
}

uint64_t TracedThread::call(uint64_t function, const std::vector<uint64_t>& arguments) {
  user_regs_struct registers = saved_;
  registers.rip = memory_;
  registers.rsp = memory_ + kPage + kPlaceBytes + kStackBytes - 256;
  registers.rbp = 0;
  registers.rax = function;
  registers.eflags &= ~uint64_t{0x400};  // the direction flag is clear where a function begins
  set_up(registers, arguments);
  iovec all{&registers, sizeof registers};
  const auto began = std::chrono::steady_clock::now();
  const auto spent = [&] {
    const auto ran = std::chrono::steady_clock::now() - began - stood_still_;
    return std::chrono::duration<double>(ran).count();
  };
  stood_still_ = {};
  bool asked_to_stop = false;
  for (;;) {
    int status = go_on(PTRACE_CONT, std::max(0.0, kCallSeconds - spent()));
    if (status == 0) {
      ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr);
      asked_to_stop = true;
      status = wait_for_stop(kLastSeconds);
    }
    if (status <= 0) fail("the program has ended meanwhile, or does not stop any more");
    ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &all);
    const int signal = WSTOPSIG(status);
    if (signal == SIGTRAP && status >> 16 == 0 && registers.rip == memory_ + kTrapBytes)
      return registers.rax;
    if (status >> 16 == 0 && signal != SIGTRAP && signal != SIGSTOP)
      fail(fmt::format("the call raised signal {} ({}) in {}: the program goes on without it",
                       signal, strsignal(signal), place_of(registers.rip)));
    // A thread that waits for a lock has changed nothing that it would have to finish. Any other
    // thread gets as long again.
    if (asked_to_stop && (is_waiting_for_lock() || spent() > 2 * kCallSeconds)) {
      fail(
          fmt::format("the call did not return within {:g} s: it waits for a lock that another "
                      "thread of the program holds",
                      kCallSeconds));
    }
  }
}

uint64_t find_system_call(pid_t pid, uint64_t begin, uint64_t end) {
  constexpr unsigned char kInstruction[] = {0x0f, 0x05};
  std::vector<unsigned char> code(end - begin);
  const iovec ours{code.data(), code.size()}, theirs{reinterpret_cast<void*>(begin), code.size()};
  const ssize_t bytes = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
  if (bytes <= 0) return 0;
  const auto last = code.begin() + bytes;
  const auto found =
      std::search(code.begin(), last, std::begin(kInstruction), std::end(kInstruction));
  return found == last ? 0 : begin + static_cast<uint64_t>(found - code.begin());
}

namespace {

enum class Limit {
  kNone,          ///< or the kernel itself waits for what is left
  kMilliseconds,  ///< in the fourth argument
  kThird,         ///< the third argument leads to it
  kFourth,        ///< the fourth argument leads to it
  kSocket         ///< SO_RCVTIMEO of the first argument
};

/// What limits a system call that waits; none: it is none of these.
std::optional<Limit> find_wait(long number) {
  static const std::pair<Limit, std::vector<long>> kWaits[] = {
      {Limit::kSocket, {SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4}},
      // SYS_restart_syscall: poll, nanosleep or futex, begun anew by the kernel.
      {Limit::kNone,
       {SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_nanosleep, SYS_clock_nanosleep,
        SYS_pause, SYS_rt_sigsuspend, SYS_semop, SYS_wait4, SYS_waitid, SYS_futex,
        SYS_restart_syscall}},
      {Limit::kMilliseconds, {SYS_epoll_wait, SYS_epoll_pwait}},
      {Limit::kThird, {SYS_rt_sigtimedwait}},
      {Limit::kFourth, {SYS_epoll_pwait2, SYS_semtimedop}}};
  for (const auto& [limit, numbers] : kWaits)
    if (std::ranges::find(numbers, number) != numbers.end()) return limit;
  return std::nullopt;
}

/// Whether a receive from this file of the process has a time limit. A copy of its descriptor says
/// so; if none can be had, it is taken to have one.
bool has_receive_limit(pid_t pid, uint64_t file) {
  const collector::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return true;
  const collector::Descriptor copy(
      static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), static_cast<int>(file), 0)));
  timeval limit{};
  socklen_t size = sizeof limit;
  if (!copy) return true;
  if (getsockopt(copy.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, &size) != 0) return errno != ENOTSOCK;
  return limit.tv_sec != 0 || limit.tv_usec != 0;
}

/// When a thread began to run last, in milliseconds by the clock of its processor; none: the kernel
/// does not say it.
std::optional<double> ran_at(pid_t thread) {
  constexpr std::string_view kName = "se.exec_start";
  const std::string text = kernel_text(of_process(thread, "sched")).value_or("");
  const size_t name = text.find(kName);
  const size_t colon = name != std::string::npos ? text.find(':', name) : name;
  if (colon == std::string::npos) return std::nullopt;
  return strtod(text.c_str() + colon + 1, nullptr);
}

/// When a thread that waits ran last: that is when its wait began. Each processor has a clock of
/// its own for that, so the time is told beside that of this thread, which goes to that processor.
std::optional<Instant> last_ran(pid_t thread) {
  const std::optional<ProcessStat> stat = stat_of(thread);
  if (!stat) return std::nullopt;
  cpu_set_t before, there;
  CPU_ZERO(&there);
  CPU_SET(stat->processor, &there);
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
  return find_wait(system_call).has_value();
}

bool begin_wait_anew(user_regs_struct& registers, Instant began) {
  // The kernel's own value: the call begins anew, and fails with EINTR if a handler runs first.
  constexpr auto kRestartIfNoHandler = static_cast<uint64_t>(-514);
  const std::optional<Limit> wait = find_wait(static_cast<long>(registers.orig_rax));
  if (!wait) return false;
  if (registers.rax == static_cast<uint64_t>(-EINTR)) registers.rax = kRestartIfNoHandler;
  if (registers.rax != kRestartIfNoHandler) return false;
  const auto limit = static_cast<int>(registers.r10);
  if (*wait == Limit::kMilliseconds && limit > 0) {
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    registers.r10 = static_cast<uint64_t>(std::max<int64_t>(0, limit - spent.count()));
  }
  return true;
}

bool has_unknown_limit(pid_t pid, const user_regs_struct& registers) {
  const std::optional<Limit> wait = find_wait(static_cast<long>(registers.orig_rax));
  if (!wait) return false;
  if (*wait == Limit::kThird) return registers.rdx != 0;
  if (*wait == Limit::kFourth) return registers.r10 != 0;
  return *wait == Limit::kSocket && has_receive_limit(pid, registers.rdi);
}

Look look_at(pid_t pid, pid_t thread) {
  auto status = status_of(thread);
  std::string text;
  std::getline(std::istringstream(kernel_text(of_process(thread, "syscall")).value_or("")), text);
  Look look;
  look.at = look.began = std::chrono::steady_clock::now();
  look.waits = status["voluntary_ctxt_switches"];
  // A parent of vfork does not stop before its child lets it go on.
  if (status["State"].starts_with("D")) {
    look.not_now = "it waits for a child of vfork, or for a device";
  } else if (text.empty()) {
    look.not_now = "the kernel does not say in which system call it is";
  }
  if (!look.not_now.empty() || text.starts_with("running") || text.starts_with("-1")) return look;
  user_regs_struct registers{};
  std::istringstream words(text);
  words >> std::dec >> registers.orig_rax >> std::hex >> registers.rdi >> registers.rsi >>
      registers.rdx >> registers.r10;
  const std::optional<Limit> wait = find_wait(static_cast<long>(registers.orig_rax));
  if (!wait) {
    look.not_now = fmt::format("it is in system call {}", registers.orig_rax);
    return look;
  }
  bool is_unknown = has_unknown_limit(pid, registers);
  if (*wait == Limit::kMilliseconds && static_cast<int>(registers.r10) > 0) {
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
  const std::string now = status_of(thread)["voluntary_ctxt_switches"];
  return number(now) > number(look.waits) + 1 ? look.at : look.began;
}

}  // namespace gpupeak::tools
