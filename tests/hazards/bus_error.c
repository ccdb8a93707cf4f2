/* A program that has SIGBUS of its own, by a file that it cut or sent, and looks at what it set.
 * usage: bus_error died|raised|handler|once|signal|named|sysv|sigset|ignored|vforked|restored */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not all of them are declared in each mode of the compiler, and some with a warning. */
typedef void (*handler)(int);
extern handler other_signal(int, handler) __asm__("bsd_signal");
extern handler set_and_unmask(int, handler) __asm__("sigset");

static sigjmp_buf out;
static char* page;

static void say_action(void) {
  struct sigaction now;
  memset(&now, 0x55, sizeof now);
  sigaction(SIGBUS, NULL, &now);
  printf("%s, flags %x, masked %d\n",
         now.sa_handler == SIG_DFL   ? "default"
         : now.sa_handler == SIG_IGN ? "ignored"
                                     : "handled",
         (unsigned)now.sa_flags & ~0x04000000u, sigismember(&now.sa_mask, SIGUSR1));
  fflush(stdout);
}

static void with_info(int number, siginfo_t* info, void* context) {
  (void)context;
  printf("signal %d code %d at our page %d\n", number, info->si_code, info->si_addr == page);
  fflush(stdout);
  siglongjmp(out, 1);
}

static void plain(int number) {
  printf("signal %d\n", number);
  fflush(stdout);
  siglongjmp(out, 1);
}

/* As Python's subprocess does it: the child's actions are not its parent's. */
static __attribute__((noinline)) void reset_in_child(void) {
  const pid_t child = vfork();
  if (child == 0) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGBUS, NULL, &action);
    _exit(action.sa_handler == SIG_DFL ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
  fflush(stdout);
}

/* By the signal() of a program that asks for the C standard alone. */
static int catch_once(void) {
  printf("before: %d\n", sysv_signal(SIGBUS, SIG_DFL) == SIG_DFL);
  printf("before: %d\n", __sysv_signal(SIGBUS, plain) == SIG_DFL);
  say_action();
  if (sigsetjmp(out, 1) == 0) *page = 1;
  say_action();
  printf("before: %d\n", sysv_signal(SIGBUS, SIG_DFL) == SIG_DFL);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  char name[] = "/tmp/bus_error.XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  if (file < 0 || ftruncate(file, 4096) != 0) return 1;
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED || ftruncate(file, 0) != 0) return 1;
  free(malloc(1000));
  say_action();
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigaddset(&action.sa_mask, SIGUSR1);
  action.sa_sigaction = with_info;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (strcmp(mode, "once") == 0) action.sa_flags |= SA_RESETHAND;
  if (strcmp(mode, "handler") == 0 || strcmp(mode, "once") == 0 || strcmp(mode, "vforked") == 0)
    sigaction(SIGBUS, &action, NULL);
  if (strcmp(mode, "vforked") == 0) reset_in_child();
  if (strcmp(mode, "restored") == 0) { /* what the kernel tells comes back by the C library */
    struct {
      void *handler, *flags, *restorer, *mask;
    } kernels;
    syscall(SYS_rt_sigaction, SIGBUS, NULL, &kernels, 8);
    memset(&action, 0, sizeof action);
    memcpy(&action.sa_handler, &kernels.handler, sizeof action.sa_handler);
    sigaction(SIGBUS, &action, NULL);
  }
  if (strcmp(mode, "signal") == 0) {
    printf("before: %d\n", signal(SIGBUS, plain) == SIG_DFL);
    printf("before: %d\n", signal(SIGBUS, plain) == plain);
  }
  if (strcmp(mode, "named") == 0) { /* signal's other names */
    printf("before: %d\n", ssignal(SIGBUS, SIG_DFL) == SIG_DFL);
    printf("before: %d\n", other_signal(SIGBUS, plain) == SIG_DFL);
    printf("before: %d\n", signal(SIGBUS, plain) == plain);
  }
  if (strcmp(mode, "sysv") == 0) return catch_once();
  if (strcmp(mode, "sigset") == 0) {
    printf("before: %d\n", set_and_unmask(SIGBUS, plain) == SIG_DFL);
    printf("before: %d\n", set_and_unmask(SIGBUS, SIG_HOLD) == plain);
    printf("before: %d\n", set_and_unmask(SIGBUS, plain) == SIG_HOLD);
  }
  if (strcmp(mode, "ignored") == 0) {
    signal(SIGBUS, SIG_IGN);
    raise(SIGBUS);
    say_action();
    fflush(stdout);
  }
  say_action();
  if (strcmp(mode, "raised") == 0) raise(SIGBUS);
  for (int i = 0; i < 3; ++i) {
    if (sigsetjmp(out, 1) == 0) *page = 1;
    say_action();
  }
  for (int i = 0; i < 10000; ++i) free(malloc(1000));
  return 0;
}
