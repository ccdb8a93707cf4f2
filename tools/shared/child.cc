#include "tools/shared/child.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tools/shared/command_line.h"
#include "tools/shared/group_signal.h"

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

}  // namespace gpupeak::tools
