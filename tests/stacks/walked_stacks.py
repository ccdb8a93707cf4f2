#!/usr/bin/env python3
"""Runs a program with a libunwind that counts; fails if more than MOST of its stacks had to be unwound by it.

usage: walked_stacks.py LIBGPUPEAK LIBUNWIND MOST COMMAND…
"""
import os
import shutil
import subprocess
import sys
import tempfile

library, libunwind, most, *command = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    library = shutil.copy(library, folder)
    shutil.copy(libunwind, os.path.join(folder, "libunwind.so.8"))
    count = os.open(os.path.join(folder, "count"), os.O_RDWR | os.O_CREAT)
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=os.path.join(folder, "run.gplog"), GPUPEAK_SUMMARY="off",
                       UNWINDS=str(count))
    environment.pop("GPUPEAK_RUN_PID", None)
    done = subprocess.run(command, env=environment, pass_fds=[count], check=False)
    said = os.pread(count, 100, 0).decode()
print(f"exit {done.returncode}, {said or 'no word of'} stacks unwound")
sys.exit(0 if done.returncode == 0 and said and int(said) <= int(most) else 1)
