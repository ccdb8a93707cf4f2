#!/usr/bin/env python3
"""Runs a program with every cached stack checked by libunwind; fails if any differed, or too few were checked.

usage: verify_stacks.py [--libunwind FILE] LIBGPUPEAK MINIMUM COMMAND…      (FILE: what lies beside LIBGPUPEAK as its libunwind)
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

arguments = sys.argv[1:]
libunwind = arguments[1] if arguments[0] == "--libunwind" else None
library, minimum, *command = arguments[2:] if libunwind else arguments
FIELDS = ("quality dropped_events reentrant_calls truncated_stacks early_calls unmatched_frees device_events "
          "verified_stacks wrong_stacks").split()  # the counters page's first, see log_format.h

with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    if libunwind:
        library = shutil.copy(library, folder)
        shutil.copy(libunwind, os.path.join(folder, "libunwind.so.8"))
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_VERIFY_STACKS="1",
                       GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    with open(log, "rb") as file:
        head = file.read(8192)
    (offset,) = struct.unpack_from("<Q", head, 24)
    counters = dict(zip(FIELDS, struct.unpack_from(f"<{len(FIELDS)}Q", head, offset)))
print(f"exit {done.returncode}, {counters['verified_stacks']} stacks confirmed, {counters['wrong_stacks']} wrong, "
      f"{counters['dropped_events']} events dropped")
ok = done.returncode == 0 and counters["wrong_stacks"] == 0 and counters["verified_stacks"] >= int(minimum)
sys.exit(0 if ok else 1)
