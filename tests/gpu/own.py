#!/usr/bin/env python3
"""A CUDA program of half a second (examples/own.cu), as its Makefile would build it: what `gpupeak run` adds to its time, and its screen.

usage: own.py PREFIX [TURNS]

PREFIX: an installed gpupeak. Needs nvcc and a GPU. TURNS (13): each way once in turn, each time with an empty cache, after one turn
that does not count. Prints median and quartiles of each way, then the first screen and the report of the last run.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

prefix, turns = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 13
gpupeak, library = prefix / "bin/gpupeak", prefix / "lib/gpupeak/libgpupeak.so"
work = pathlib.Path(tempfile.mkdtemp())
own, log = work / "own", work / "own.gplog"
subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-o", own, pathlib.Path(__file__).parents[2] / "examples/own.cu"], check=True)
BARE = ["env", f"LD_PRELOAD={library}", f"GPUPEAK_OUT={work}/bare.gplog"]
WAYS = {
    "alone": [own],
    "the library alone": [*BARE, own],
    "the same, no summary": [*BARE, "GPUPEAK_SUMMARY=off", own],
    "and no host": [*BARE, "GPUPEAK_SUMMARY=off", "GPUPEAK_HOST=off", own],
    "and no ledger": [*BARE, "GPUPEAK_SUMMARY=off", "GPUPEAK_HOST=off", "GPUPEAK_LEDGER=off", own],
    "run -q": [gpupeak, "run", "-q", "-o", log, "--", own],
    "run": [gpupeak, "run", "-o", log, "--", own],
    "run -q --names none": [gpupeak, "run", "-q", "--names", "none", "-o", work / "nameless.gplog", "--", own],
    "run --host off": [gpupeak, "run", "--host", "off", "-o", work / "device.gplog", "--", own],
}
seconds, screen = {way: [] for way in WAYS}, ""
for turn in range(turns + 1):
    for way, command in WAYS.items():
        with tempfile.TemporaryDirectory() as cache:
            begin = time.monotonic()
            done = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True)
            took = time.monotonic() - begin
        if turn > 0:
            seconds[way].append(took)
        if way == "run":
            screen = done.stderr
alone = statistics.median(seconds["alone"])
print("| way | median, ms | quartiles, ms | more than alone, ms |\n|---|---|---|---|")
for way, took in seconds.items():
    low, middle, high = statistics.quantiles(took, n=4)
    print(f"| {way} | {1e3 * middle:.0f} | {1e3 * low:.0f} to {1e3 * high:.0f} | {1e3 * (middle - alone):.0f} |")
print(screen)
subprocess.run([gpupeak, "report", log], check=True)
