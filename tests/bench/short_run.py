#!/usr/bin/env python3
"""What `gpupeak run` adds to a short CUDA program, from prompt to prompt: one of 0.3 s on the simulated driver that makes 20,000 mallocs at many
places. Each round runs all ways in turn, with an empty cache; printed are the medians of the differences to native in ms.

usage: tests/bench/short_run.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER [ROUNDS]
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

LIBRARY, GPUPEAK, DRIVER = map(os.path.abspath, sys.argv[1:4])
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 20
PLACES = 200
PROGRAM = """#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#define PLACE(n) __attribute__((noinline)) static void place##n(void) { void *volatile p = malloc(100 + n); free(p); }
%s
typedef int (*Call)();
int main(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context, *at;
  if (cuda == 0) return 1;
  ((Call)dlsym(cuda, "cuInit"))(0);
  ((Call)dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
  ((Call)dlsym(cuda, "cuCtxSetCurrent"))(context);
  ((Call)dlsym(cuda, "cuMemAlloc_v2"))(&at, (size_t)64 << 20);
  for (int i = 0; i < %d; ++i) { %s }
  usleep(300000);
  return 0;
}
"""


def build(folder):
    source, program = os.path.join(folder, "short.c"), os.path.join(folder, "short")
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM % (" ".join(f"PLACE({n})" for n in range(PLACES)), 20000 // PLACES, " ".join(f"place{n}();" for n in range(PLACES))))
    subprocess.run(["gcc", "-O1", "-g", "-o", program, source, "-ldl"], check=True)
    return program


def milliseconds(command, folder, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        env.update(LD_LIBRARY_PATH=DRIVER, XDG_CACHE_HOME=cache, GPUPEAK_OUT=os.path.join(cache, "x.gplog"), **more)
        begin = time.perf_counter()
        subprocess.run(command, env=env, cwd=cache, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return (time.perf_counter() - begin) * 1e3


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        ways = {"native": ([program], {}),
                "preloaded, no summary": ([program], {"LD_PRELOAD": LIBRARY, "GPUPEAK_SUMMARY": "off"}),
                "run -q": ([GPUPEAK, "run", "-q", "--", program], {}),
                "run": ([GPUPEAK, "run", "--", program], {}),
                "run --names none": ([GPUPEAK, "run", "--names", "none", "--", program], {}),
                "run --host off": ([GPUPEAK, "run", "--host", "off", "--", program], {}),
                "run -- true": ([GPUPEAK, "run", "--", "true"], {})}
        times = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (command, more) in ways.items():
                times[name].append(milliseconds(command, folder, **more))
        print(f"{ROUNDS} rounds; native {statistics.median(times['native']):.0f} ms, run -- true {statistics.median(times.pop('run -- true')):.0f} ms")
        for name in list(times)[1:]:
            print(f"{name:24} {statistics.median(a - b for a, b in zip(times[name], times['native'])):+6.0f}")


main()
