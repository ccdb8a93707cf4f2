#!/usr/bin/env python3
"""What `run --phase 'step=step#'` costs: of each Python that is here, nanoseconds by which a call is longer than in a run without it, of
the function and of another one. The least of five runs in turns.

usage: cost_of_calls.py GPUPEAK
"""
import subprocess
import sys

from python_log import find_pythons

PROGRAM = """
import time
def step(): pass
def other(): pass
for function, calls in ((step, 100000), (other, 1000000)):
    began = time.perf_counter_ns()
    for _ in range(calls): function()
    print((time.perf_counter_ns() - began) / calls)
"""

for minor in range(12, 15):
    for python in find_pythons(f"3.{minor}")[:1]:
        times = {option: [] for option in ("--quiet", "--phase=step=step#")}
        for _ in range(5):
            for option, runs in times.items():
                done = subprocess.run([sys.argv[1], "run", "-q", "-o", "/dev/shm/cost.gplog", option, "--", python, "-c", PROGRAM],
                                      stdout=subprocess.PIPE, text=True, check=True)
                runs.append([float(line) for line in done.stdout.split()])
        without, with_phases = ([min(run[i] for run in runs) for i in (0, 1)] for runs in times.values())
        print(f"Python 3.{minor}: a call of the function {without[0]:.0f} ns and {with_phases[0] - without[0]:.0f} more, "
              f"of another one {without[1]:.0f} ns and {with_phases[1] - without[1]:.0f} more")
