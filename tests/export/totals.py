#!/usr/bin/env python3
"""Every log of the tests, those that the unit tests build and the sample logs of the fuzzers as well as recorded ones:
the totals of each export are the report's, to the byte (totals.cc).

usage: totals.py LIBGPUPEAK GPUPEAK TOTALS UNIT_TESTS MAKE_CORPUS DRIVER_FOLDER PROGRAM…
"""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import environment, expect, run_checks  # noqa: E402

TOTALS, UNIT_TESTS, MAKE_CORPUS, DRIVER, *PROGRAMS = sys.argv[3:]

LARGE = 512 << 10  # all exports of all scopes of such a log take minutes


def quietly(command, **more):
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **more)


def main():
    with tempfile.TemporaryDirectory() as folder:
        # Not those that damage a log thousands of times: their logs are no logs.
        quietly([UNIT_TESTS, "~damage:*", "~rtti:*", "~log_columns:*"], env={**os.environ, "GPUPEAK_KEEP_LOGS": folder})
        built = len(os.listdir(folder))
        expect(built > 100, f"the unit tests have built {built} logs only")
        quietly([MAKE_CORPUS, os.path.join(folder, "samples")])
        for number, program in enumerate(PROGRAMS):
            quietly([program], env=environment(folder, True, LD_LIBRARY_PATH=DRIVER, GPUPEAK_OUT=f"{folder}/{number}.%p.gplog"))
        logs = sorted(path for path in glob.glob(folder + "/*.gplog") if os.path.getsize(path) < LARGE)
        logs += [f"{folder}/samples/{name}" for name in ("whole", "hostile", "bundle")]
        done = subprocess.run([TOTALS, *logs], stdout=subprocess.PIPE, check=False)
        text = done.stdout.decode(errors="replace")
        expect(done.returncode == 0, text[-4000:])
        print(text)


run_checks(main)
