#!/usr/bin/env python3
"""`gpupeak merge`: many ranks at once, in bounded memory. Partial results give the same result, however they are grouped.

usage: merge.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER folder|partial|thousand [MAKE_RANKS]
"""
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, environment, expect, run_checks

BENCHMARK, DRIVER, CASE = sys.argv[3:6]


def merge(*arguments, code=0):
    done = subprocess.run([GPUPEAK, "merge", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{arguments[:3]}: {done.returncode}: {done.stderr}")
    return done


def record(folder, ranks):
    """The logs of so many ranks, eight in a folder."""
    logs = []
    for rank in range(ranks):
        node = os.path.join(folder, f"node{rank // 8}")
        os.makedirs(node, exist_ok=True)
        logs.append(os.path.join(node, f"rank{rank:03}.gplog"))
        env = dict(environment(node, True), GPUPEAK_OUT=logs[-1], LD_LIBRARY_PATH=DRIVER, RANK=str(rank))
        subprocess.run([BENCHMARK], env=env, stdout=subprocess.DEVNULL, check=True)
    return logs


def expect_little_memory():
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"at most {most:.0f} MiB")
    expect(most < 300, f"{most} MiB")


def folder(place):
    logs = record(place, 24)
    expect(merge("--json", place).stdout == merge("--json", *reversed(logs)).stdout, "of the folder and of its logs")
    one = os.path.dirname(logs[0])
    expect(merge(one, logs[-1]).stdout == merge(*logs[:8], logs[-1]).stdout, "a folder beside a log")
    # A file that cannot be read is named.
    for name in ("broken.gplog", "broken.gpmerge"):
        with open(os.path.join(one, name), "w", encoding="ascii") as file:
            file.write("no log")
    expect("2 files named as logs" in merge(one).stderr, "what cannot be read")
    merge("--strict", one, code=4)
    merge(os.path.join(one, "broken.gpmerge"), code=3)
    empty = os.path.join(place, "empty")
    os.mkdir(empty)
    expect("no logs in" in merge(empty, code=2).stderr, "an empty folder")


def outputs(*inputs):
    return merge(*inputs).stdout + merge("--json", *inputs).stdout


def partial(place):
    logs = record(place, 24)
    wanted = outputs(place)
    processes = json.loads(merge("--json", place).stdout)["processes"]
    expect([process["rank"] for process in processes] == list(range(24)), "processes, by their ranks")
    for process in (processes[0], processes[23]):  # one that was read first, and one whose libraries had been read before
        report = json.loads(subprocess.run([GPUPEAK, "report", "--json", "--top", "20", process["log"]], stdout=subprocess.PIPE, check=True).stdout)
        own = {peak["side"]: peak for peak in process["peaks"]}
        for side, scope in (("device", "device:0"), ("host", "host")):
            (peak,) = [peak for peak in report["peaks"] if peak["scope"] == scope]
            holders = [{"name": holder["site"], "bytes": holder["bytes"]} for holder in peak["holders"]]
            expect(own[side]["bytes"] == peak["bytes"] and own[side]["sites"] == holders, f"{side}: {own[side]} in place of {holders}")
    partials = os.path.join(place, "partials")
    os.mkdir(partials)
    for node in range(3):
        merge("--partial", os.path.join(partials, f"{node}.gpmerge"), os.path.join(place, f"node{node}"))
    expect(outputs(partials) == wanted, "a partial result of each node")
    # Partial results in any order, beside logs, and merged once more.
    several = os.path.join(place, "several")
    names = [os.path.join(partials, f"{node}.gpmerge") for node in (2, 0)]
    merge("--partial", several, *names)
    expect(outputs(several, *logs[8:16]) == wanted, "partial results made one, and logs")
    said = merge(several, *names, os.path.join(partials, "1.gpmerge"))
    expect("16 logs came more than once" in said.stderr and said.stdout == merge(place).stdout, f"twice: {said.stderr}")
    expect("given twice" in merge(logs[0], logs[0], code=2).stderr, "a log given twice is a mistake")
    # Where a partial result is written, and which files it may replace.
    merge("--partial", os.path.join(place, "of.%h.%%"), logs[0])
    expect(os.path.exists(os.path.join(place, f"of.{os.uname().nodename}.%")), f"the host's name: {os.listdir(place)}")
    merge("--partial", logs[0], logs[1], code=2)
    merge("--partial", several, "--json", logs[1], code=2)
    # A partial result with names is refused under --confidential.
    expect("without --confidential" in merge("--confidential", several, code=2).stderr, "names that are in the file already")
    hidden = os.path.join(place, "hidden")
    merge("--confidential", "--partial", hidden, logs[0])
    expect(os.path.basename(BENCHMARK) not in outputs(hidden), "a name in spite of --confidential")
    # Partial results that are cut, damaged, or of a newer version.
    with open(several, "rb") as file:
        whole = file.read()
    for bytes_ in (whole[:-1], whole[:len(whole) // 2], whole[:100] + b"x" + whole[101:], whole + b"x"):
        with open(several, "wb") as file:
            file.write(bytes_)
        said = merge(several, code=3).stderr
        expect(several in said, f"damage: {said}")
    with open(several, "wb") as file:
        file.write(whole)
    lines = subprocess.run(["zstd", "-dc", several], stdout=subprocess.PIPE, check=True).stdout.splitlines(keepends=True)
    subprocess.run(["zstd", "-q", "-f", "-o", several], input=b"".join(lines[:-1]), check=True)
    expect("15 logs of 16" in merge(several, code=3).stderr, "a log that is missing")
    newer = '{"schema":"gpupeak.partial/2","version":"9.1","logs":0}\n'
    subprocess.run(["zstd", "-q", "-f", "-o", several], input=newer, text=True, check=True)
    said = merge(several, code=3).stderr
    expect("gpupeak.partial/2" in said and "9.1" in said, f"a newer one: {said}")
    subprocess.run("head -c 100M /dev/zero | zstd -q -f -o " + several + ".gpmerge", shell=True, check=True)
    merge(several + ".gpmerge", code=3)
    expect_little_memory()


class Clock:
    """The time of a step, and its processor time, since the clock also counts what else the machine does."""

    def __init__(self):
        self.began, self.used = time.monotonic(), self.processor()

    @staticmethod
    def processor():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def __str__(self):
        return f"{time.monotonic() - self.began:.1f} s, {self.processor() - self.used:.1f} s of a processor"


def thousand(place):
    """Generated logs of 125 nodes, all with more steps than there is room for."""
    subprocess.run([sys.argv[6], place, "1000"], check=True)
    clock = Clock()
    everything = merge("--json", place).stdout
    print(f"1000 logs in {clock}")
    result = json.loads(everything)
    expect(len(result["processes"]) == 1000 and len(result["nodes"]) == 125, "what was generated")
    for node in result["nodes"]:
        (device,) = [sum for sum in node["sums"] if sum["scope"] == "device:0"]
        # Eight ranks hold a million bytes each. Each holds 500,000 more for a moment, all at different times.
        wanted = 8_500_000 + (279_000 if node["name"] == "node52" else 0)
        expect(device["peak_bytes"] == wanted and device["error_bytes"] == 0, f"{device}")
    (worst,) = {result["processes"][outlier["process"]]["rank"] for outlier in result["outliers"]}
    expect(worst == 417, f"outliers: {worst}")
    (by_site,) = [outlier for outlier in result["outliers"] if outlier["by"] == "site" and outlier["side"] == "device"]
    expect((by_site["excess_bytes"], by_site["median_bytes"], by_site["compared"]) == (279_000, 900_000, 1000), f"{by_site}")
    casualties = result["end"]["casualties"]
    expect(result["processes"][casualties[0]["process"]]["rank"] == 417 and len(casualties) == 1000, f"{casualties[0]}")
    # In two steps, the first by the job's own launcher: five tasks with 25 nodes each.
    step = 'exec "$0" merge --partial "$1/$OMPI_COMM_WORLD_RANK.gpmerge" $(seq -f "$1/node%g" $((OMPI_COMM_WORLD_RANK * 25)) $((OMPI_COMM_WORLD_RANK * 25 + 24)))'
    launch = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", "5"]
    clock = Clock()
    if shutil.which("mpirun"):
        subprocess.run([*launch, "sh", "-c", step, GPUPEAK, place], env=environment(place, False), stdin=subprocess.DEVNULL, check=True)
    else:  # Debian: openmpi-bin
        for task in range(5):
            subprocess.run(["sh", "-c", step, GPUPEAK, place], env=dict(environment(place, False), OMPI_COMM_WORLD_RANK=str(task)), check=True)
    parts = [os.path.join(place, f"{task}.gpmerge") for task in range(5)]
    bytes_ = sum(map(os.path.getsize, parts))
    print(f"five partial results in {clock}, {bytes_ / (1 << 20):.1f} MiB")
    random.Random(7).shuffle(parts)
    clock = Clock()
    expect(merge("--json", *parts).stdout == everything, "by partial results")
    print(f"merged in {clock}")
    text = merge(*parts).stdout
    expect(len(text.splitlines()) <= 50, text)
    expect("rank 417, pid 517 train on node52: cuMemAlloc_v2 asked for 2.00 GiB of GPU 0 at +60.00 s" in text, text)
    expect_little_memory()


def main():
    with tempfile.TemporaryDirectory() as place:
        {"folder": folder, "partial": partial, "thousand": thousand}[CASE](place)


run_checks(main)
