#!/usr/bin/env python3
"""Eight threads at the heap for minutes: the programs of tests/torture in turn, each run with other random numbers and compared with
the truth that the program keeps (tests/torture/check.py). Prints a line for docs/reliability.md.

usage: threads.py LIBGPUPEAK GPUPEAK FOLDER_OF_PROGRAMS MINUTES
"""
import datetime
import os
import re
import subprocess
import sys
import time

PRELOAD, TOOL, FOLDER = map(os.path.abspath, sys.argv[1:4])
MINUTES = sys.argv[4]
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torture/check.py")


def main():
    end = time.monotonic() + 60 * float(MINUTES)
    processors = len(os.sched_getaffinity(0))
    # Each step of `ordered` is another thread's: on few processors that are busy it waits for minutes to be scheduled.
    runs = dict.fromkeys(["ordered", "turns", "racing"] if processors >= 8 else ["racing"], 0)
    steps, seed, failed = 0, 0, []
    while time.monotonic() < end:
        seed += 1
        for case in runs:
            program = os.path.join(FOLDER, "torture_racing_8" if case == "racing" else "torture_ordered_8")
            done = subprocess.run([sys.executable, CHECK, PRELOAD, TOOL, case, program], env=os.environ | {"TORTURE_SEED": str(seed)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            runs[case] += 1
            steps += sum(map(int, re.findall(r"(\d+) steps replayed", done.stdout)))
            if done.returncode != 0:
                failed.append(f"{case}, seed {seed}")
                print(f"{failed[-1]}:\n{done.stdout}", file=sys.stderr)
    said = [f"{count} runs of `{case}`" for case, count in runs.items()]
    if steps > 0:
        said.append(f"{steps:,} steps, each in its true order")
    print(f"{datetime.date.today()}, {MINUTES} minutes of eight threads on {processors} processors: {', '.join(said)}, peaks and who held them to "
          f"the byte: {len(failed)} otherwise.")
    sys.exit(1 if failed else 0)


main()
