"""By default a sample tells of what the CUDA driver allocates of the heap for itself, and libraries as they start:
driver_heap.py … PROGRAM DRIVER CASE

beside: the program's own blocks are exact beside it, and so are the heap's totals. released: what the driver frees is gone. full: with
--host full each block is there. many: the estimates lie within their errors. starts: as beside, where a library that the program is
linked with takes as much as it starts.
"""
import os
import subprocess
import sys

from common import GPUPEAK, expect, expect_nothing_dropped, record, report, run_case

PROGRAM, DRIVER, CASE = sys.argv[3:]
DRIVERS_BLOCKS = 80_000
DRIVERS_BYTES = sum(16 + i % 100 for i in range(DRIVERS_BLOCKS))
OWN = {"site_before": 100_000, "site_within": 100_000}
USABLE = "host.kind.heap.usable_peak_bytes"


TAKER = "take_at_start" if CASE == "starts" else "take_host_blocks"


def run(folder, *arguments, **variables):
    log = os.path.join(folder, "x.gplog")
    record(log, PROGRAM, *arguments, LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_HOST_BLOCKS=str(0 if CASE == "starts" else DRIVERS_BLOCKS), **variables)
    summary = report(log)
    expect_nothing_dropped(summary)
    quality = summary["quality"]
    expect(quality["exact"] and not quality["warnings"], f"by design nothing is lost: {quality}")
    return log, summary


def by_function(summary):
    """What each function of the program and of the driver holds of the heap at its peak: bytes and error."""
    (peak,) = [p for p in summary["peaks"] if p["scope"] == "host/heap"]
    expect(sum(h["bytes"] for h in peak["holders"]) + peak["other_bytes"] == peak["bytes"], "holders are not the peak")
    found = {}
    for holder in peak["holders"]:
        names = [frame.get("function") or "" for frame in holder.get("stack", [])]
        name = next((name for name in ("site_before", "site_within", TAKER) if any(name in one for one in names)), None)
        if name:
            bytes_, error = found.get(name, (0, 0))
            found[name] = bytes_ + holder["bytes"], error + holder.get("error_bytes", 0)
    return found


def case_beside(folder):
    log, summary = run(folder)
    found = by_function(summary)
    for site, bytes_ in OWN.items():
        expect(found[site] == (bytes_, 0), f"{site} is exact: {found}")
    estimate, error = found[TAKER]
    expect(error > 0 and abs(estimate - DRIVERS_BYTES) <= 4 * error, f"{estimate} ± {error} of {DRIVERS_BYTES}")
    said = subprocess.run([GPUPEAK, "report", log], capture_output=True, text=True, check=True).stdout
    expect("small heap blocks of CUDA's calls and as libraries start: a sample of one in 64.0 KiB" in said, f"what was sampled is not said: {said}")
    sampled_bytes = os.path.getsize(log)
    _, full = run(folder, GPUPEAK_HOST="full")
    for name in (USABLE, "host.kind.heap.alloc_count"):
        expect(summary["metrics"][name] == full["metrics"][name], f"{name}: {summary['metrics'][name]}, in full {full['metrics'][name]}")
    expect(sampled_bytes < 0.8 * os.path.getsize(log), "each block was logged")


case_starts = case_beside


def case_released(folder):
    _, summary = run(folder, "release")
    live = summary["metrics"]["host.kind.heap.live_bytes"]
    _, full = run(folder, "release", GPUPEAK_HOST="full")
    exact = full["metrics"]["host.kind.heap.live_bytes"]
    expect(abs(live - exact) < DRIVERS_BYTES / 10, f"{live} bytes are left, in full {exact}")


def case_full(folder):
    _, summary = run(folder, GPUPEAK_HOST="full")
    for site, bytes_ in {**OWN, "take_host_blocks": DRIVERS_BYTES}.items():
        found, error = by_function(summary)[site]
        expect(bytes_ <= found < bytes_ + 4096 and error == 0, f"every block of {site}: {by_function(summary)}")


def case_many(folder):
    estimates, within = [], 0
    for _ in range(40):
        estimate, error = by_function(run(folder)[1])["take_host_blocks"]
        estimates.append(estimate)
        within += abs(estimate - DRIVERS_BYTES) <= error
    off = sum(estimates) / len(estimates) - DRIVERS_BYTES
    print(f"{within} of 40 within their errors, {off:+.0f} of {DRIVERS_BYTES} bytes off on average")
    expect(within >= 34, f"{within} of 40 estimates lie within their errors")
    expect(abs(off) <= 4 * (65536 * DRIVERS_BYTES / 40) ** 0.5, f"{off} bytes off on average")


run_case(globals()[f"case_{CASE}"])
