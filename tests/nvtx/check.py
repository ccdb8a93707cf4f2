#!/usr/bin/env python3
"""A client of NVTX with and without the preload: the same output, and its ranges as phases.

usage: check.py LIBGPUPEAK GPUPEAK CASE OWN_TOOL PROGRAM [ARGUMENT…]
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE, OWN_TOOL, COMMAND = sys.argv[3], sys.argv[4], sys.argv[5:]


def dump(log):
    return subprocess.run([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()


def peak(summary, name):
    phase = next((p for p in summary["phases"] if p["name"] == name), None)
    expect(phase is not None, f"no phase {name}: {[p['name'] for p in summary['phases']]}")
    expect(phase["source"] == "nvtx", f"source of {name}: {phase['source']}")
    return phase["metrics"]["host.peak_bytes"]


def between(value, low, high, what):
    expect(low <= value < high, f"{what}: {value}, expected {low} to {high}")


def check_plain(summary, lines):
    between(peak(summary, "outer"), 3_000_000, 3_900_000, "outer")
    between(peak(summary, "größer – 大"), 2_000_000, 2_900_000, "the wide one")
    # It outlives the range of the default domain that it began in.
    between(peak(summary, "library:registered"), 4_000_000, 4_900_000, "the library's")
    text = "\n".join(lines)
    expect(len(re.findall(r"\bmark source 2 ", text)) == 3, "three marks")
    expect(re.search(r"phase_push thread source 2 registered instance \d+ category kernels", text), "the category")


def check_deep(summary, lines):
    between(peak(summary, "even"), 1_000_000, 1_900_000, "even")
    expect(sum("phase_pop thread source 2" in line for line in lines) == 5000, "5,000 pops")
    counts = [sum(p["count"] for p in summary["phases"] if p["name"] == name) for name in ("even", "odd")]
    expect(counts == [2500, 2500] and max(p["depth"] for p in summary["phases"]) == 5000, f"nested ranges: {counts}")


def check_unbalanced(summary, lines):
    expect(any("range_end id 12345" in line for line in lines), "the range that never began")
    phases = {(p["name"], p["parent"]): p for p in summary["phases"]}
    for name in ("never closed", "never ended"):
        expect(phases[name, "main"]["count"] == 1, f"{name}: {phases.keys()}")
        expect(phases[name, "main"]["end_ns"] >= phases["main", None]["end_ns"], f"{name} ended before the program")
    ignored = [w["message"] for w in summary["quality"]["warnings"] if w["code"] == "GP029"]
    expect(ignored == ["4 phase ends without a beginning ignored"], f"three pops and an end too many: {ignored}")


def check_threads(summary, lines):
    works = [p for p in summary["phases"] if p["name"] == "work"]
    expect(sum(p["count"] for p in works) == 4000, f"4,000 ranges: {[p['count'] for p in works]}")
    across = [p for p in summary["phases"] if p["name"] == "across threads"]
    expect(sum(p["count"] for p in across) == 4, f"four ranges across threads: {across}")
    expect(sum("range_end" in line for line in lines) == 4, "four ends")
    begun_by = {line.split(" tid ")[1].split()[0] for line in lines if "range_begin" in line}
    ended_by = {line.split(" tid ")[1].split()[0] for line in lines if "range_end" in line}
    expect(len(begun_by) == 1 and len(ended_by) == 4 and not begun_by & ended_by, f"begun by {begun_by}, ended by {ended_by}")
    own = [p for p in works if p["parent"] == "main"]
    expect(sum(p["metrics"]["host.alloc_count"] for p in own) == 4000, "an allocation is in another thread's phase")
    left = [p["count"] for p in summary["phases"] if p["name"] == "left open by its thread"]
    expect(left == [4], f"left open: {left}")


def check_memory(summary, lines):
    text = "\n".join(lines)
    expect(re.search(r"arena 1 created my pool 0x\w+ bytes 1048576", text), "the heap")
    expect(len(re.findall(r"arena_alloc 1 0x\w+ bytes 100000", text)) == 4, "three regions, one of them named later")
    expect("bytes 100000 weights" in text and "bytes 150000" in text, "the name and the new size")
    expect(len(re.findall(r"arena_free 1 ", text)) == 1 and "arena 1 destroyed" in text, "one free, the end")


def check_payload(summary, lines):
    sides = (("library:init", 1), ("after it", 2), ("library:numbered by itself", 3),
             ("library:numbered by the tool", 4), ("library:(payload)", 5))
    for name, millions in sides:
        between(peak(summary, name), millions * 1_000_000, millions * 1_000_000 + 900_000, name)
        phase = next(p for p in summary["phases"] if p["name"] == name)
        expect(phase["parent"] == "main", f"{name} is in {phase['parent']}")
    expect(sum("phase_pop thread source 2" in line for line in lines) == 4, "four pops")
    expect(any("range_end" in line for line in lines), "the end of a range")
    expect(re.search(r"\bmark source 2 numbered by the tool", "\n".join(lines)), "the mark")


def check_many_names(summary, lines):
    names = [re.search(r"phase_push thread source 2 (\d+)x{300}", line) for line in lines]
    found = [int(name[1]) for name in names if name]
    expect(found == list(range(20_000)), f"{len(found)} names of 20,000")


def check_version_2(summary, lines):
    between(peak(summary, "by version 2"), 1_000_000, 1_900_000, "by version 2")


def check_other_tool(summary, lines):
    expect(not [p for p in summary["phases"] if p["source"] == "nvtx"], "phases beside another tool")


def main():
    more = {"NVTX_INJECTION64_PATH": OWN_TOOL} if CASE.startswith("own_tool") else {}
    with tempfile.TemporaryDirectory() as folder:
        native, ours = (subprocess.run(COMMAND, cwd=folder, env=dict(environment(folder, preload), **more),
                                       capture_output=True, timeout=100, check=False) for preload in (False, True))
        for what in ("returncode", "stdout", "stderr"):
            a, b = getattr(native, what), getattr(ours, what)
            expect(a == b, f"{what} differs: {a!r} without, {b!r} with the preload")
        if "tool" in CASE:
            expect(b"own tool: " in native.stdout, f"the other tool is silent: {native.stdout}")
        found = [log for log in logs(folder) if os.path.basename(COMMAND[0]) in log]
        summary = report(found[0])
        expect_nothing_dropped(summary)
        checks = check_other_tool if CASE.startswith("own_tool") else globals()[f"check_{CASE}"]
        checks(summary, dump(found[0]))


run_checks(main)
