#!/usr/bin/env python3
"""Counts the instructions of driver calls on the simulated driver, by callgrind, where no load of the machine shows.

usage: tests/bench/driver_calls.py [FOLDER] [--compare=LIBRARY]

FOLDER: a build folder (build/release), with tests. --compare: another libgpupeak.so, built with line numbers, that stands
before the folder's own. Prints Markdown tables: of each call what the library adds, and where it goes of an asynchronous pair.
What the driver and the C library do in answer to it counts as added, too.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
folders = [a for a in sys.argv[1:] if not a.startswith("--")]
BUILD = os.path.abspath(folders[0] if folders else os.path.join(ROOT, "build/release"))
LIBRARIES = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--compare=")]
LIBRARIES = [os.path.abspath(library) for library in LIBRARIES + [os.path.join(BUILD, "preload/libgpupeak.so")]]
PROGRAM = os.path.join(BUILD, "tests/bench/bench_cuda_pairs")
LENGTHS = (2000, 12000)  # of a run's begin and end nothing is left in the difference
CALLS = {"async": "cuMemAllocAsync + cuMemFreeAsync", "linear": "cuMemAlloc + cuMemFree", "launch": "cuLaunchKernel"}
MODES = ("off", "full")
# By the source line that an instruction comes from; the first that fits.
PARTS = {
    "is the stack the one that stood": r"/stack/|/thread/emit[.]cc",
    "the records and their stamps": r"/log/log[.]h|/thread/|/base/(clock|arch|freestanding)",
    "the book of live blocks, counters": r"hash_tables|device_book|/counters|driver_readings|device_memory",
    "pools, devices, captures": r"/track/",
    "hooks and what a call means": r"/hooks/cuda|/calls/",
    "locks, scopes, flags": r"/base/|/bits/|/include/",
    "the driver's own mallocs": r"/hooks/malloc",
}


def instructions(path):
    """Of a callgrind file, by object and source file."""
    names, counts = {}, collections.Counter()
    library = file = ""
    of_callee = False
    with open(path) as lines:
        for line in lines:
            if named := re.match(r"(c?)(ob|fl|fi|fe|fn|file)=\((\d+)\)(?: (.*))?", line):
                callee, kind, number, text = named.groups()
                key = (kind if kind in ("ob", "fn") else "file", number)
                names[key] = text if text is not None else names[key]
                if not callee and kind == "ob":
                    library = names[key]
                elif not callee and kind != "fn":
                    file = names[key]
            elif line.startswith("calls="):
                of_callee = True  # the next line is what the callee has spent
            elif cost := re.match(r"[+\-*\d]\S* (\d+)$", line):
                if not of_callee:
                    counts[os.path.basename(library), file] += int(cost.group(1))
                of_callee = False
    return counts


def of_one_call(folder, call, library=None, mode="off", program=PROGRAM):
    environment = dict(os.environ, GPUPEAK_PYTHON="off", GPUPEAK_QUIET="1", GPUPEAK_SUMMARY="off", GPUPEAK_HOST=mode,
                       GPUPEAK_OUT=os.path.join(folder, "calls.gplog"))
    if library:
        environment["LD_PRELOAD"] = library
    runs = []
    for length in LENGTHS:
        out = os.path.join(folder, "callgrind.out")
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, call, str(length)],
                       env=environment, stderr=subprocess.DEVNULL, check=True)
        runs.append(instructions(out))
    return {place: (runs[1][place] - runs[0][place]) / (LENGTHS[1] - LENGTHS[0]) for place in runs[1]}


def by_part(counts, native):
    parts = dict.fromkeys(PARTS, 0)
    parts["the driver's answer"] = 0
    for (library, file), count in counts.items():
        if not library.startswith("libgpupeak"):
            parts["the driver's answer"] += count - native.get((library, file), 0)
            continue
        parts[next((name for name, files in PARTS.items() if re.search(files, file)), "locks, scopes, flags")] += count
    return parts


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        native = {call: of_one_call(folder, call) for call in CALLS}
        found = {(call, mode, library): of_one_call(folder, call, library, mode)
                 for call in CALLS for mode in MODES for library in LIBRARIES}
        added = {key: sum(counts.values()) - sum(native[key[0]].values()) for key, counts in found.items()}
        table(["instructions of a call", "native"] + [f"added, host {mode}" for mode in MODES],
              [[name, f"{sum(native[call].values()):.0f}"] +
               [" → ".join(f"{added[call, mode, library]:+.0f}" for library in LIBRARIES) for mode in MODES]
               for call, name in CALLS.items()])
        parts = [by_part(found["async", "off", library], native["async"]) for library in LIBRARIES]
        table(["of an asynchronous pair, host off", "instructions"],
              [[name, " → ".join(f"{of_library[name]:.0f}" for of_library in parts)] for name in parts[0]] +
              [["sum", " → ".join(f"{sum(of_library.values()):.0f}" for of_library in parts)]])


if __name__ == "__main__":
    main()
