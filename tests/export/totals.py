#!/usr/bin/env python3
"""Logs of the tests, those that the unit tests build and the sample logs of the fuzzers as well as recorded ones:
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

LARGE = 128 << 10  # all exports of all scopes of such a log take minutes
EACH = 3  # of what the unit tests build, one in so many: a test's logs are variations of one
EACH_TEST = 3  # and of those tests, one in so many
DAMAGING = ("damage:", "rtti:", "log_columns:")  # those that damage a log thousands of times: their logs are no logs


def quietly(command, **more):
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **more)


def chosen(built):
    """Some of them, the same ones each time, none twice."""
    number = lambda path: int(os.path.basename(path).split("-")[-1].split(".")[0])
    seen, different = set(), []
    for path in sorted(built, key=number):
        with open(path, "rb") as file:
            content = file.read(LARGE)
        if len(content) < LARGE and content not in seen:
            seen.add(content)
            different.append(path)
    return different[::EACH]


def tests_to_run(folder):
    """A file of their names."""
    names = subprocess.run([UNIT_TESTS, "--list-test-names-only"], stdout=subprocess.PIPE, check=False).stdout.decode().splitlines()
    path = os.path.join(folder, "tests.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([name for name in names if not name.startswith(DAMAGING)][::EACH_TEST]))
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        quietly([UNIT_TESTS, "-f", tests_to_run(folder)], env={**os.environ, "GPUPEAK_KEEP_LOGS": folder})
        built = len(os.listdir(folder))
        expect(built > 30, f"the unit tests have built {built} logs only")
        quietly([MAKE_CORPUS, os.path.join(folder, "samples")])
        for number, program in enumerate(PROGRAMS):
            quietly([program], env=environment(folder, True, LD_LIBRARY_PATH=DRIVER, GPUPEAK_OUT=f"{folder}/{number}.%p.gplog"))
        recorded = glob.glob(folder + "/?.*.gplog")
        logs = recorded + chosen(set(glob.glob(folder + "/*.gplog")) - set(recorded))
        logs += [f"{folder}/samples/{name}" for name in ("whole", "hostile", "bundle")]
        done = subprocess.run([TOTALS, *logs], stdout=subprocess.PIPE, check=False)
        text = done.stdout.decode(errors="replace")
        expect(done.returncode == 0, text[-4000:])
        print(text)


run_checks(main)
