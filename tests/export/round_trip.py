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
from common import Failed, GPUPEAK, environment, expect, report  # noqa: E402
import readers  # noqa: E402
import sql  # noqa: E402
import views  # noqa: E402

FORMAT, DRIVER, WORK = sys.argv[3:6]
PROGRAMS = sys.argv[6:]
PYTHON = ["/usr/bin/python3", "-c", "import json; print(len(json.dumps([{'k': i, 'v': [str(i)] * 3} for i in range(9000)])))"]


class Log:
    """A log, its summary, and exports of it."""

    def __init__(self, path):
        self.path, self.summary = path, report(path)
        self.peaks = {peak["scope"]: peak for peak in self.summary["peaks"]}
        self.devices = sorted(scope for scope in self.peaks if scope.startswith("device:") and "/" not in scope)

    def peak(self, scope):
        return self.peaks[scope]["bytes"]

    def scopes(self):
        return [scope for scope in (*self.devices, "host", "host/heap") if scope in self.peaks]

    def live(self, scope):
        metrics = self.summary["metrics"]
        if scope.startswith("device:"):
            ordinal = int(scope.split(":")[1])
            metrics = next(d["metrics"] for d in self.summary["devices"] if d["ordinal"] == ordinal)
            return metrics["device.live_bytes"]
        return metrics["host.live_bytes" if scope == "host" else "host.kind.heap.live_bytes"]

    def allocated(self, scope):
        """Bytes of all allocations; None where the summary does not say."""
        if not scope.startswith("device:"):
            return None
        ordinal = int(scope.split(":")[1])
        return next(d["metrics"]["device.alloc_bytes"] for d in self.summary["devices"] if d["ordinal"] == ordinal)

    def export(self, form, scope=None):
        out = f"{self.path}.{form}"
        command = [GPUPEAK, "export", form, self.path, "-o", out, *(["--scope", scope] if scope else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(done.returncode == 0 and not done.stdout, f"{command} gives {done.returncode}: {done.stderr.decode()}")
        return out


def record(folder):
    for i, command in enumerate([PYTHON, *([program] for program in PROGRAMS)]):
        log = os.path.join(folder, f"{i}.gplog")
        env = environment(folder, False)
        env.update(LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_DEVICES="2", PYTHONMALLOC="malloc")
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", *command], env=env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        yield Log(log)


def main():
    check = {**readers.CHECKS, **sql.CHECKS, **views.CHECKS}[FORMAT]
    with tempfile.TemporaryDirectory() as folder:
        for log in record(folder):
            check(log, WORK)
    return 0


try:
    sys.exit(main())
except readers.Skipped as skipped:
    print(f"skipped: {skipped}")
    sys.exit(77)
except Failed as failure:
    print(failure)
    sys.exit(1)
