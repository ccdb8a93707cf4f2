#!/usr/bin/env python3
"""A limit on a program that runs, watched from outside: on the simulated driver, while it still runs.

usage: watch.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, expect, run_checks
from stepped_program import SteppedProgram

DRIVER = sys.argv[3]
MIB = 1 << 20


def watch(*arguments, **more):
    return subprocess.Popen([GPUPEAK, "watch", "--every", "0.05", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **more)


def finished(watcher, code):
    out, errors = watcher.communicate(timeout=30)
    expect(watcher.returncode == code, f"exit code {watcher.returncode}, not {code}: {out!r} {errors!r}")
    return out


def metric(log, name):
    lines = subprocess.run([GPUPEAK, "metrics", "--metric", name, log], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(lines.split()[1])


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        early = watch("--wait", "20", "--max", "device.peak_bytes=1GiB", log)  # before there is a log
        time.sleep(0.3)
        expect(early.poll() is None, "it does not wait for a log")
        program = SteppedProgram(log, DRIVER)
        tight = watch("--max", "device.peak_bytes=300MiB", "--max", "host.kind.heap.usable_peak_bytes=1GiB", program.pid)
        live = watch("--max", "device.live_bytes@device:0=300MiB", log)
        other = watch("--max", "device.peak_bytes@device:1=1MiB", log)
        program.step("200")
        program.step("free")
        program.step("250")
        time.sleep(0.3)
        for watcher in (early, tight, live, other):
            expect(watcher.poll() is None, "it ends within the limit")
        # Memory goes up and down between two looks: the peak includes that, the live bytes do not.
        os.kill(live.pid, signal.SIGSTOP)
        program.step("100")
        program.step("free")
        os.kill(live.pid, signal.SIGCONT)
        said = finished(tight, 1)
        expect("350 MiB" in said and "367 001 600 bytes" in said and "runs on" in said, said)
        expect(program.process.poll() is None and live.poll() is None, "the program or another watcher has ended")
        program.end()
        said = finished(early, 0)
        expect("device.peak_bytes of GPU 0 is 350 MiB" in said and "within the limit" in said, said)
        finished(live, 0)
        expect("no memory of that GPU" in finished(other, 0), "a GPU without memory")
        # The library's counters equal the results of the replay, for every metric.
        for name in ("host.kind.pinned.peak_bytes", "host.rss.peak_bytes", "device.peak_bytes", "device.live_bytes", "device.kind.linear.peak_bytes", "device.kind.pool.peak_bytes",
                     "device.managed.peak_bytes"):
            value = metric(log, name)
            expect(finished(watch("--strict", "--max", f"{name}={value}", log), 0), name)
            if value > 0:
                finished(watch("--max", f"{name}={value - 1}", log), 1)
        expect(metric(log, "device.peak_bytes") == 350 * MIB, "the peak")
        # Resident memory: while the program runs, and by the kernel's account.
        resident = os.path.join(folder, "resident.gplog")
        program = SteppedProgram(resident, DRIVER)
        wide, narrow = (watch("--max", f"host.rss.peak_bytes={size}", resident) for size in ("1GiB", "300MiB"))
        program.step("touch 400")
        said = finished(narrow, 1)
        (seen,) = re.findall(r"host.rss.peak_bytes is (\d+)", said)  # the program is still touching memory
        expect(300 <= int(seen) < 500 and "runs on" in said, said)
        program.end()
        finished(wide, 0)
        # A killed program's log has no end, which --strict reports. A compressed log is read, too.
        killed = os.path.join(folder, "killed.gplog")
        program = SteppedProgram(killed, DRIVER)
        program.step("10")
        watcher, strict = (watch(*more, "--max", "device.peak_bytes=1GiB", killed) for more in ([], ["--strict"]))
        program.kill()
        expect("no end" in finished(watcher, 0), "of one that was killed")
        finished(strict, 4)
        subprocess.run([GPUPEAK, "bundle", "--log", "-q", "-o", log + ".zst", log], check=True)
        finished(watch("--max", "device.peak_bytes=300MiB", log + ".zst"), 1)


run_checks(main)
