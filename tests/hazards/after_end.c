/* What a program leaves behind at its end: no environment, or a timer whose handler must not run
 * for long after the program's destructors have. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ended, strikes_after;

static void strike(int number) {
  (void)number;
  if (ended && ++strikes_after > 10) _exit(1);
}

__attribute__((destructor)) static void end(void) {
  ended = 1;
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "timer") == 0) {
    const struct itimerval every = {{0, 500}, {0, 500}};
    struct sigaction action = {.sa_handler = strike, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
  } else {
    clearenv();
  }
  free(malloc(1000));
  puts("done");
  return 0;
}
