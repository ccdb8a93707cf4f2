/* Filters of system calls that the kernel cannot read, by which programs find out what it has: it
 * says so, and so it has to be with a preloaded library that looks at filters first. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void refuse(const void* filter, int error) {
  errno = 0;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0) != -1 || errno != error) exit(1);
  errno = 0;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) != -1 || errno != error) exit(2);
}

int main(void) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
  refuse(NULL, EFAULT);
  refuse((const void*)8, EFAULT);
  refuse((const void*)-4096, EFAULT);
  char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || munmap(pages + 4096, 4096) != 0) return 4;
  refuse(pages + 4096 - 8, EFAULT); /* half of it */
  const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_filter* steps = (struct sock_filter*)(pages + 4096) - 2;
  steps[0] = steps[1] = allow;
  struct sock_fprog filter = {3, steps}; /* the last step is not there */
  refuse(&filter, EFAULT);
  filter.filter = NULL;
  refuse(&filter, EINVAL);
  filter.filter = (struct sock_filter*)8;
  refuse(&filter, EFAULT);
  filter.filter = steps;
  filter.len = 2;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) return 5;
  free(malloc(100));
  puts("refused and allowed");
  return 0;
}
