#!/usr/bin/env python3
"""By default a program that allocates much goes over to a sample of its small heap blocks: its totals stay exact, each figure says how exact it is,
and what sites hold lies within the error that is given.

usage: heap_auto.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import os
import statistics
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import environment, expect, expect_nothing_dropped, logs, report, run_checks

GPUPEAK, CASE, PROGRAM = sys.argv[2:5]
SLACK = 64 << 10  # of a thread's counters
LARGE = 20 * 100000
EARLY = {"GPUPEAK_LOG_MAX": "256KiB"}  # the sample begins when half of that is written
RUNS = 100
USABLE = "host.kind.heap.usable_peak_bytes"


def run(folder, *arguments, **variables):
    for log in logs(folder):
        os.unlink(log)
    done = subprocess.run([PROGRAM, *arguments], env=environment(folder, True, **variables), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    expect(done.returncode == 0 and done.stderr == b"", f"the program: {done}")
    (log,) = logs(folder)
    return log, {f"site_{line.split()[1]}": int(line.split()[2]) for line in done.stdout.decode().splitlines()}


def summary_of(log, sampled):
    summary = report(log)
    quality = summary["quality"]
    expect_nothing_dropped(summary)
    expect(quality["exact"] and not quality["warnings"], f"by design nothing is lost: {quality}")
    expect(quality["unknown_heap_frees"] == 0 and quality["repairs"] == 0, f"events that do not fit: {quality}")
    expect(("heap_sample_bytes" in quality) == sampled, f"is it a sample? {quality}")
    return summary


def by_function(summary, scope="host/heap"):
    """What functions of the program hold at the peak: bytes and error."""
    (peak,) = [p for p in summary["peaks"] if p["scope"] == scope]
    found = {}
    for holder in peak["holders"]:
        for frame in holder["stack"]:
            name = frame.get("function") or ""
            if name.startswith("site_") or name == "large":
                bytes_, error = found.get(name, (0, 0))
                found[name] = (bytes_ + holder["bytes"], error + holder.get("error_bytes", 0))
                break
    return found, peak


def case_few():
    """Few blocks are all recorded, and the report is that of --host full."""
    with tempfile.TemporaryDirectory() as folder:
        log, _ = run(folder, "few")
        default = summary_of(log, sampled=False)
        log, _ = run(folder, "few", GPUPEAK_HOST="full")
        full = summary_of(log, sampled=False)
        heap = {k: v for k, v in default["metrics"].items() if ".heap." in k or k == "host.peak_bytes"}
        expect(heap == {k: full["metrics"][k] for k in heap}, f"{heap} and {full['metrics']}")
        text = subprocess.run([GPUPEAK, "report", "--short", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        expect("±" not in text, f"no figure is an estimate: {text}")


def case_totals():
    """High-water marks and counts are exact beside the sample, with one thread to the byte."""
    with tempfile.TemporaryDirectory() as folder:
        for mode, slack in (("sites", 0), ("threads", 5 * SLACK)):
            log, _ = run(folder, mode, GPUPEAK_HOST="full")
            full = summary_of(log, sampled=False)["metrics"]
            log, _ = run(folder, mode, **EARLY)
            summary = summary_of(log, sampled=True)
            auto = summary["metrics"]
            if mode == "sites":
                expect(auto["host.kind.heap.alloc_count"] == full["host.kind.heap.alloc_count"], "the number of allocations")
                expect(abs(auto[USABLE] - full[USABLE]) <= slack, f"usable peak {auto[USABLE]}, in full {full[USABLE]}")
            expect(auto["host.kind.heap.peak_bytes"] == auto[USABLE], "the heap's peak is the exact counter's")
            error = summary["metric_errors"]["host.peak_bytes"]
            expect(abs(auto["host.peak_bytes"] - full["host.peak_bytes"]) <= 2 * error + slack,
                   f"host peak {auto['host.peak_bytes']} ± {error}, in full {full['host.peak_bytes']}")


def case_holders():
    """Over many runs 95 of 100 sites lie within their errors, and none is off on average; large blocks are exact."""
    with tempfile.TemporaryDirectory() as folder:
        estimates, within, seen = {}, 0, 0
        for _ in range(RUNS):
            log, truth = run(folder, "sites", **EARLY)
            summary = summary_of(log, sampled=True)
            found, peak = by_function(summary)
            expect(found["large"] == (LARGE, 0), f"large blocks are exact: {found['large']}")
            expect(sum(h["bytes"] for h in peak["holders"]) + peak["other_bytes"] == peak["bytes"], "holders are not the peak")
            for site, bytes_ in truth.items():
                estimate, error = found.get(site, (0, 0))
                estimates.setdefault(site, []).append(estimate)
                if error > 0:
                    seen += 1
                    within += abs(estimate - bytes_) <= error
        told = subprocess.run([GPUPEAK, "report", log], capture_output=True, text=True, check=True).stdout
        rows = re.findall(r"^.* (≥?)\d[\d ]*  site_.*?( ± .*)?$", told, re.M)
        expect(rows and all(bool(least) == bool(error) for least, error in rows), f"what stands for others is not counted: {told}")
        mean = summary["quality"]["heap_sample_bytes"]
        for site, values in estimates.items():
            off = statistics.mean(values) - truth[site]
            expect(abs(off) <= 5 * (mean * truth[site] / RUNS) ** 0.5, f"{site}: {off} of {truth[site]} bytes off on average")
        print(f"{within} of {seen} estimates lie within their errors")
        expect(within >= 0.95 * seen > 0, f"{within} of {seen} estimates lie within their errors")
        expect(within < seen, "an error that is never exceeded says nothing")


def case_screen():
    """Each figure of the host says how exact it is, and no alarm is raised."""
    with tempfile.TemporaryDirectory() as folder:
        log, _ = run(folder, "sites", **EARLY)
        text = subprocess.run([GPUPEAK, "report", "--short", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        expect("NOT EXACT" not in text and "no record lost" in text, f"by design: {text}")
        # Where the sample comes to more than there was, what is known exactly stands behind it.
        told = re.search(r"MiB ± \d+ %( \(at most [\d.]+ MiB by exact counters\))? of (host memory|heap and mappings)", text)
        expect(told, f"the peak does not say how exact it is: {text}")
        expect("(exact)" in text and "Peak host heap (usable): " in text, f"the heap's total does not say that it is exact: {text}")
        expect("small heap blocks: a sample of one in " in text, f"what was sampled is not said: {text}")
        check = subprocess.run([GPUPEAK, "check", log, "--max", "host.peak_bytes=1GiB", "--max", f"{USABLE}=1GiB"], stdout=subprocess.PIPE, check=True)
        first, second = check.stdout.decode().splitlines()
        expect("± " not in first and "in usable bytes by exact counters" in first, f"no estimate is judged where there are counters: {first}")
        expect("± " not in second, f"exact: {second}")


def case_bounded():
    """What a sample adds to a log grows with the root of what the program allocates."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for mib in ("256", "1024"):
            log, _ = run(folder, "churn", mib, GPUPEAK_SAMPLE="256B", **dict(EARLY, GPUPEAK_LOG_MAX="64MiB"))
            sizes.append(os.path.getsize(log))
            summary_of(log, sampled=True)
        print(f"logs of {sizes[0]} and {sizes[1]} bytes")
        expect(sizes[1] < 2.5 * sizes[0], f"four times as much allocated: {sizes[0]} → {sizes[1]} bytes")


def case_deep():
    """Where each block has a stack of its own a sample costs as much as all the rest: it gets thinner, and says so."""
    with tempfile.TemporaryDirectory() as folder:
        log, truth = run(folder, "deep")
        summary = summary_of(log, sampled=True)
        mean = summary["quality"]["heap_sample_bytes"]
        expect(64 << 10 < mean <= 512 << 10, f"a sample of one in {mean}")
        estimate, error = by_function(summary)[0]["site_deep"]
        expect(error > 0 and abs(estimate - truth["site_deep"]) <= 4 * error, f"{estimate} ± {error} of {truth}")
        log, _ = run(folder, "deep", GPUPEAK_SAMPLE="64KiB")
        mean = summary_of(log, sampled=True)["quality"]["heap_sample_bytes"]
        expect(mean == 64 << 10, f"a mean that was asked for is kept: {mean}")


run_checks(globals()[f"case_{CASE}"])
