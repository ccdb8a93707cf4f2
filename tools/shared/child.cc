#include "tools/shared/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

sighandler_t g_found = SIG_DFL;

bool gets_orphans() {
  int is_subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper);
  return getpid() == 1 || is_subreaper != 0;
}

/// Waits for all children, ends when `command` has ended.
[[noreturn]] void reap(pid_t command, const sigset_t& all) {
  for (;;) {
    siginfo_t got{};
    const int signal = sigwaitinfo(&all, &got);
    // What the whole process group got has reached the command by itself.
    if (signal > 0 && signal != SIGCHLD && !has_witness_got(signal) && got.si_code != SI_KERNEL)
      kill(command, signal);
    if (signal != SIGCHLD) continue;
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != command) continue;
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      _exit(exit_code(status));
    }
  }
}

}  // namespace

void keep_child_ends() {
  g_found = signal(SIGCHLD, SIG_DFL);
}

void restore_child_signal() {
  signal(SIGCHLD, g_found);
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

std::optional<int> wait_for_child(pid_t child, rusage* usage) {
  int status = 0;
  while (wait4(child, &status, 0, usage) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return status;
}

int run_program(const std::vector<std::string>& words, int output, int errors,
                volatile sig_atomic_t* running) {
  const std::vector<char*> arguments = exec_arguments(words);
  // Signals wait: between the fork and the note of its process id they would not reach the child.
  std::optional<SignalsBlocked> blocked(std::in_place);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    restore_child_signal();
    blocked->restore();
    const int in = output < 0 ? STDIN_FILENO : open("/dev/null", O_RDONLY | O_CLOEXEC);
    const auto put = [](int from, int to) { return from < 0 || dup2(from, to) == to; };
    if (!put(in, STDIN_FILENO) || !put(output, STDOUT_FILENO) || !put(errors, STDERR_FILENO))
      _exit(kOwnFailure);
    execvp(arguments[0], arguments.data());
    _exit(errno == ENOENT ? kNotFound : kCannotExec);
  }
  if (child < 0) say("cannot fork: {}", strerror(errno));
  if (running != nullptr) *running = std::max(child, 0);
  blocked.reset();
  const std::optional<int> status = child < 0 ? std::nullopt : wait_for_child(child);
  if (running != nullptr) *running = 0;
  return status ? exit_code(*status) : kOwnFailure;
}

void leave_orphans_to_parent() {
  if (!gets_orphans()) return;
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault :
       {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGTTIN, SIGTTOU, SIGTSTP}) {
    sigdelset(&all, fault);
  }
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t command = fork();
  if (command > 0) {
    start_witness();
    reap(command, all);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (command < 0) return;  // the orphans stay; the program runs all the same
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);
}

Helper::Helper(const Work& work, void (*on_end_signals)(int)) {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0) return;
  const collector::Descriptor in(down[0]);
  to_ = collector::Descriptor(down[1]);
  if (pipe2(up, O_CLOEXEC) != 0) return;
  from_ = collector::Descriptor(up[0]);
  const collector::Descriptor out(up[1]);
  process_ = fork();
  if (process_ != 0) return;
  to_ = collector::Descriptor();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_end_signals(on_end_signals);
  try {
    _exit(work(in.get(), out.get()));
  } catch (...) {
    _exit(1);
  }
}

Helper& Helper::operator=(Helper&& other) noexcept {
  std::swap(process_, other.process_);
  to_ = std::move(other.to_);
  from_ = std::move(other.from_);
  return *this;
}

Helper::~Helper() {
  if (is_there()) kill(process_, SIGKILL);
  if (is_there()) waitpid(process_, nullptr, WNOHANG);
}

bool Helper::tell(const std::string& text) const {
  const size_t bytes = text.size() + 1;
  return is_there() && write(to_.get(), text.c_str(), bytes) == static_cast<ssize_t>(bytes);
}

