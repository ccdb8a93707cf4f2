#!/usr/bin/env python3
"""`gpupeak merge` of a folder: many ranks at once, in bounded memory.

usage: merge.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER
"""
import os
import resource
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, run_checks

BENCHMARK, DRIVER = sys.argv[3:5]
RANKS = 300


def merge(*arguments, code=0):
    done = subprocess.run([GPUPEAK, "merge", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{arguments[:3]}: {done.returncode}: {done.stderr}")
    return done


def main():
    with tempfile.TemporaryDirectory() as folder:
        logs = []
        for rank in range(RANKS):
            node = os.path.join(folder, f"node{rank // 8}")
            os.makedirs(node, exist_ok=True)
            logs.append(os.path.join(node, f"rank{rank:03}.gplog"))
            env = dict(environment(node, True), GPUPEAK_OUT=logs[-1], LD_LIBRARY_PATH=DRIVER, RANK=str(rank))
            subprocess.run([BENCHMARK], env=env, stdout=subprocess.DEVNULL, check=True)
        expect(merge("--json", folder).stdout == merge("--json", *sorted(logs)).stdout, "of the folder and of its logs")
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{RANKS} logs: at most {most:.0f} MiB")
        expect(most < 300, f"{most} MiB")
        one = os.path.dirname(logs[0])
        expect(merge(one, logs[-1]).stdout == merge(*logs[:8], logs[-1]).stdout, "a folder beside a log")
        # What cannot be read is not passed over in silence.
        with open(os.path.join(one, "broken.gplog"), "w", encoding="ascii") as file:
            file.write("no log")
        expect("1 files named as logs cannot be read" in merge(one).stderr, "what cannot be read")
        merge("--strict", one, code=4)
        empty = os.path.join(folder, "empty")
        os.mkdir(empty)
        expect("no logs in" in merge(empty, code=2).stderr, "an empty folder")


run_checks(main)
