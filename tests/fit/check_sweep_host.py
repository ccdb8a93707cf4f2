#!/usr/bin/env python3
"""gpupeak sweep --of host: against what the kernel says was resident of the same programs.

usage: check_sweep_host.py GPUPEAK
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

gpupeak = sys.argv[1]
MIB = 1 << 20
LOAD = """
import os, sys
def touch(mib):
    block = bytearray(mib << 20)
    block[::4096] = bytes(len(block[::4096]))
    return block
count, kind = int(sys.argv[1]), sys.argv[2]
if kind == "forks" and os.fork() == 0:
    touch(count)
    os._exit(0)
block = touch(count)
if kind == "forks":
    os.wait()
"""


def sweep(folder, kind, *arguments, prepare=None, code=0):
    run = subprocess.run([gpupeak, "sweep", "-q", "--json", "--of", "host", "--out", os.path.join(folder, kind), *arguments, "--",
                          sys.executable, "-c", LOAD, "{n}", kind], capture_output=True, text=True, timeout=200, preexec_fn=prepare)
    assert run.returncode == code, (arguments, run.returncode, run.stderr)
    return json.loads(run.stdout)


def check_advice(folder):
    """Where no GPU is used the sweep says how the host's memory is found out, and that works at once."""
    command = [gpupeak, "sweep", "-q", "--out", os.path.join(folder, "advice"), "-P", "n=20", "--", sys.executable, "-c", LOAD, "{n}", "plain"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200).stdout
    advice = re.search(r"--of host[\w -]*(?= asks)", said)
    assert advice, said
    followed = subprocess.run([*command[:2], *advice[0].split(), *command[2:]], capture_output=True, text=True, timeout=200)
    assert "holds a run" not in followed.stderr and "20" in followed.stdout and "no GPU memory" not in followed.stdout, followed


def truth(count):
    """The most resident of the program by itself, by the kernel."""
    with subprocess.Popen([sys.executable, "-c", LOAD, str(count), "plain"]) as process:
        return os.wait4(process.pid, 0)[2].ru_maxrss << 10


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_advice(folder)
        found = sweep(folder, "plain", "-P", "n=50:200:50", "--capacity", "400MiB", "--verify")
        runs = {run["values"]["n"]: run for run in found["runs"]}
        for count in ("50", "200"):
            run, kernel = runs[count], truth(int(count))
            assert run["memory"] == "host" and run["device"] is None, run
            assert run["least_bytes"] == run["most_bytes"] == run["peak_bytes"], run
            assert abs(run["peak_bytes"] - kernel) < 12 * MIB, (run, kernel)  # the library's own is in it
        (group,) = found["groups"]
        largest = int(group["largest"])
        assert group["was_run"] and group["next_was_run"], group
        assert truth(largest) <= 400 * MIB < truth(largest + 50) + 12 * MIB, (largest, truth(largest))

        # Without a capacity: the machine's, or a container's.
        (group,) = sweep(folder, "plain", "-P", "n=50:200:50")["groups"]
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 0 < group["capacity_bytes"] <= there and re.match("this (machine|control group)", group["capacity"]), group

        # Of two processes the larger one at least, both at most.
        run = sweep(folder, "forks", "-P", "n=100")["runs"][0]
        assert 100 * MIB < run["least_bytes"] < 140 * MIB and 200 * MIB < run["most_bytes"] < 280 * MIB, run

        # A request that fails.
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        found = sweep(folder, "refused", "-P", "n=50,4000,5000", prepare=limit)
        assert [run["status"] for run in found["runs"]] == ["done", "out_of_memory", "not_run"], found

        wrong = subprocess.run([gpupeak, "sweep", "--of", "host", "--gpu", "T4", "-P", "n=1", "--", "true", "{n}"], capture_output=True, text=True)
        assert wrong.returncode == 2 and "--capacity" in wrong.stderr, wrong


main()
