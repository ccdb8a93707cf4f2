#!/usr/bin/env python3
"""Exports logs of real programs and reads them with the tools that the formats are for.

usage: round_trip.py LIBGPUPEAK GPUPEAK FORMAT SIMULATED_DRIVER_FOLDER WORK_FOLDER PROGRAM...
All that a reader finds is compared with `report --json` to the byte. Exit code 77: the reader is not here.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, run_checks  # noqa: E402
from exported import Log  # noqa: E402
import readers  # noqa: E402
import sql  # noqa: E402
import views  # noqa: E402

FORMAT, DRIVER, WORK = sys.argv[3:6]
PROGRAMS = sys.argv[6:]
PYTHON = ["/usr/bin/python3", "-c", "import json; print(len(json.dumps([{'k': i, 'v': [str(i)] * 3} for i in range(9000)])))"]


def record(folder):
    for i, command in enumerate([PYTHON, *([program] for program in PROGRAMS)]):
        log = os.path.join(folder, f"{i}.gplog")
        env = environment(folder, False)
        env.update(LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_DEVICES="2", PYTHONMALLOC="malloc")
        subprocess.run([GPUPEAK, "run", "-q", "--host", "full", "-o", log, "--", *command], env=env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        yield Log(log)


def main():
    check = {**readers.CHECKS, **sql.CHECKS, **views.CHECKS}[FORMAT]
    with tempfile.TemporaryDirectory() as folder:
        for log in record(folder):
            check(log, WORK)


run_checks(main)
