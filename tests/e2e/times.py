"""The times of allocations and frees are right, though few other events happen: in every host mode, with one thread or many."""
import glob
import os
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, environment, expect, gpupeak, run_checks

PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { kPause = 300000, kMiB = 1 << 20 };
__attribute__((noipa)) static void* take(unsigned megabytes) {
  void* block = malloc((size_t)megabytes * kMiB);
  memset(block, 1, (size_t)megabytes * kMiB);
  return block;
}
int main() {
  void* first = take(20);
  usleep(kPause);
  void* second = take(30);
  usleep(kPause);
  free(first);
  usleep(kPause);
  free(second);
}
"""

# Threads that allocate small blocks, with a pause before each, and say when they did. "fork": a child does it. "busy": one more
# thread allocates and frees all the time.
STEPS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { kPause = 200000, kThreads = 64, kSteps = 64, kBytes = 50000 };
static struct { void* block; double before, after; } done[kThreads][kSteps];
static long steps;
static double now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}
static void* work(void* thread) {
  for (long i = 0; i < steps; ++i) {
    usleep(kPause);
    done[(long)thread][i].before = now();
    done[(long)thread][i].block = malloc(kBytes);
    done[(long)thread][i].after = now();
  }
  return NULL;
}
static volatile int ended;
static void* be_busy(void* unused) {
  void* volatile kept = unused;
  while (!ended) kept = malloc(100), free(kept);
  return NULL;
}
int main(int argc, char** argv) {
  const long threads = atol(argv[1]);
  steps = atol(argv[2]);
  const char* const how = argc > 3 ? argv[3] : "";
  pthread_t ids[kThreads], busy;
  void* volatile large = NULL;
  if (strcmp(how, "fork") == 0) {
    if (fork() > 0) return wait(NULL) < 0;
    large = malloc(4 << 20);  // a child that holds little has no log
  }
  if (strcmp(how, "busy") == 0) pthread_create(&busy, NULL, be_busy, NULL);
  for (long i = 1; i < threads; ++i) pthread_create(&ids[i], NULL, work, (void*)i);
  work(NULL);
  for (long i = 1; i < threads; ++i) pthread_join(ids[i], NULL);
  ended = 1;
  for (long i = 0; i < threads; ++i)
    for (long k = 0; k < steps; ++k) printf("%p %.9f %.9f\\n", done[i][k].block, done[i][k].before, done[i][k].after);
  free(large);
}
"""
# Half a step: what has a time of another step fails, a machine that lets a thread wait does not.
SLACK = 0.1


def times(log):
    """Seconds of the allocations and frees of large blocks, by the block's MiB. A free has the negative number."""
    sizes, found = {}, {}
    for line in subprocess.run([GPUPEAK, "export", "events", log], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if "alloc" in words and int(words[words.index("size") + 1]) >= 1 << 20:
            sizes[words[6]] = int(words[words.index("size") + 1]) >> 20
            found[sizes[words[6]]] = float(words[0])
        elif "free" in words and words[6] in sizes:
            found[-sizes.pop(words[6])] = float(words[0])
    return found


def compile(source, program):
    subprocess.run(["cc", "-O1", "-pthread", "-x", "c", "-", "-o", program], input=source.encode(), check=True)


def large_blocks(folder):
    program, log = os.path.join(folder, "program"), os.path.join(folder, "a.gplog")
    compile(PROGRAM, program)
    subprocess.run([program], env=environment(folder, True, GPUPEAK_OUT=log), check=True)
    found = times(log)
    expect(set(found) == {20, 30, -20, -30}, f"{found}")
    for later, earlier in ((30, 20), (-20, 30), (-30, -20)):
        expect(found[later] - found[earlier] >= 0.29, f"{later} comes {found[later] - found[earlier]} s after {earlier}: {found}")


def expect_own_times(log, printed, least):
    """At least so many of the program's steps are in the log, each at the time that the program says, but for the log's zero."""
    dump = subprocess.run([GPUPEAK, "export", "events", log], capture_output=True, text=True, check=True).stdout
    logged = {words[6]: float(words[0]) for words in map(str.split, dump.splitlines()) if "alloc" in words and "50000" in words}
    steps = [(logged[block], float(before), float(after)) for block, before, after in map(str.split, printed.splitlines()) if block in logged]
    expect(len(steps) >= least, f"{len(steps)} of {len(printed.splitlines())} steps are in the log")
    apart = max(at - after for at, _, after in steps) - min(at - before for at, before, _ in steps)
    expect(apart < SLACK, f"times differ from the program's own by {apart} s: {steps}")
    print(f"{os.path.basename(log)}: {len(steps)} steps, {max(0, apart) * 1e3:.3f} ms apart")


def own_times(folder):
    program = os.path.join(folder, "steps")
    compile(STEPS, program)
    for threads, how in (("1", ""), ("2", ""), ("64", ""), ("1", "fork"), ("2", "busy")):
        for mode in ("full", "sampled", "auto"):
            log = os.path.join(folder, f"{how}{threads}.{mode}.gplog")
            env = environment(folder, True, GPUPEAK_OUT=log, GPUPEAK_HOST=mode, GPUPEAK_SAMPLE="10000", GPUPEAK_CHILDREN="all")
            printed = subprocess.run([program, threads, "2" if how == "busy" else "4", how], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
            if how == "fork":
                (log,) = glob.glob(os.path.join(folder, f"{how}{threads}.{mode}.*.gplog"))
            expect_own_times(log, printed, 2)


def from_outside(folder):
    """Recording that begins while the program runs, and ends before it: of one that has the library; and of one that is attached to."""
    program = os.path.join(folder, "steps")
    compile(STEPS, program)
    for preloaded, command in ((True, ["attach"]), (False, ["attach", "-o"])):
        log = os.path.join(folder, f"{preloaded}.gplog")
        env = environment(folder, preloaded, **({"GPUPEAK_OUT": log, "GPUPEAK_HOST": "counters"} if preloaded else {}))
        running = subprocess.Popen([program, "1", "16"], env=env, stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)
        code, text = gpupeak(*command, *([] if preloaded else [log]), str(running.pid))
        expect(code == 0, f"{command}: {text}")
        if preloaded:
            time.sleep(1.5)
            code, text = gpupeak("detach", str(running.pid))
            expect(code == 0, f"stop: {text}")
        expect_own_times(log, running.communicate()[0], 4)


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"large_blocks": large_blocks, "own_times": own_times, "from_outside": from_outside}[sys.argv[3]](folder)


run_checks(main)
