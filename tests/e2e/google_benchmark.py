#!/usr/bin/env python3
"""Google Benchmark's memory figures come from gpupeak's counters.

usage: google_benchmark.py LIBGPUPEAK GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, logs, report, run_checks

PROGRAM = sys.argv[3]


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "--benchmark_format=json", "--benchmark_min_time=0.01"]
        done = subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "a.gplog"), "--", *command],
                              env=environment(folder, False), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        rows = {row["name"]: row for row in json.loads(done.stdout)["benchmarks"]}
        phases = {phase["name"]: phase for phase in report(logs(folder)[0])["phases"]}
        for bytes_used in (1 << 20, 8 << 20):
            row = rows[f"BM_Fill/{bytes_used}"]
            # The figure is in usable bytes, which malloc rounds up, and includes a few hundred bytes of Google Benchmark.
            expect(bytes_used <= row["max_bytes_used"] < bytes_used + 65536, f"{row}")
            expect(row["allocs_per_iter"] >= 1, f"{row}")
            expect(phases[f"BM_Fill/{bytes_used}"]["metrics"]["host.peak_bytes"] >= bytes_used, "phase")
        bare = subprocess.run(command, env=environment(folder, False), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        expect(json.loads(bare.stdout)["benchmarks"][0]["max_bytes_used"] == 0, "figures without the preload")


run_checks(main)
