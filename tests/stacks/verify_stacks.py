#!/usr/bin/env python3
"""Runs a program with every cached stack checked by libunwind; fails if any differed, or too few were checked.

usage: verify_stacks.py [--libunwind FILE] [--dump GPUPEAK] LIBGPUPEAK MINIMUM COMMAND…
  FILE     what lies beside LIBGPUPEAK as its libunwind
  GPUPEAK  the command that counts the stacks in the log: one in a thousand may not have been checked, being the unwinder's own
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from counters import read as read_counters

parser = argparse.ArgumentParser()
parser.add_argument("--libunwind")
parser.add_argument("--dump")
parser.add_argument("library")
parser.add_argument("minimum", type=int)
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()
library = options.library

with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    if options.libunwind:
        library = shutil.copy(library, folder)
        shutil.copy(options.libunwind, os.path.join(folder, "libunwind.so.8"))
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_HOST="full", GPUPEAK_VERIFY_STACKS="1",
                       GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    done = subprocess.run(options.command, env=environment, stdout=subprocess.DEVNULL, check=False)
    minimum = options.minimum
    if options.dump:
        events = subprocess.run([options.dump, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout
        recorded = len(re.findall(rb"(?:alloc|realloc_end) 0x.* stack [1-9]", events))
        minimum = max(minimum, recorded - recorded // 1000)
    counters = read_counters(log)
print(f"exit {done.returncode}, {counters['verified_stacks']} stacks confirmed of at least {minimum}, {counters['wrong_stacks']} wrong, "
      f"{counters['dropped_events']} events dropped")
ok = done.returncode == 0 and counters["wrong_stacks"] == 0 and counters["verified_stacks"] >= minimum
sys.exit(0 if ok else 1)
