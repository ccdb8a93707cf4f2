#!/usr/bin/env python3
"""A client of a fake ONNX Runtime, with and without the preload: the same results, and the phases.

usage: check.py LIBGPUPEAK GPUPEAK CASE PROGRAM [ARGUMENT…]
"""
import collections
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE, COMMAND = sys.argv[3], sys.argv[4:]


def dump(log):
    return subprocess.run([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()


def count_phases(lines):
    """(name, instance) → how often it began."""
    found = collections.Counter()
    for line in lines:
        for word in ("phase_push thread source 3 ", "range_begin "):
            if word in line:
                fields = line.split(word)[1].split()
                fields = fields[4:] if word == "range_begin " else fields
                instance = int(fields[fields.index("instance") + 1]) if "instance" in fields else 0
                found[fields[0], instance] += 1
    return dict(found)


def balance(lines):
    """Begins and ends of threads' phases, of ranges."""
    count = lambda word: sum(word in line for line in lines)
    return (count("phase_push thread source 3"), count("phase_pop thread source 3"), count("range_begin "),
            count("range_end "))


def check(phases, lines, summary):
    runs = {"jump": 4, "throw": 4, "nested": 16}
    begun, ended, ranges, range_ends = balance(lines)
    expect(begun == ended and ranges == range_ends, f"begun and ended: {begun} {ended}, ranges {ranges} {range_ends}")
    if CASE in runs:
        # Left by longjmp or by an exception, they are closed at the next call; nested ones up to a depth.
        expect(phases == {("create_session", 1): 1, ("run", 1): runs[CASE], ("release_session", 1): 1}, f"phases {phases}")
        row = next(p for p in summary["phases"] if p["name"] == "run")
        expect(2_000_000 <= row["metrics"]["host.peak_bytes"], f"run: {row['metrics']}")
    elif CASE == "async":
        expect(phases == {("create_session", 1): 1, ("run", 1): 200, ("release_session", 1): 1}, f"phases {phases}")
        row = next(p for p in summary["phases"] if p["name"] == "run")
        expect(3_000_000 <= row["metrics"]["host.peak_bytes"] < 4_000_000, f"run: {row['metrics']}")
    elif CASE == "refused":
        expect(phases == {("create_session", 1): 1, ("create_session", 2): 1, ("create_session", 3): 1,
                          ("release_session", 1): 1}, f"phases {phases}")
    elif CASE == "threads":
        expected = {("create_session", n): 1 for n in range(1, 6)} | {("run", n): 500 for n in range(2, 6)}
        expect(phases == expected | {("release_session", n): 1 for n in range(1, 6)}, f"phases {phases}")
        facts = [line for line in lines if line.startswith("fact ort.session.")]
        expect(len(facts) == 5 and "/models/own.onnx" in facts[4], f"facts {facts}")
    elif CASE == "dlopen":
        # The older library has what it needs; the one with another major version is left alone.
        expect(phases[("create_session", 2)] == phases[("run", 4)] == 1 and ("run", 5) not in phases, f"phases {phases}")
    elif CASE == "newer_table":
        expect(phases[("create_env", 0)] == 5 and phases[("append_provider", 0)] == 13, f"phases {phases}")
    elif CASE == "older_table":
        expect(phases[("create_env", 0)] == 3 and ("append_provider", 0) not in phases, f"phases {phases}")
    else:
        expect(phases == {}, f"phases {phases}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        native, ours = (subprocess.run(COMMAND, cwd=folder, env=environment(folder, preload), stdin=subprocess.DEVNULL,
                                       capture_output=True, timeout=100, check=False) for preload in (False, True))
        for what in ("returncode", "stdout", "stderr"):
            a, b = getattr(native, what), getattr(ours, what)
            expect(a == b, f"{what} differs: {a!r} without, {b!r} with the preload")
        expect(native.returncode == 0, f"the program fails by itself: {native}")
        summary = report(logs(folder)[0])
        expect_nothing_dropped(summary)
        lines = dump(logs(folder)[0])
        check(count_phases(lines), lines, summary)


run_checks(main)
