#!/usr/bin/env python3
"""`run --phase 'step=step#'`: each call of a Python function is a phase, in each Python from 3.12 on that is here: as many as the program
counts, from one line, left by an exception, by recursion once, in threads; and what is said where calls cannot be phases.

usage: check_calls.py GPUPEAK
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

from python_log import find_pythons

TOOL = sys.argv[1]
PROGRAM = """
import os, sys, threading
kept = []
def step(n=0):
    for _ in range(3): block = bytearray(1 << 20)  # a line that goes back within one call
def allocates_nothing(): pass
def left():
    step()
    raise ValueError
def recursive(n):
    return recursive(n - 1) if n else bytearray(1 << 20)
def generator():
    yield bytearray(1 << 20)
class Net:
    def forward(self): kept.append(bytearray(1 << 20))
for i in range(60): step()
for i in range(7): allocates_nothing()
for i in range(5):
    try: left()
    except ValueError: pass
for i in range(4): recursive(3)
list(generator())
for i in range(6): Net().forward()
thread = threading.Thread(target=lambda: [step() for _ in range(9)])
thread.start()
thread.join()
"""
RULES = {"step": ("step", 74), "nothing": ("allocates_nothing", 7), "left": ("*.py!left", 5), "again": ("rec*", 4), "net": ("*forward", 6)}


def run(python, program, *rules):
    """What `run` says, and by phase how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        path, log = os.path.join(folder, "program.py"), os.path.join(folder, "x.gplog")
        with open(path, "w") as file:
            file.write(program)
        done = subprocess.run([TOOL, "run", "-o", log, *(f"--phase={rule}" for rule in rules), "--", python, path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        phases = json.loads(subprocess.run([TOOL, "phases", "--json", log], stdout=subprocess.PIPE, check=True).stdout)["phases"]
    counts = collections.Counter()
    for phase in phases:
        counts[phase["name"]] += phase["count"]  # a row for each place
    return done.stdout, counts


pythons = [(version, python) for minor in range(8, 15) for version in [f"3.{minor}"] for python in find_pythons(version)[:1]]
assert pythons, "no Python"
for version, python in pythons:
    said, counts = run(python, PROGRAM, *(f"{name}={what}#" for name, (what, _) in RULES.items()), "g=generator#", "none=nobody#")
    if int(version[2:]) < 12:
        assert f"--phase: Python {version} does not tell of calls" in said and not counts.keys() & RULES.keys(), said
        assert "no such Python function" not in said, said
        continue
    for name, (_, calls) in RULES.items():
        assert counts[name] == calls, f"{version}: {name} {counts[name]} times, not {calls}: {said}"
    assert "--phase: generator leaves and comes back" in said and "g" not in counts, said
    assert "'none=nobody#': no such Python function was called" in said, said
said, counts = run(pythons[-1][1], "import os\nos.execv('/bin/true', ['true'])\n", "step=step#")
assert "no such Python function" in said or int(pythons[-1][0][2:]) < 12, said
print("right with Python " + ", ".join(version for version, _ in pythons))
