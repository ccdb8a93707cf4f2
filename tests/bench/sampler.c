// Preloaded beside libgpupeak.so by where.py: notes at each tick of the process's clock where it
// runs, after SAMPLER_AFTER seconds of processor time (or "program": once the program sets
// ITIMER_PROF itself), and writes that to SAMPLER_OUT at exit: lines of /proc/self/maps that begin
// with '#', then an address a tick.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

enum { kMost = 1 << 20 };
static uintptr_t places[kMost];
static unsigned count;

static void tick(int signal_number, siginfo_t* info, void* context) {
  (void)signal_number, (void)info;
  const unsigned at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  const ucontext_t* stopped = context;
#ifdef __aarch64__
  const uintptr_t place = stopped->uc_mcontext.pc;
#else
  const uintptr_t place = (uintptr_t)stopped->uc_mcontext.gregs[REG_RIP];
#endif
  if (at < kMost) places[at] = place;
}

static void set_timer(long first_us, long next_us) {
  const struct itimerval timer = {{next_us / 1000000, next_us % 1000000},
                                  {first_us / 1000000, first_us % 1000000}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void write_samples(void) {
  set_timer(0, 0);
  FILE* out = fopen(getenv("SAMPLER_OUT"), "w");
  FILE* maps = fopen("/proc/self/maps", "r");
  if (out == NULL || maps == NULL) return;
  char line[4096];
  while (fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, " r-xp ") != NULL) fprintf(out, "#%s", line);
  }
  for (unsigned i = 0; i < count && i < kMost; ++i) fprintf(out, "%lx\n", (unsigned long)places[i]);
  fclose(out);
  fclose(maps);
}

__attribute__((constructor)) static void begin(void) {
  if (getenv("SAMPLER_OUT") == NULL) return;
  unsetenv("LD_PRELOAD");  // this process alone
  struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_RESTART | SA_SIGINFO};
  sigaction(SIGPROF, &action, NULL);
  const char* after = getenv("SAMPLER_AFTER");
  if (after == NULL || strcmp(after, "program") != 0) {
    set_timer(1000 + (long)((after != NULL ? atof(after) : 0) * 1e6), 1000);
  }
  atexit(write_samples);
}
