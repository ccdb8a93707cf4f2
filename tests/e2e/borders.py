#!/usr/bin/env python3
"""Borders of phases and marks in a program of one thread are exact to the event: the program's own without any option, those from
outside if each event has a time.

usage: borders.py LIBGPUPEAK GPUPEAK PROGRAM own|outside
"""
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, expect_nothing_dropped, logs, report, run_checks

PROGRAM, CASE = sys.argv[3:5]
PHASES, STEPS = 200, 40


def run(folder, steps, **more):
    """Has the program make `steps` blocks, with a mark from outside after each."""
    program = subprocess.Popen([PROGRAM], env=environment(folder, True, **more), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, bufsize=0)
    for i in range(steps):
        program.stdin.write(b"x")
        expect(program.stdout.read(1) == b"x", "the program does not answer")
        marked = subprocess.run([GPUPEAK, "mark", str(program.pid), f"step {i}"], stderr=subprocess.PIPE, check=False)
        expect(marked.returncode == 0, f"mark: {marked.stderr.decode()}")
    program.stdin.close()
    expect(program.wait() == 0, f"the program gives {program.returncode}")
    summary = report(logs(folder)[0])
    expect_nothing_dropped(summary)
    return summary


def check_own(folder):
    summary = run(folder, 0)
    phases = {p["name"]: p["metrics"] for p in summary["phases"] if p["source"] == "api"}
    marks = {m["name"]: m for m in summary["marks"]}
    expect(len(phases) == len(marks) == PHASES, f"{len(phases)} phases, {len(marks)} marks")
    for i in range(PHASES):
        name, size = f"p{i:03}", 1000 + i
        found = phases[name]
        start = found["host.start_bytes"]
        expect(found["host.alloc_count"] == 3, f"{name}: {found}")
        expect(found["host.kept_bytes"] == size and found["host.end_bytes"] == start + size, f"{name}: {found}")
        expect(found["host.peak_bytes"] == start + size + 700, f"{name}: {found}")
        expect(marks[name]["host_bytes"] == start + size, f"mark {name}: {marks[name]}, phase {found}")
    print(f"{PHASES} phases and marks, exact")


def check_outside(folder):
    summary = run(folder, STEPS, GPUPEAK_STAMP_ALL="1")
    marks = [m["host_bytes"] for m in summary["marks"] if m["name"].startswith("step ")]
    expect(len(marks) == STEPS, f"{len(marks)} marks")
    grown = [b - a for a, b in zip(marks, marks[1:])]
    expect(grown == [4096] * (STEPS - 1), f"between marks the heap grows by {grown}")
    print(f"{STEPS} marks from outside, exact")


def main():
    with tempfile.TemporaryDirectory() as work:
        {"own": check_own, "outside": check_outside}[CASE](work)


run_checks(main)
