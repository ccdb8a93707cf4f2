#include "tools/attach/traced_thread.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "collector/text/error.h"

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
/// For a thread that waits for a disk while it is asked to stop.
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
    throw collector::UsageError(
        fmt::format("thread {} does not stop, and was left alone", thread_));
  }
  began_ = wait_began(thread_, look);
  iovec registers{&saved_, sizeof saved_};
  if (ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &registers) != 0) {
    let_go();
    fail(fmt::format("the registers of thread {} cannot be read: {}", thread_, last_error()));
  }
  // Any other stop means that a signal is being delivered: pass it on.
  if (status >> 16 != PTRACE_EVENT_STOP || WSTOPSIG(status) != SIGTRAP) {
    const int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
    let_go(signal);
    fail(fmt::format("thread {} is just getting a signal", thread_));
  }
  saved_extended_.resize(64 << 10);
  iovec extended{saved_extended_.data(), saved_extended_.size()};
  if (ptrace(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, &extended) != 0 ||
      ptrace(PTRACE_GETSIGMASK, thread_, sizeof saved_mask_, &saved_mask_) != 0) {
    let_go();
    fail(fmt::format("the registers of thread {} cannot be read: {}", thread_, last_error()));
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

/// The status with which the thread has stopped; -1: it has ended. Asks the thread to stop if it
/// has not stopped in time.
int TracedThread::wait_for_stop(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (auto pause = std::chrono::microseconds(20);;
       pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds(2))) {
    int status = 0;
    const pid_t stopped = waitpid(thread_, &status, __WALL | WNOHANG);
    if (stopped == thread_) {
      is_stopped_ = WIFSTOPPED(status);
      return is_stopped_ ? status : -1;
    }
    if (stopped < 0 && errno != EINTR) return -1;
    if (std::chrono::steady_clock::now() >= until) return 0;
    std::this_thread::sleep_for(pause);
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

uint64_t TracedThread::system_call(long number, const std::vector<uint64_t>& arguments) {
  user_regs_struct registers = saved_;
  registers.rip = system_call_at_;
  registers.rax = static_cast<uint64_t>(number);
  registers.orig_rax = ~uint64_t{0};  // no system call is in progress, so none is restarted
  unsigned long long* const places[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                        &registers.r10, &registers.r8,  &registers.r9};
  for (size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  iovec all{&registers, sizeof registers};
  const uint64_t mask = mask_of_call();
  is_saved_ = true;
  if (ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask) != 0 ||
      ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &all) != 0 ||
      ptrace(PTRACE_SINGLESTEP, thread_, nullptr, nullptr) != 0)
    fail(fmt::format("thread {} cannot be made to call: {}", thread_, last_error()));
  is_stopped_ = false;
  const int status = wait_for_stop(kStopSeconds);
  if (status < 0) fail("the program has ended meanwhile");
  if (status == 0) fail("a system call of the program did not return");
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
  registers.orig_rax = ~uint64_t{0};
  registers.eflags &= ~uint64_t{0x400};  // the direction flag is clear where a function begins
  unsigned long long* const places[] = {&registers.rdi, &registers.rsi, &registers.rdx};
  for (size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  iovec all{&registers, sizeof registers};
  const uint64_t mask = mask_of_call();
  is_saved_ = true;
  if (ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask) != 0 ||
      ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &all) != 0)
    fail(fmt::format("thread {} cannot be made to call: {}", thread_, last_error()));
  const auto began = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  bool asked_to_stop = false;
  for (;;) {
    if (ptrace(PTRACE_CONT, thread_, nullptr, nullptr) != 0)
      fail("the program has ended meanwhile");
    is_stopped_ = false;
    int status = wait_for_stop(std::max(0.0, kCallSeconds - spent()));
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
      fail(fmt::format("the call raised signal {} ({}): the program goes on without it", signal,
                       strsignal(signal)));
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

}  // namespace gpupeak::tools