std::optional<int> Helper::wait(Clock::time_point until, const Take& take,
                                const volatile sig_atomic_t& stop) {
  constexpr Clock::duration kLookAgain = std::chrono::milliseconds(50);  // at `stop`
  while (is_there() && stop == 0 && Clock::now() < until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<Clock::duration>(until - Clock::now(), kLookAgain));
    pollfd wanted{from_.get(), POLLIN, 0};
    if (poll(&wanted, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(from_.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return wait_for_child(std::exchange(process_, -1));
    take({bytes, static_cast<size_t>(got)});
  }
  return std::nullopt;
}

void Helper::end() {
  if (!is_there()) return;
  kill(process_, SIGKILL);
  wait_for_child(std::exchange(process_, -1));
}

bool Helper::was_killed() {
  int status = 0;
  if (!is_there() || waitpid(process_, &status, WNOHANG) != process_) return false;
  process_ = -1;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

std::string text_from(int pipe) {
  std::string text;
  for (char byte = 0;; text.push_back(byte)) {
    ssize_t got;
    while ((got = read(pipe, &byte, 1)) < 0 && errno == EINTR) {
    }
    if (got <= 0) return {};
    if (byte == 0) return text;
  }
}

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (error) own = fs::canonical(reinterpret_cast<const char*>(getauxval(AT_EXECFN)), error);
  return own;
}

fs::path preload_library() {
  std::error_code error;
  const fs::path folder = own_path().parent_path();
  for (const char* place : {"../preload/libgpupeak.so", "../lib/gpupeak/libgpupeak.so",
                            "../lib64/gpupeak/libgpupeak.so"}) {
    const fs::path library = (folder / place).lexically_normal();
    if (fs::exists(library, error)) return library;
  }
  return {};
}

fs::path server_program() {
  const fs::path bin = own_path().parent_path();
  for (const fs::path& folder : {bin.parent_path() / "lib" / "gpupeak", bin}) {
    const fs::path program = folder / "gpupeak_serve";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

namespace {

constexpr size_t kSignalSetBytes = 8;  // the kernel's

volatile sig_atomic_t g_witness = 0, g_socket = -1;  // 0, -1: there is none

/// Takes a pending signal of this process away.
bool take(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  const timespec none{};
  return syscall(SYS_rt_sigtimedwait, &one, nullptr, &none, kSignalSetBytes) == signal;
}

/// The witness answers until the other end is closed. It keeps no file open that somebody may wait
/// for the end of. It has our memory, since a copy of it takes milliseconds, and so our errno and
/// what the C library keeps of a thread: only system calls are made here.
int be_witness(void* socket) {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  syscall(SYS_prctl, PR_SET_NAME, "gpupeak-signals");
  syscall(SYS_dup3, static_cast<int>(reinterpret_cast<intptr_t>(socket)), 0, 0);
  syscall(SYS_close_range, 1, ~0u, 0);
  for (unsigned char signal; syscall(SYS_read, 0, &signal, 1) == 1;) {
    const char got = take(signal) ? 1 : 0;
    if (syscall(SYS_write, 0, &got, 1) != 1) break;
  }
  syscall(SYS_exit_group, 0);
  return 0;
}

bool ask(int signal) {
  const auto question = static_cast<unsigned char>(signal);
  char got = 0;
  if (g_socket < 0) return false;
  if (send(g_socket, &question, 1, MSG_NOSIGNAL) == 1 && recv(g_socket, &got, 1, 0) == 1)
    return got != 0;
  close(g_socket);  // it was killed, or stands still
  g_socket = -1;
  return false;
}

}  // namespace

pid_t start_helper(int (*run)(void*), void* argument, HelperStack& stack) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = clone(run, stack.bytes + sizeof stack.bytes, CLONE_VM | SIGCHLD, argument);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return child;
}

void start_witness() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return;
  static HelperStack stack;
  const pid_t child =
      start_helper(be_witness, reinterpret_cast<void*>(static_cast<intptr_t>(sockets[1])), stack);
  close(sockets[1]);
  if (child < 0) {
    close(sockets[0]);
    return;
  }
  const timeval longest{1, 0};
  setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  g_witness = child;
  g_socket = sockets[0];
}

void end_witness() {
  if (g_witness != 0) kill(static_cast<pid_t>(g_witness), SIGKILL);
  if (g_socket >= 0) close(g_socket);
  g_socket = -1;
}

void wait_for_witness() {
  if (g_witness != 0) wait_for_child(static_cast<pid_t>(g_witness));
  g_witness = 0;
}

bool has_witness_got(int signal) {
  bool got = ask(signal);
  if (!got && g_socket >= 0) {  // who sends it to each process in turn may come to the witness last
    const timespec a_while{0, 2'000'000};
    nanosleep(&a_while, nullptr);
    got = ask(signal);
  }
  // Signals other than real-time ones are not counted while they are pending. A second one to the
  // group may have come to the witness before the answer, and to us since: it is a part of this.
  if (got && signal < SIGRTMIN) {
    while (take(signal)) ask(signal);
  }
  return got;
}

}  // namespace gpupeak::tools
