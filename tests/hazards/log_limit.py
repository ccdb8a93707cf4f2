#!/usr/bin/env python3
"""A log that has reached its limit goes on as a sample of the heap: what was live by then stays exact, and so does what is counted.

usage: log_limit.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from counters import set_file_bytes
from common import environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE, PROGRAM = sys.argv[3:5]
EARLY, KEPT, EARLY_BYTES = 1000, 100, 1000
SLACK = 64 << 10  # of a thread's counters
SAMPLE = {"GPUPEAK_SAMPLE": "64KiB"}


def run(folder, mode, limit, **more):
    for log in logs(folder):
        os.unlink(log)
    done = subprocess.run([PROGRAM, mode], env=environment(folder, True, **{"GPUPEAK_HOST": "full", "GPUPEAK_LOG_MAX": limit, **SAMPLE, **more}), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    expect(done.returncode == 0 and done.stderr == b"", f"the program: {done}")
    return logs(folder)


def codes(summary):
    return [w["code"] for w in summary["quality"]["warnings"]]


def check_sampled(summary, log, most_bytes=3 << 20):
    """Whatever was recorded makes sense, and says what it is."""
    expect("GP033" in codes(summary) and not summary["quality"]["exact"], f"the limit is not said: {summary['quality']}")
    expect("GP028" not in codes(summary), f"events contradict each other: {summary['quality']}")
    expect_nothing_dropped(summary)
    expect(os.path.getsize(log) < most_bytes, f"the log has {os.path.getsize(log)} bytes")
    text = subprocess.run([sys.argv[2], "report", "--short", log], stdout=subprocess.PIPE, check=True).stdout.decode()
    expect("reached its limit" in text.splitlines()[0], f"the first line is not of the limit: {text}")


def check_early(summary):
    """What was live at the limit is known to the byte in the end: its frees were recorded."""
    rows = [r for r in summary["live_at_exit"] if any(f.get("function") == "early" for f in r["stack"])]
    expect(sum(r["bytes"] for r in rows) == KEPT * EARLY_BYTES, f"{KEPT} blocks of {EARLY_BYTES} are live: {summary['live_at_exit']}")
    expect(all(r.get("error_bytes") is None for r in rows), f"exact blocks are called estimates: {rows}")
    left = [r for r in summary["live_at_exit"] if any(f.get("function") in ("churn", "late_peak") for f in r["stack"])]
    expect(not left, f"what was freed is live: {left}")


def check_totals(limited, whole, threads):
    a, b = limited["metrics"], whole["metrics"]
    expect(whole["quality"]["exact"], f"without a limit: {whole['quality']}")
    name = "host.kind.heap.alloc_count"
    expect(a[name] == b[name], f"{name}: {a[name]}, without the limit {b[name]}")
    name = "host.kind.heap.usable_peak_bytes"
    if threads == 1:
        expect(abs(a[name] - b[name]) <= SLACK, f"{name}: {a[name]}, without the limit {b[name]}")
        name = "host.kind.mmap_anon.peak_bytes"
        expect(a[name] == b[name], f"{name}: {a[name]}, without the limit {b[name]}")


def one_or_more(mode, threads):
    with tempfile.TemporaryDirectory() as folder:
        (log,) = run(folder, mode, "off")
        whole = report(log)
        (log,) = run(folder, mode, "1MiB")
        limited = report(log)
        check_sampled(limited, log)
        check_early(limited)
        check_totals(limited, whole, threads)
        expect(limited["quality"]["unknown_heap_frees"] == 0, f"frees of unknown blocks: {limited['quality']}")


def case_one():
    one_or_more("one", 1)


def case_threads():
    one_or_more("threads", 5)


def case_forked():
    """A child begins its own log, with its own limit; of what it inherits nothing is known, and nothing guessed."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(folder, "forked", "1MiB", GPUPEAK_CHILDREN="all")
        expect(len(found) == 2, f"two logs expected: {found}")
        for log in found:
            summary = report(log)
            check_sampled(summary, log)
            if "GP014" not in codes(summary):  # the parent's
                check_early(summary)
                expect(summary["quality"]["unknown_heap_frees"] == 0, f"{summary['quality']}")
            else:
                expect(summary["quality"]["unknown_heap_frees"] == 0, f"its own blocks are unknown: {summary['quality']}")


def grown_to(size, folder, **more):
    """Run of a program whose log somebody else makes `size` bytes long, by a hole, before it goes on."""
    for log in logs(folder):
        os.unlink(log)
    program = subprocess.Popen([PROGRAM, "waits"], env=environment(folder, True, GPUPEAK_HOST="full", **SAMPLE, **more), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    expect(program.stdout.readline() == b"ready\n", "the program is not ready")
    (log,) = logs(folder)
    os.truncate(log, size + (64 << 20))
    set_file_bytes(log, size)
    _, said = program.communicate(b"x")
    expect(program.returncode == 0 and said == b"", f"exit {program.returncode}: {said}")
    return report(log), log


def case_default():
    """The limit is 1 GiB where nobody sets one, and where nonsense is set; `off` means none."""
    with tempfile.TemporaryDirectory() as folder:
        summary, _ = grown_to((1 << 30) - (8 << 20), folder)
        expect("GP033" not in codes(summary) and summary["quality"]["exact"], f"below the limit: {summary['quality']}")
        summary, log = grown_to(1 << 30, folder)
        check_sampled(summary, log, (1 << 30) + (4 << 20))
        check_early(summary)
        summary, _ = grown_to(1 << 30, folder, GPUPEAK_LOG_MAX="off")
        expect("GP033" not in codes(summary) and summary["quality"]["exact"], f"without a limit: {summary['quality']}")


def case_bounded():
    """The sample of a full log gets no thinner than an estimate of the peak allows: its mean is a sixteenth of it at most, or 512 KiB."""
    with tempfile.TemporaryDirectory() as folder:
        (log,) = run(folder, "threads", "64KiB", GPUPEAK_HOST="auto", GPUPEAK_SAMPLE="")
        peak = report(log)["metrics"]["host.kind.heap.usable_peak_bytes"]
        dump = subprocess.run([sys.argv[2], "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        means = [int(mean) for mean in re.findall(r"sampling bytes (\d+)", dump)]
        expect(means and max(means) <= max(peak // 16, 512 << 10), f"means up to {max(means, default=0)}, of a peak of {peak}")


run_checks(globals()[f"case_{CASE}"])
