#!/usr/bin/env python3
"""What a program takes away from itself, and what others do to the log, after it was opened: nothing is lost but
what others cut off, and the program never notices.

usage: log_keeps.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import counters
from common import Skipped, environment, expect, expect_nothing_dropped, report, run_checks

CASE, PROGRAM = sys.argv[3:5]
EVENTS = 2 * 40000 * (1 + 2 + 5)


def run(folder, what, **more):
    log = os.path.join(folder, "a.gplog")
    other = os.path.join(folder, "other")
    os.makedirs(other, exist_ok=True)
    command = [PROGRAM, what, log, other]
    with open(log, "wb"):
        pass  # for the program without us, which moves or cuts it
    native = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    with open(log, "wb"):
        pass
    done = subprocess.run(command, env=environment(folder, True, GPUPEAK_HOST="full", GPUPEAK_OUT=log, **more), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, check=False)
    if native.returncode == 3:
        raise Skipped(f"{what} is not allowed here")
    expect(done.returncode == native.returncode == 0 and done.stdout == native.stdout, f"{what}: the result differs: {done}")
    return log, done.stderr.decode()


def nothing_is_lost(what):
    with tempfile.TemporaryDirectory() as folder:
        log, said = run(folder, what)
        expect(said == "", f"{what}: stderr: {said}")
        if what == "removed":
            log += ".moved"
        summary = report(log)
        expect_nothing_dropped(summary)
        quality = summary["quality"]
        expect(quality["exact"] and quality["events"] >= EVENTS, f"{what}: {quality}")
        expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 100000000, f"{what}: the last peak is missing")


def case_descriptors():
    for what in ("emfile", "closed", "removed"):
        nothing_is_lost(what)


def case_privileges():
    if os.geteuid() != 0:
        raise Skipped("setuid and chroot need root")
    for what in ("setuid", "chroot"):
        nothing_is_lost(what)


def case_cut():
    """Cut at any place: the program goes on, and a line says that the rest is lost."""
    for place in (0, 100, 4096, 8192, 70000, 1 << 20):
        with tempfile.TemporaryDirectory() as folder:
            _, said = run(folder, f"cut:{place}")
            expect(len(said.splitlines()) == 1 and "cut by somebody else" in said, f"cut at {place}: stderr: {said}")


def case_short():
    """An ended log is as long as what is in it; of one that was killed little is on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        log, _ = run(folder, "plain")
        end = counters.read(log)["file_bytes"]
        expect(os.path.getsize(log) == end, f"{os.path.getsize(log)} bytes, {end} are used")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        program = subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); input()"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=environment(folder, True, GPUPEAK_OUT=log))
        program.stdout.readline()
        program.send_signal(signal.SIGKILL)
        program.wait()
        expect(os.stat(log).st_blocks * 512 < 16 << 20, f"{os.stat(log).st_blocks * 512} bytes on the disk")
        quality = report(log)["quality"]
        packed = os.path.join(folder, "a.gplog.zst")
        said = subprocess.run([sys.argv[2], "bundle", "--log", log], stderr=subprocess.PIPE, check=True).stderr.decode()
        value, unit = said.split()[-2:]  # "… 3.1 KiB of 24.0 KiB"
        expect(unit in ("B", "KiB") or (unit == "MiB" and float(value) < 16), f"what is not in it was compressed: {said}")
        expect(report(packed)["quality"] == quality, "the packed log tells something else")


def case_children():
    """A forked child holds nothing of its parent's log."""
    with tempfile.TemporaryDirectory() as folder:
        program = ("import os, sys\n"
                   "held = lambda: [l.strip() for l in open('/proc/self/maps') if '.gplog' in l]\n"
                   "assert held()\n"
                   "if os.fork() == 0:\n"
                   "    x = [bytearray(1000) for i in range(1000)]\n"
                   "    left = held()\n"
                   "    os.write(1, '\\n'.join(left).encode())\n"
                   "    os._exit(1 if left else 0)\n"
                   "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n")
        done = subprocess.run([sys.executable, "-c", program], env=environment(folder, True), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        expect(done.returncode == 0, f"the child holds {done.stdout.decode()}{done.stderr.decode()}")


run_checks(globals()[f"case_{CASE}"])
