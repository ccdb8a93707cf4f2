#!/usr/bin/env python3
"""Resident memory is the process's largest value: not the value at its end, and not its children's.

usage: resident.py LIBGPUPEAK GPUPEAK CASE
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, report, run_checks

CASE = sys.argv[3]
PYTHON = "/usr/bin/python3"
LARGE, SMALL = 200 << 20, 100 << 20
TOUCH = f"import mmap; m = mmap.mmap(-1, {LARGE}); m.write(b'x' * {LARGE}); m.close(); "
CHILD = f"import subprocess; subprocess.run(['{PYTHON}', '-c', \"{TOUCH}\"], check=True); "
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def resident(folder):
    """The log of the started process alone: its name would mean the whole run, in which a child may have the most."""
    (log,) = glob.glob(os.path.join(folder, "*.gplog"))
    found = report(log)
    for process in found.get("whole_run", {}).get("processes", []):
        if process["started"]:
            found = report(process["log"])
    return found["metrics"]["host.rss.peak_bytes"]


def bare(folder, program):
    subprocess.run([PYTHON, "-c", program], env=environment(folder, True), cwd=folder, check=True)
    return resident(folder)


def below_run(folder, program):
    subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "a.gplog"), "--", PYTHON, "-c", program], cwd=folder,
                   env=environment(folder, False), check=False)
    return resident(folder)


def case_freed(folder):
    """Memory that was given back before the end counts, with and without the command."""
    for name, runs in (("bare", bare), ("run", below_run)):
        inner = os.path.join(folder, name)
        os.mkdir(inner)
        bytes_seen = runs(inner, TOUCH)
        expect(bytes_seen is not None and bytes_seen >= LARGE, f"{name}: resident {bytes_seen}, in truth {LARGE} and more")


def case_child(folder):
    seen = below_run(folder, CHILD)
    expect(seen < SMALL, f"resident {seen}: that was a child's")


def case_unrecorded(folder):
    """The first screen says that a child was larger than the process of the screen, unless the child has a log of its own."""
    for options, told in ((("--children", "none"), True), ((), False), (("--children", "all"), False)):
        done = subprocess.run([GPUPEAK, "run", *options, "-o", os.path.join(folder, "a.gplog"), "--", PYTHON, "-c", CHILD], cwd=folder,
                              env=environment(folder, False), stderr=subprocess.PIPE, text=True, check=True)
        expect(("not recorded: " in done.stderr) == told != ("complete" in done.stderr), f"{options}: {done.stderr}")
        expect(not told or re.search(r"not recorded: (pid \d+ python3\S*, RSS .*; --children none|a process that had RSS )", done.stderr), done.stderr)


def case_killed(folder):
    seen = below_run(folder, TOUCH + KILL)
    expect(seen >= LARGE, f"resident {seen}, in truth {LARGE} and more")


def case_killed_with_child(folder):
    seen = below_run(folder, CHILD + KILL)
    expect(seen is None or seen < SMALL, f"resident {seen}: that was a child's")


SLOWLY = """
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  const size_t all = 600 << 20, first = 400 << 20, more = 60 << 20;
  char* at = mmap(0, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 1, first);
  usleep(400000);
  munmap(at + all - (1 << 20), 1 << 20);
  usleep(1000000);
  memset(at + first, 1, more);
  munmap(at, all - (1 << 20));
  return 0;
}
"""


def case_touched_later(folder):
    """Looks are so quick that memory which was mapped long ago, and touched later, is seen before it goes."""
    program = os.path.join(folder, "program")
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=SLOWLY.encode(), check=True)
    for _ in range(3):  # a look may take long where others have the processor
        subprocess.run([program], env=environment(folder, True), cwd=folder, check=True)
        (log,) = glob.glob(os.path.join(folder, "*.gplog"))
        metrics = report(log)["metrics"]
        os.remove(log)
        seen, most = metrics["host.resident.mappings_bytes"], metrics["host.memory.peak_bytes"]
        if seen >= 460 << 20:
            break
    expect(460 << 20 <= seen <= most < 462 << 20, f"{seen} of 460 MiB in mappings, of {most} in all")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
