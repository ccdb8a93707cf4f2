/* Syscall User Dispatch, as Wine uses it: system calls from everywhere but the C library come to a handler, which must see the
 * program's own only. With an argument it ends while calls are dispatched. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static unsigned long first, bytes;
static volatile char selector;
static volatile int trapped;

static int find_libc(struct dl_phdr_info* library, size_t size, void* data) {
  (void)size, (void)data;
  if (library->dlpi_name == NULL || strstr(library->dlpi_name, "libc.so") == NULL) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_LOAD || (library->dlpi_phdr[i].p_flags & PF_X) == 0) continue;
    first = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
    bytes = library->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

static void on_call(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  ++trapped;
#if defined __x86_64__
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#endif
}

int main(int argc, char** argv) {
  (void)argv;
  free(malloc(50000000)); /* recorded */
  dl_iterate_phdr(find_libc, NULL);
  struct sigaction action = {0};
  action.sa_sigaction = on_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, NULL);
  if (bytes == 0 || prctl(59, 1, first, bytes, &selector) != 0) {
    puts("no dispatch here");
    return 0;
  }
  selector = 1;
  for (int i = 0; i < 300; ++i) {
    char* block = malloc(300000);
    memset(block, i, 300000);
    if (i % 2 == 0) free(block);
    void* pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) munmap(pages, 65536);
  }
  const int meanwhile = trapped;
#if defined __x86_64__
  long result = SYS_getpid;
  __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  printf("own call %ld, ", result);
#endif
  printf("trapped %d then %d\n", meanwhile, trapped);
  if (argc > 1) return 0;
  selector = 0;
  prctl(59, 0, 0, 0, 0);
  free(malloc(1000));
  return 0;
}
