#!/usr/bin/env python3
"""On kernels with pages of 64 KiB: nothing is asked of them that is not in whole pages, and the log replays. By qemu-user,
which tells programs of such pages, and prints each system call; it does not refuse what such a kernel would.

usage: large_pages.py LIBGPUPEAK GPUPEAK QEMU ROOT PROGRAM
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import LIBRARY, environment, expect, expect_nothing_dropped, logs, report, run_checks

PAGE = 65536
QEMU, ROOT, PROGRAM = sys.argv[3:6]
#: What must be in whole pages of the arguments: places and sizes that the kernel does not round.
WHOLE = {"mmap": (0, 5), "mremap": (0, 1, 2), "mprotect": (0,), "madvise": (0,), "munmap": (0,)}


def main():
    with tempfile.TemporaryDirectory() as folder:
        preload = []
        for name, value in environment(folder, True).items():
            if name.startswith(("GPUPEAK_", "LD_")):
                preload += ["-E", f"{name}={value}"]
        done = subprocess.run([QEMU, "-L", ROOT, "-p", str(PAGE), "-strace", *preload, PROGRAM], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=150, check=False)
        trace = done.stderr.decode(errors="replace")
        expect(done.returncode == 0, f"exit {done.returncode}: {trace[-2000:]}")
        calls = 0
        for name, arguments in re.findall(r"^\d+ (\w+)\((.*?)\) = (?!-1)", trace, re.M):
            for place in WHOLE.get(name, ()):
                value = arguments.split(",")[place]
                value = 0 if value == "NULL" else int(value, 0)
                calls += 1
                expect(value % PAGE == 0, f"not in whole pages: {name}({arguments})")
        expect(calls > 50 and LIBRARY in trace, f"{calls} calls seen")
        found = logs(folder)
        expect(len(found) == 1, f"one log expected, there are {len(found)}")
        expect_nothing_dropped(report(found[0]))


run_checks(main)
