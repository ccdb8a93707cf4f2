/* Forbids itself the TSC (argument tsc), or all system calls but four, and the TSC with them
 * (strict), by the bare instruction, which no library sees. Then it allocates. */
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static long bare_call(long number, long a, long b) {
#ifdef __aarch64__
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = 0;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#else
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(0L)
                   : "rcx", "r11", "memory");
  return result;
#endif
}

int main(int argc, char** argv) {
  free(malloc(50000000));
  for (int i = 0; i < 1000; ++i) free(malloc(1000));
  const int strict = argc > 1 && strcmp(argv[1], "strict") == 0;
  if (bare_call(SYS_prctl, strict ? PR_SET_SECCOMP : PR_SET_TSC,
                strict ? SECCOMP_MODE_STRICT : PR_TSC_SIGSEGV) != 0)
    bare_call(SYS_exit, 77, 0);
  for (int i = 0; i < 1000; ++i) free(malloc(1000));
  bare_call(SYS_exit, 0, 0);
  return 0;
}
