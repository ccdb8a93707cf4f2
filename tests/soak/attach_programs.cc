// Programs that are attached to and left again, each busy in another way. Each checks its own work,
// ends when its input does, and prints how much it found wrong. usage: attach_programs WHAT
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>
#ifdef GPUPEAK_HAS_URING
#include <liburing.h>
#endif

extern char** environ;

namespace {

std::atomic<bool> g_goes_on{true};
std::atomic<long> g_wrong{0}, g_done{0};

void wrong(const char* what) {
  if (g_wrong.fetch_add(1) == 0) fprintf(stderr, "%s: %s\n", what, strerror(errno));
}

/// Blocks of all sizes, freed in another order, with their bytes looked at.
void allocate() {
  constexpr size_t kBlocks = 64;
  unsigned char* blocks[kBlocks];
  size_t sizes[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    sizes[i] = (i * i * 37 + 16) % (i % 16 == 0 ? 300'000 : 3'000) + 1;
    blocks[i] = static_cast<unsigned char*>(malloc(sizes[i]));
    memset(blocks[i], static_cast<int>(i), sizes[i]);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t at = i * 29 % kBlocks;
    if (blocks[at][0] != at || blocks[at][sizes[at] - 1] != at) wrong("a block");
    free(blocks[at]);
  }
  ++g_done;
}

void throws() {
  try {
    throw std::runtime_error("a");
  } catch (const std::exception&) {
    ++g_done;
  }
}

void opens() {
  void* const library = dlopen("libz.so.1", RTLD_NOW);
  if (library == nullptr || dlsym(library, "zlibVersion") == nullptr) wrong(dlerror());
  if (library != nullptr) dlclose(library);
  ++g_done;
}

void spawns() {
  pid_t child = 0;
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  int status = 1;
  if (posix_spawnp(&child, name, nullptr, nullptr, arguments, environ) != 0) return wrong("spawn");
  if (waitpid(child, &status, 0) != child || status != 0) wrong("waitpid");
  ++g_done;
}

void forks() {
  const pid_t child = fork();
  if (child == 0) {
    free(malloc(1000));
    _exit(3);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) wrong("fork");
  ++g_done;
}

void waits_for_events() {
  const int set = epoll_create1(0), event = eventfd(0, 0);
  epoll_event wanted{.events = EPOLLIN, .data = {}}, found{};
  epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted);
  if (epoll_wait(set, &found, 1, 3) != 0) wrong("epoll_wait");
  eventfd_write(event, 1);
  if (epoll_wait(set, &found, 1, 3) != 1) wrong("epoll_wait of an event");
  close(event);
  close(set);
  ++g_done;
}

void vforks() {
  const pid_t child = vfork();
  if (child == 0) _exit(3);
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) wrong("vfork");
  ++g_done;
}

/// A thread that has confined itself, by a filter that allows all.
void is_confined() {
  static thread_local bool once = false;
  if (!once) {
    sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{.len = 1, .filter = allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) wrong("the filter");
    once = true;
  }
  allocate();
}

/// A child that does this to its parent all the time, until that ends.
void begin_child(void (*what)(pid_t parent)) {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(0);
  close(1);
  while (getppid() == parent) what(parent);
  _exit(0);
}

void stop_and_go(pid_t parent) {
  kill(parent, SIGSTOP);
  usleep(2'000);
  kill(parent, SIGCONT);
  usleep(20'000);
}

void trace(pid_t parent) {
  ptrace(PTRACE_SEIZE, parent, nullptr, nullptr);
  usleep(10'000);
}

#ifdef GPUPEAK_HAS_URING
/// Reads of an event through a ring, waited for there.
void waits_for_ring() {
  io_uring ring;
  if (io_uring_queue_init(4, &ring, 0) != 0) return wrong("io_uring");
  const int event = eventfd(0, 0);
  for (uint64_t i = 1; i < 50; ++i) {
    uint64_t got = 0;
    io_uring_prep_read(io_uring_get_sqe(&ring), event, &got, sizeof got, 0);
    io_uring_submit(&ring);
    usleep(100);
    eventfd_write(event, i);
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring, &done) != 0 || done->res != sizeof got || got != i) wrong("read");
    if (done != nullptr) io_uring_cqe_seen(&ring, done);
  }
  close(event);
  io_uring_queue_exit(&ring);
  ++g_done;
}
#endif

ucontext_t g_main, g_routine;

void routine() {
  for (;;) {
    allocate();
    swapcontext(&g_routine, &g_main);
  }
}

void switches() {
  static std::vector<char> stack;
  if (stack.empty()) {
    stack.resize(256 << 10);
    getcontext(&g_routine);
    g_routine.uc_stack.ss_sp = stack.data();
    g_routine.uc_stack.ss_size = stack.size();
    makecontext(&g_routine, routine, 0);
  }
  swapcontext(&g_main, &g_routine);
}

/// Signals at 1 kHz, whose handler runs on a stack of its own.
void begin_signals() {
  static char stack[64 << 10];
  const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = [](int) { ++g_done; };
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval each{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &each, nullptr);
}

void work(void (*step)()) {
  while (g_goes_on) step();
}

}  // namespace

int main(int, char** argv) {
  const auto is = [&](const char* name) { return strcmp(argv[1], name) == 0; };
  std::vector<std::thread> threads;
  const auto begin = [&](void (*step)(), int count) {
    for (int i = 0; i < count; ++i) threads.emplace_back(work, step);
  };
  if (is("threads")) begin(allocate, 8);
  if (is("throws")) begin(throws, 2);
  if (is("opens")) begin(opens, 2), begin(allocate, 2);
  if (is("spawns")) begin(spawns, 2), begin(allocate, 1);
  if (is("forks")) begin(forks, 2), begin(allocate, 1);
  if (is("vforks")) begin(vforks, 2), begin(allocate, 1);
  if (is("confined")) begin(is_confined, 1), begin(allocate, 1);
  if (is("stopped")) begin_child(stop_and_go), begin(allocate, 2);
  if (is("traced")) begin_child(trace), begin(allocate, 2);
#ifdef GPUPEAK_HAS_URING
  if (is("ring")) begin(waits_for_ring, 2), begin(allocate, 1);
#endif
  if (is("events")) begin(waits_for_events, 4);
  if (is("coroutines")) begin(switches, 1);
  if (is("signals")) begin_signals(), begin(allocate, 2);
  puts("works");
  fflush(stdout);
  char byte;
  ssize_t got;
  while ((got = read(0, &byte, 1)) != 0) {
    if (got < 0) wrong("read");
  }
  g_goes_on = false;
  for (std::thread& thread : threads) thread.join();
  printf("wrong %ld, worked %d\n", g_wrong.load(), g_done > 0);
  return 7;
}
