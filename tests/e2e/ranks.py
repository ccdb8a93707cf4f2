#!/usr/bin/env python3
"""Ranks that a real launcher starts on this machine: one log for each, the memory that they held at once, which rank ended the job, and
partial results that were made under the launcher.

usage: ranks.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER mpirun|srun|torchrun
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, LIBRARY, Skipped, environment, expect, run_checks
from slurm import Slurm

DRIVER, CASE = sys.argv[3:5]
RANKS, MIB = 4, 1 << 20
WAIT_S = 60

# Each rank allocates 64 MiB, rank 1 32 MiB more. All hold these at the same time, since nobody goes on before. Then they do what the argument says.
PROGRAM = """
import ctypes, os, signal, sys, time
folder, what = sys.argv[1:3]
rank = int(next(os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK") if name in os.environ))
cuda = ctypes.CDLL("libcuda.so.1")
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
def allocate(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))
assert allocate((96 if rank == 1 else 64) << 20) == 0
open(os.path.join(folder, f"here.{rank}"), "w").close()
until = time.monotonic() + %d
while sum(name.startswith("here.") for name in os.listdir(folder)) < %d:
    assert time.monotonic() < until, "the others do not come"
    time.sleep(0.01)
if what == "refused" and rank == 2:
    assert allocate(1 << 40) == 2
    time.sleep(0.5)
    sys.exit(3)
if what == "killed" and rank == 2:  # its last event is the last of all, its end the first
    assert allocate(1 << 20) == 0
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
if what != "fine":
    time.sleep(%d)
""" % (WAIT_S, RANKS, 2 * WAIT_S)


def gpupeak(*arguments):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"{arguments}: {done.returncode}: {done.stderr}")
    return done.stdout


class Job:
    """Jobs under a launcher, each with a folder of its own."""

    def __init__(self, launch, launch_once, place, **more):
        self.launch, self.launch_once, self.place = launch, launch_once, place
        self.environment = dict(environment(place, False), LD_LIBRARY_PATH=DRIVER, **more)
        self.program = os.path.join(place, "program.py")
        with open(self.program, "w", encoding="ascii") as file:
            file.write(PROGRAM)

    def run(self, what, bare=False):
        """The logs by rank. The job's exit code must be the one that `what` causes."""
        folder = os.path.join(self.place, what + str(bare))
        os.mkdir(folder)
        logs = os.path.join(folder, "logs")
        os.mkdir(logs)
        pattern = os.path.join(logs, "run.%h.%r.gplog")
        program = [sys.executable, self.program, folder, what]
        if bare:
            program = ["env", f"LD_PRELOAD={LIBRARY}", f"GPUPEAK_OUT={pattern}", "GPUPEAK_SUMMARY=off", *program]
        else:
            program = [GPUPEAK, "run", "-q", "-o", pattern, "--", *program]
        done = subprocess.run([*self.launch, *program], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=4 * WAIT_S, check=False)
        expect((done.returncode == 0) == (what == "fine"), f"{what}: {done.returncode}: {done.stdout}")
        host = os.uname().nodename
        wanted = [f"run.{host}.{rank}.gplog" for rank in range(RANKS)]
        # The launcher may kill a `run` that is putting a log in its place.
        found = [name for name in os.listdir(logs) if what == "fine" or not name.endswith(".tmp")]
        expect(sorted(found) == wanted, f"{what}: {found}: {done.stdout}")
        return logs

    def check_all(self):
        for bare in (False, True):
            logs = self.run("fine", bare)
            merged = json.loads(gpupeak("merge", "--json", logs))
            expect([process["rank"] for process in merged["processes"]] == list(range(RANKS)), "a log a rank, in their order")
            (node,) = merged["nodes"]
            (device,) = [sum for sum in node["sums"] if sum["scope"] == "device:0"]
            expect(device["peak_bytes"] == (64 * RANKS + 32) * MIB and device["error_bytes"] == 0, f"at once: {device}")
            (most,) = {merged["processes"][outlier["process"]]["rank"] for outlier in merged["outliers"] if outlier["side"] == "device"}
            expect(most == 1, f"outliers: {merged['outliers']}")
            expect(merged["end"]["casualties"] == [] and merged["end"]["not_said" if bare else "in_order"] == RANKS, f"{merged['end']}")
        # The launcher makes partial results where the logs are.
        partial = os.path.join(self.place, "of.%h.gpmerge")
        subprocess.run([*self.launch_once, GPUPEAK, "merge", "--partial", partial, logs], env=self.environment, stdin=subprocess.DEVNULL, check=True)
        expect(gpupeak("merge", partial.replace("%h", os.uname().nodename)) == gpupeak("merge", logs), "by the launcher's partial result")
        self.check_end("refused", "refused", {"kind": "exit", "code": 3})
        self.check_end("killed", "signalled", {"kind": "signal", "code": 9, "signal": "SIGKILL"})

    def check_end(self, what, how, ended):
        logs = self.run(what)
        merged = json.loads(gpupeak("merge", "--json", logs))
        casualties = merged["end"]["casualties"]
        process = merged["processes"][casualties[0]["process"]]
        said = f"{what}: {merged['end']}: {[(p['rank'], p['exit']) for p in merged['processes']]}"
        expect(process["rank"] == 2 and casualties[0]["how"] == how and process["exit"] == ended, said)
        if what == "refused":
            expect(process["refusal"]["requested_bytes"] == 1 << 40, said)
        # The launcher ended the other ranks by signals; these ends can be told from a rank's own failure.
        expect(len(casualties) + merged["end"]["without_end"] == RANKS, said)
        expect(all(casualty["how"] == "signalled" for casualty in casualties[1:]), said)
        text = gpupeak("merge", logs)
        expect("FAILED  rank 2," in text, text)


def mpirun(place):
    if not shutil.which("mpirun"):
        raise Skipped("no mpirun (Debian: openmpi-bin)")
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    Job([*launch, "-n", str(RANKS)], [*launch, "-n", "1"], place).check_all()


def srun(place):
    folder = os.path.join(place, "slurm")
    os.mkdir(folder)
    with Slurm(folder) as slurm:
        launch = ["srun", "--kill-on-bad-exit=1", "--overcommit"]
        Job([*launch, "-n", str(RANKS)], ["srun", "--ntasks-per-node=1"], place, SLURM_CONF=slurm.environment["SLURM_CONF"]).check_all()


def torchrun(place):
    if not shutil.which("torchrun"):
        raise Skipped("no torchrun (PyTorch)")
    launch = ["torchrun", "--no_python", "--nproc_per_node"]  # releases before 2.0 also understand this form
    if subprocess.run([*launch, "1", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("this torchrun cannot start anything")  # such as 1.13 with Python 3.11
    Job([*launch, str(RANKS)], [*launch, "1"], place).check_all()


def main():
    with tempfile.TemporaryDirectory() as place:
        {"mpirun": mpirun, "srun": srun, "torchrun": torchrun}[CASE](place)


run_checks(main)
