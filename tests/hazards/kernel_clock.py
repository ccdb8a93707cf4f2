#!/usr/bin/env python3
"""By which clock a program is recorded whose kernel goes by another one than the TSC: the TSC all the same where that is kvm-clock and
clock_gettime answers without the kernel, else the kernel's. What is recorded is the same.

usage: kernel_clock.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import os
import platform
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import Skipped, environment, expect, logs, report, run_checks

GPUPEAK, CASE, PROGRAM = sys.argv[2:5]
NAME = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
MONOTONIC, TSC_16 = 0, 2  # enum gpupeak_clock


def said_to_be(clock, folder):
    """The log's clock, and how many heap events it has, of a run that finds `clock` named as the kernel's."""
    for log in logs(folder):
        os.unlink(log)
    name = os.path.join(folder, "clock")
    with open(name, "w") as file:
        file.write(clock + "\n")
    script = 'mount --bind "$1" "$2" || exit 77; exec env LD_PRELOAD="$3" "$4" few'
    variables = environment(folder, True, GPUPEAK_HOST="full")
    library = variables.pop("LD_PRELOAD")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", name, NAME, library, PROGRAM], env=variables,
                          stderr=subprocess.PIPE, check=False)
    if not logs(folder):
        raise Skipped(f"no mounts of one's own: {done.stderr.decode()}")
    expect(done.returncode == 0, f"{done}")
    (log,) = logs(folder)
    head = subprocess.run([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()[0]
    summary = report(log)
    expect(summary["quality"]["exact"] and summary["quality"]["repairs"] == 0, f"{summary['quality']}")
    return int(re.search(r" clock (\d+) ", head)[1]), summary["metrics"]["host.kind.heap.alloc_count"]


def case_kvm():
    if platform.machine() != "x86_64" or open(NAME).read().strip() not in ("tsc", "kvm-clock"):
        raise Skipped("the kernel goes by neither the TSC nor kvm-clock")
    if not re.search(r"^flags.* rdtscp\b", open("/proc/cpuinfo").read(), re.M):
        raise Skipped("the processors have no rdtscp, without which the TSC is not used")
    with tempfile.TemporaryDirectory() as folder:
        clock, _ = said_to_be("kvm-clock", folder)
        expect(clock == TSC_16, f"clock {clock}: the TSC is not used")


def case_other():
    """With the kernel's clock the same is recorded as with the TSC."""
    if platform.machine() != "x86_64":
        raise Skipped("another counter")
    with tempfile.TemporaryDirectory() as folder:
        clock, count = said_to_be("hpet", folder)
        expect(clock == MONOTONIC, f"clock {clock}: the TSC is used though the kernel leaves it")
        expect(said_to_be("kvm-clock", folder)[1] == count, "another number of allocations")


run_checks(globals()[f"case_{CASE}"])
