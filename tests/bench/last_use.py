#!/usr/bin/env python3
"""Counts the instructions that recording of last uses adds, on the simulated driver, by callgrind.

usage: tests/bench/last_use.py [FOLDER] [--compare=LIBRARY]

FOLDER: a build folder (build/release), with tests. --compare: another libgpupeak.so, built with line numbers, that stands
before the folder's own. Prints Markdown tables: what a launch, a pool's block that comes and goes, and both take, alone, with
the library, and with --last-use; and where the difference between the last two goes, by source file.
"""
import collections
import os
import sys
import tempfile

import driver_calls

PROGRAM = os.path.join(driver_calls.BUILD, "tests/bench/bench_uses")
CALLS = {"launch": "a launch", "block": "a pool's block", "operation": "both"}


def of_one(folder, call, library=None, last_use=False):
    os.environ["GPUPEAK_LAST_USE"] = "1" if last_use else "0"
    return driver_calls.of_one_call(folder, call, library, program=PROGRAM)


def by_file(counts):
    """By the folder and file below preload/; what the driver and the C library do is one row."""
    files = collections.Counter()
    for (library, file), count in counts.items():
        files[file.split("/preload/")[-1] if library.startswith("libgpupeak") else "beside the library"] += count
    return files


def main():
    libraries = driver_calls.LIBRARIES
    with tempfile.TemporaryDirectory() as folder:
        native = {call: of_one(folder, call) for call in CALLS}
        found = {(call, last_use, library): collections.Counter(of_one(folder, call, library, last_use))
                 for call in CALLS for last_use in (False, True) for library in libraries}
    total = {key: sum(counts.values()) for key, counts in found.items()}
    driver_calls.table(
        ["instructions", "alone", "gpupeak adds", "--last-use adds"],
        [[name, f"{sum(native[call].values()):.0f}"] +
         [" → ".join(f"{value(call, library):+.0f}" for library in libraries)
          for value in (lambda call, library: total[call, False, library] - sum(native[call].values()),
                        lambda call, library: total[call, True, library] - total[call, False, library])]
         for call, name in CALLS.items()])
    files = []
    for library in libraries:
        with_uses = found["operation", True, library]
        with_uses.subtract(found["operation", False, library])
        files.append(by_file(with_uses))
    names = sorted(set().union(*files), key=lambda name: -max(of[name] for of in files))
    driver_calls.table(["--last-use adds to both, by file", "instructions"],
                       [[name, " → ".join(f"{of[name]:+.0f}" for of in files)] for name in names
                        if any(abs(of[name]) >= 1 for of in files)])


main()
