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

from common import GPUPEAK, Skipped, environment, expect, report, run_checks

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


# A file is in memory, thirty times (each counts), and goes, before half as much of its own comes, in a reservation of long ago.
AFTER_FILES = """
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char** arguments) {
  const size_t all = 64 << 20, some = 32 << 20, file = 2 << 20;
  enum { kTimes = 30 };
  int fd = open(arguments[count - 1], O_RDONLY);
  char* at = mmap(0, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* cached[kTimes];
  for (int i = 0; i < kTimes; ++i) cached[i] = mmap(0, file, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  usleep(300000);
  for (int i = 0; i < kTimes; ++i) munmap(cached[i], file);
  usleep(300000);
  memset(at, 1, some);
  munmap(at, all);
  return 0;
}
"""
# After a look that took what was granted for it, twice as much within milliseconds.
AT_ONCE = """
#include <string.h>
#include <sys/mman.h>
int main(void) {
  const size_t all = 64 << 20, first = 8 << 20;
  char* at = mmap(0, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t size = first; size <= all; size *= 2) {
    memset(at, 1, size);
    void* other = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(other, 1 << 20);
  }
  munmap(at, all);
  return 0;
}
"""

# It goes page by page, in steps that are too small for a look.
PIECES = """
#include <string.h>
#include <sys/mman.h>
int main(void) {
  const size_t all = 128 << 20, piece = 64 << 10;
  char* at = mmap(0, 2 * all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 1, all);
  for (size_t end = all; end > 0; end -= piece) munmap(at + end - piece, piece);
  return 0;
}
"""


# Twenty mappings that end within a huge page, of 2 MiB each. They are touched where the machine has enough of these.
HUGE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char** arguments) {
  const size_t bytes = 3 << 20, whole = 4 << 20;
  enum { kMany = 20, kTwoMiB = 21 << MAP_HUGE_SHIFT };
  char* all[kMany];
  for (int i = 0; i < kMany; ++i) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kTwoMiB | (count == 1 ? MAP_NORESERVE : 0);
    all[i] = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all[i] == MAP_FAILED) return 77;
    if (count > 1) memset(all[i], 1, bytes);
  }
  if (munmap(all[0], bytes) == 0) return 1;
  for (int i = 0; i < kMany; ++i)
    if (munmap(all[i], whole)) return 2;
  return 0;
}
"""


def case_huge_pages(folder):
    """Mappings of huge pages take whole ones, and what is resident of them counts though they are gone at the end."""
    program, log = os.path.join(folder, "program"), os.path.join(folder, "a.gplog")
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-include", "linux/mman.h", "-x", "c", "-", "-o", program], input=HUGE.encode(), check=True)
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", encoding="utf-8") as file:
        touched = ["touch"] if int(file.read()) >= 40 else []
    done = subprocess.run([program, *touched], env=environment(folder, True, GPUPEAK_OUT=log), check=False)
    if done.returncode == 77:
        raise Skipped("this kernel has no huge pages")
    expect(done.returncode == 0, f"exit code {done.returncode}")
    metrics = report(log)["metrics"]
    mapped, resident = metrics["host.kind.mmap_anon.peak_bytes"], metrics["host.memory.peak_bytes"]
    expect(80 << 20 <= mapped < 81 << 20, f"{mapped} bytes mapped, not 80 MiB")
    expect(not touched or 80 << 20 <= resident < 82 << 20, f"{resident} bytes resident, not 80 MiB")


def seen_in_mappings(folder, source, wanted):
    """That many MiB of mappings were seen, and hardly more in all."""
    program = os.path.join(folder, "program")
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=source.encode(), check=True)
    for _ in range(3):  # a look may take long where others have the processor
        subprocess.run([program, GPUPEAK], env=environment(folder, True), cwd=folder, check=True)
        (log,) = glob.glob(os.path.join(folder, "*.gplog"))
        metrics = report(log)["metrics"]
        os.remove(log)
        seen, most = metrics["host.resident.mappings_bytes"], metrics["host.memory.peak_bytes"]
        if seen >= wanted << 20:
            break
    expect(wanted << 20 <= seen <= most < wanted + 2 << 20, f"{seen} of {wanted} MiB in mappings, of {most} in all")


def case_touched_later(folder):
    """Looks are so quick that memory which was mapped long ago, and touched later, is seen before it goes."""
    seen_in_mappings(folder, SLOWLY, 460)


def case_after_files(folder):
    """Files' pages that have gone are no reason to look no more."""
    seen_in_mappings(folder, AFTER_FILES, 32)


def case_at_once(folder):
    """Where twice as much is resident there is a look, whenever the last one was."""
    seen_in_mappings(folder, AT_ONCE, 64)


def case_pieces(folder):
    """Of a row nobody says that less was resident at the peak than there was, though no look saw it."""
    program, log = os.path.join(folder, "program"), os.path.join(folder, "a.gplog")
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=PIECES.encode(), check=True)
    subprocess.run([program], env=environment(folder, True, GPUPEAK_OUT=log), check=True)
    text = subprocess.run([GPUPEAK, "report", log], capture_output=True, text=True, check=True).stdout
    most = re.search(r"main .*\(≤ (\d+) MiB resident\)", text)
    expect(most and 128 <= int(most[1]) < 140, f"128 of 256 MiB were resident: {text}")


def case_shell(folder):
    """A program that has less than gpupeak itself is told what is its own."""
    command = ["sh", "-c", 'while read name size unit; do if [ "$name" = RssAnon: ]; then echo $size; fi; done < /proc/self/status']
    alone = int(subprocess.run(command, check=True, capture_output=True).stdout) << 10
    done = subprocess.run([GPUPEAK, "run", "-o", os.path.join(folder, "a.gplog"), "--", *command], cwd=folder, capture_output=True, text=True,
                          env=environment(folder, False), check=True)
    told = int(re.search(r"Peak host memory: (\d+) bytes", done.stderr)[1])
    expect(alone - (32 << 10) <= told <= alone + (256 << 10), f"{told} bytes, alone {alone}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
