#!/usr/bin/env python3
"""A function that is called again and again is one phase a call: count, growth from call to call and the largest, against the
program's own ledger. What a log cannot tell apart is not counted apart.

usage: calls.py LIBGPUPEAK GPUPEAK PROGRAM FAKE_CUDA_FOLDER between|two_places|in_a_row|python
"""
import json
import os
import subprocess
import sys

from common import GPUPEAK, expect, record, report, run_case

PROGRAM, DRIVER, CASE = sys.argv[3:6]

PYTHON = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
live, ledger, call = 0, [], 0
def ok(result): assert result == 0, result
context, device = ctypes.c_void_p(), ctypes.c_int()
ok(cuda.cuInit(0)); ok(cuda.cuDeviceGet(ctypes.byref(device), 0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
ok(cuda.cuCtxSetCurrent(context))
def take(size):
    global live
    at = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    live += size
    return at.value
def give(block, size):
    global live
    ok(cuda.cuMemFree_v2(ctypes.c_uint64(block)))
    live -= size
def train_step():
    global call
    kept, temporary = (2 if call % 3 == 2 else 1) * MIB, (40 if call == 7 else 8) * MIB
    start = live
    take(kept)
    block = take(temporary)
    peak = live
    give(block, temporary)
    ledger.append((start, peak, live))
    call += 1
take(5 * MIB)
for i in range(4):
    train_step()
    train_step()
    train_step()
for row in ledger: print(*row)
"""


def calls_of(log, rule):
    summary = report(log, "--rules", "none", "--phase", rule)
    return next(p for p in summary["phases"] if p["name"] == "step")


def expect_ledger(phase, ledger):
    """`ledger`: for each call the bytes at its start, at its peak and at its end."""
    growths = [b[2] - a[2] for a, b in zip(ledger, ledger[1:])]
    rises = [peak - start for start, peak, _ in ledger]
    largest = rises.index(max(rises))
    wanted = {"grown_bytes": sum(growths), "least_growth_bytes": min(growths, default=None),
              "most_growth_bytes": max(growths, default=None), "largest": largest + 1, "largest_rise_bytes": rises[largest],
              "largest_peak_bytes": ledger[largest][1]}
    expect(phase["count"] == len(ledger), f"{phase['count']} calls, by the ledger {len(ledger)}")
    expect(phase["calls"]["device"] == wanted, f"calls {phase['calls']}, by the ledger {wanted}")
    expect(phase["calls"]["ended"] == len(ledger), f"{phase['calls']} of {len(ledger)}")
    expect(phase["metrics"]["device.peak_bytes"] == max(peak for _, peak, _ in ledger), f"{phase['metrics']}")


def expect_texts(log, rule, calls):
    """The report and `phases` say the same about the calls, and only if a rule asks for them."""
    for verb in (["report", "--full"], ["phases"]):
        for asked, is_there in ((rule, True), (rule.rstrip("#"), False)):
            done = subprocess.run([GPUPEAK, *verb, "--rules", "none", "--phase", asked, log], stdout=subprocess.PIPE, text=True,
                                  check=False)
            text = " ".join(done.stdout.split())
            expect((f"step: {calls} call{'s' if calls > 1 else ''} told apart, device: " in text) == is_there, f"{verb} {asked}: {done.stdout}")
            if is_there and calls > 1:
                expect("+1.00 MiB to +2.00 MiB from one end to the next, +15.0 MiB in all; largest [8], 41.0 MiB" in text,
                       f"{verb}: {done.stdout}")
    done = subprocess.run([GPUPEAK, "phases", "--json", "--rules", "none", "--phase", rule, log], stdout=subprocess.PIPE, check=False)
    phase = next(p for p in json.loads(done.stdout)["phases"] if p["name"] == "step")
    expect(phase["count"] == calls and phase["calls"]["device"]["largest"], f"phases --json: {phase}")


def expect_refused(folder, log):
    """A rule that names no function has no calls, and a tag is no phase."""
    wrong = os.path.join(folder, "wrong.toml")
    for text in ('[[phase]]\nname = "a"\nfunction = "f"\nby_call = 3\n', '[[tag]]\nname = "a"\nfunction = "f"\nby_call = true\n'):
        with open(wrong, "w") as file:
            file.write(text)
        done = subprocess.run([GPUPEAK, "phases", "--rules", wrong, log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(done.returncode == 2 and b"wrong.toml:4: " in done.stderr and b"by_call" in done.stderr, f"{text}: {done.stderr}")
    for option in ("step=#", "step=libx.so!#", "#"):
        done = subprocess.run([GPUPEAK, "phases", "--phase", option, log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(done.returncode == 2 and done.stderr and not done.stdout, f"--phase {option} gives {done.returncode}")


def main(folder):
    log = os.path.join(folder, "x.gplog")
    command = [PROGRAM, CASE] if CASE != "python" else [sys.executable, "-c", PYTHON]
    # Without the heap: otherwise events of the interpreter would be between two calls.
    output = record(log, *command, options=("--host", "off"), LD_LIBRARY_PATH=DRIVER)
    ledger = [tuple(map(int, line.split())) for line in output.splitlines()]
    expect(len(ledger) == 12, f"the program says {output}")
    phase = calls_of(log, "step=train_step#")
    if CASE == "in_a_row":
        # Calls from one place without an event between them have no border in the log: they are one call.
        ledger = [(ledger[0][0], max(peak for _, peak, _ in ledger), ledger[-1][2])]
    expect_ledger(phase, ledger)
    expect_texts(log, "step=train_step#", len(ledger))
    plain = calls_of(log, "step=train_step")
    expect("calls" not in plain, f"calls that nobody asked for: {plain}")
    expect(plain["count"] == (len(ledger) if CASE == "between" else 1), f"{plain['count']} stretches")
    rules = os.path.join(folder, "calls.toml")
    with open(rules, "w") as file:
        file.write('[[phase]]\nname = "step"\nfunction = "train_step"\nby_call = true\n')
    by_file = next(p for p in report(log, "--rules", rules)["phases"] if p["name"] == "step")
    expect(by_file["calls"] == phase["calls"], f"the file says {by_file}, the option {phase}")
    expect_refused(folder, log)
    print(f"{phase['count']} calls, exact")


run_case(main)
