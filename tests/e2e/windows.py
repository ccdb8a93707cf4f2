#!/usr/bin/env python3
"""The recording of the heap begins and ends while the program runs: `run --dormant`, `attach`, `detach`, `report PID`.

usage: windows.py LIBGPUPEAK GPUPEAK PROGRAM CASE [WINDOWS]
"""
import os
import signal
import subprocess
import sys
import tempfile

from common import GPUPEAK, Program, environment, expect, expect_consistent, expect_nothing_dropped, gpupeak, report, run_checks, warning, windows_of

PROGRAM, CASE = sys.argv[3:5]
POKED = (0, 24)  # usable bytes of what a poke allocates: a window that ends in its free still has them
WINDOWS = int(sys.argv[5]) if len(sys.argv) > 5 else 12  # 1,000 by hand
MODES = ("full", "full", "sampled", "auto")


class Windowed(Program):
    def __init__(self, folder, threads, mode="counters"):
        log = os.path.join(folder, "w.gplog")
        super().__init__(log, [PROGRAM, str(threads)], environment(folder, True, GPUPEAK_OUT=log, GPUPEAK_HOST=mode))

    def tell(self, line):
        answer = super().tell(line)
        return answer if line in ("poke", "go") else int(answer.split()[-1])

    def while_poked(self, *command):
        """Runs the command for a program whose threads wait: one call of its first thread answers the request."""
        asked = subprocess.Popen([GPUPEAK, *command], stderr=subprocess.PIPE, text=True)
        while asked.poll() is None:
            self.tell("poke")
        expect(asked.returncode == 0, f"{command}: {asked.stderr.read()}")


def kept_at_peak(summary):
    return sum(h["bytes"] for p in summary["peaks"] if p["scope"] == "host" for h in p["holders"] if h["stack"][0]["function"] == "keep")


