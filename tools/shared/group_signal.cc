#include "tools/shared/group_signal.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

#include "tools/shared/child.h"

namespace gpupeak::tools {
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

void start_witness() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return;
  alignas(16) static char stack[16 << 10];
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // the witness keeps them blocked
  const pid_t child = clone(be_witness, stack + sizeof stack, CLONE_VM | SIGCHLD,
                            reinterpret_cast<void*>(static_cast<intptr_t>(sockets[1])));
  sigprocmask(SIG_SETMASK, &before, nullptr);
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
  if (g_witness == 0) return;
  kill(static_cast<pid_t>(g_witness), SIGKILL);
  wait_for_child(static_cast<pid_t>(g_witness));
  g_witness = 0;
  if (g_socket >= 0) close(g_socket);
  g_socket = -1;
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