def held(folder):
    """Threads wait at each border of a window: all sums equal the program's own account."""
    program = Windowed(folder, 8)
    program.tell("keep 1000 100")
    first = program.tell("hold")
    program.while_poked("attach", program.pid)
    kept = program.tell("keep 300 1000")
    dropped = program.tell("drop 400")  # these 300, and 100 from before
    kept_2 = program.tell("keep 500 2000")
    code, text = gpupeak("report", "--full", program.pid)
    expect(code == 0 and "keep" in text and "were held before" in text, text)
    program.while_poked("detach", program.pid)
    expect(kept_at_peak(report(program.log)) == 1_000_000, "at the first window's peak")
    program.tell("keep 10000 64")  # is not recorded
    program.tell("drop 10200")     # all these, and 200 that the log has
    second = program.tell("hold")
    program.while_poked("attach", program.pid)
    program.tell("go")
    third = program.tell("hold")
    program.while_poked("detach", program.pid)
    program.tell("go")
    program.end()
    summary = report(program.log)
    expect_consistent(summary)
    windows = windows_of(program.log)
    expect([w[0] for w in windows] == ["begin", "end", "begin", "end"], f"{windows}")
    before, after, again, last = [w[1] for w in windows]
    expect(before["recorded"] == 0, f"{before}")
    expect(again["live"] - before["live"] == second - first, f"{before} {again}: the program has {first} and {second}")
    expect(after["recorded"] - kept_2 in POKED, f"{after}: {kept_2} usable bytes were recorded and are live")
    expect(after["freed"] == dropped - kept and after["frees"] == 100, f"{after}: {dropped - kept} were freed of before")
    expect(again["recorded"] == kept_2 * 300 // 500, f"{again}: 200 of 500 recorded blocks went between the windows")
    expect(f"({before['live']} bytes) were held before" in warning(summary, "GP058"), warning(summary, "GP058"))
    grown = summary["metrics"]["host.kind.heap.growth_bytes"]
    expect(grown - max(0, kept - dropped + kept_2 + third - second) in POKED, f"{grown}: the program has {kept}, {dropped}, {kept_2}, {second}, {third}")
    code, text = gpupeak("check", program.log, "--max", f"host.kind.heap.growth_bytes={grown - 1}")
    expect(code == 1 and "over the limit" in text, text)
    phases = [p for p in summary["phases"] if p["name"] == "recording"]
    expect(len(phases) == 1 and phases[0]["count"] == 2, f"{[p['name'] for p in summary['phases']]}")
    peaks = [i["host"]["peak_bytes"] for i in phases[0]["instances"]]
    expect(len(peaks) in (1, 2) and peaks[0] >= 1_000_000, f"{phases[0]}")
    expect(summary["metrics"]["host.peak_bytes"] is None, "the host's peak is not known")


def load(folder):
    """Windows begin and end many times while eight threads allocate. Then the threads wait, and all sums are right."""
    program = Windowed(folder, 8)
    first = program.tell("hold")
    program.while_poked("attach", program.pid)
    program.while_poked("detach", program.pid)
    program.tell("go")
    for i in range(WINDOWS):
        code, text = gpupeak("attach", "--host", MODES[i % len(MODES)], program.pid)
        expect(code == 0, text)
        code, text = gpupeak("detach", program.pid)
        expect(code == 0, text)
    last = program.tell("hold")
    program.while_poked("attach", program.pid)
    program.while_poked("detach", program.pid)
    program.tell("go")
    program.end()
    summary = report(program.log)
    expect_consistent(summary)
    windows = [w[1] for w in windows_of(program.log)]
    expect(len(windows) == 2 * (WINDOWS + 2), f"{len(windows)} begins and ends")
    expect(windows[-2]["live"] - windows[0]["live"] == last - first, f"{windows[0]} {windows[-2]}: the program has {first}, {last}")
    expect(0 <= windows[-2]["recorded"] <= windows[-2]["live"], f"{windows[-2]}")


def killed(folder):
    program = Windowed(folder, 2)
    code, text = gpupeak("attach", program.pid)
    expect(code == 0, text)
    program.tell("hold")  # so that the peak is with all of them
    program.tell("keep 500 2000")
    program.process.send_signal(signal.SIGKILL)
    program.process.communicate()
    summary = report(program.log)
    expect_nothing_dropped(summary)
    expect("bytes) were held before" in warning(summary, "GP058"), warning(summary, "GP058"))
    expect(kept_at_peak(summary) == 1_000_000, "at the peak")


def refused(folder):
    program = Windowed(folder, 0)
    asked = subprocess.run([GPUPEAK, "attach", "--wait", "0.2", program.pid], stderr=subprocess.PIPE, text=True, check=False)
    expect(asked.returncode == 2 and "made no such call within 0.2 s" in asked.stderr, asked.stderr)
    program.tell("poke")  # the request was withdrawn, so no recording begins
    for command, why in ((["detach"], "records no heap"), (["attach"], ""), (["attach"], "records its heap already"), (["detach"], "")):
        waits = subprocess.Popen([GPUPEAK, *command, program.pid], stderr=subprocess.PIPE, text=True)
        while waits.poll() is None:
            program.tell("poke")
        expect(waits.returncode == (2 if why else 0) and why in waits.stderr.read(), f"{command} {why}")
    if os.geteuid() == 0:
        code, text = gpupeak("attach", program.pid, user=65534, group=65534, extra_groups=[])
        expect(code == 2 and "only a program of your own" in text, text)
    program.end()
    code, text = gpupeak("attach", program.log)
    expect(code == 2 and "has ended" in text, text)
    os.remove(program.log)
    recorded = Windowed(folder, 0, "full")
    code, text = gpupeak("attach", recorded.pid)
    expect(code == 2 and "--dormant" in text, text)
    recorded.end()


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"held": held, "load": load, "killed": killed, "refused": refused}[CASE](folder)


run_checks(main)
