#!/usr/bin/env python3
"""Compares what the log says of a torture program with the ground truth that the program kept.

usage: check.py LIBGPUPEAK GPUPEAK ordered|turns|racing|limited PROGRAM
       check.py LIBGPUPEAK GPUPEAK handover PROGRAM [HAND_OVERS]
"""
import ctypes
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE, PROGRAM = sys.argv[3:5]
HAND_OVERS = sys.argv[5] if len(sys.argv) > 5 else "10000000"
OTHERS = 96 << 10  # what libc, the loader and the threads' own structures hold, at most


def run(folder, *arguments, **variables):
    variables = {"GPUPEAK_HOST": "full", **variables}  # each event counts here
    done = subprocess.run([PROGRAM, *arguments], env=environment(folder, True, **variables), cwd=folder, timeout=300,
                          stdout=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"{PROGRAM} gives {done.returncode}")
    found = logs(folder)
    expect(len(found) == 1, f"one log expected, there are {len(found)}")
    summary = report(found[0])
    expect_nothing_dropped(summary)
    for trouble in ("repairs", "unknown_heap_frees"):
        expect(summary["quality"][trouble] == 0, f"{summary['quality'][trouble]} {trouble}")
    return done.stdout.decode(), found[0], summary


def check_peak(summary, peak, sites):
    """The peak, and to the byte what each site holds of it."""
    (host,) = [p for p in summary["peaks"] if p["scope"] == "host"]
    heap = summary["metrics"]["host.kind.heap.peak_bytes"]
    expect(peak <= heap <= peak + OTHERS, f"heap peak {heap}, in truth {peak} and what libc holds")
    held = {}
    for holder in host["holders"]:
        for frame in holder["stack"]:
            name = re.search(r"site<\d+u>", frame["function"] or "")
            if name:
                held[name[0]] = held.get(name[0], 0) + holder["bytes"]
                break
    held = {name: bytes_held for name, bytes_held in held.items() if bytes_held}
    expect(held == sites, f"at the peak sites hold {held}, in truth {sites}")


def true_peak(steps):
    """Of steps in true order: the first largest sum, and what each site holds then."""
    live, sites, total, peak, at_peak = {}, {}, 0, 0, {}
    for kind, site, address, moved, size in steps:
        if kind != "m":
            old_site, old_size = live.pop(address)
            sites[old_site] -= old_size
            total -= old_size
        if kind != "f":
            live[address if kind == "m" else moved] = (site, size)
            sites[site] = sites.get(site, 0) + size
            total += size
        if total > peak:
            peak, at_peak = total, dict(sites)
    return peak, {f"site<{site}u>": size for site, size in at_peak.items() if size}


def logged_steps(log):
    """The log's heap events in replayed order, in the form of the program's own list."""
    dump = subprocess.run([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
    begun = {}
    for slot, event in re.findall(r"^\+\S+ slot (\d+) tid \d+ ((?:alloc|free|realloc_\w+) .*)$", dump, re.M):
        words = event.split()
        if words[0] == "alloc":
            yield "m", words[1], None, int(words[3])
        elif words[0] == "free":
            yield "f", words[1], None, 0
        elif words[0] == "realloc_begin":
            begun[slot] = words[1]
        elif words[0] == "realloc_end":
            yield "r", begun.pop(slot), words[1], int(words[3])


def has_membarrier():
    query, private_expedited = 0, 1 << 3
    supported = ctypes.CDLL(None).syscall(324, query, 0)
    return supported > 0 and supported & private_expedited != 0


def turns(folder):
    """The same where threads are the only one to log for a while, and do without stamps then."""
    log = ordered(folder, "long turns")
    if not has_membarrier():
        print("the system has no membarrier: every event is stamped")
        return
    dump = subprocess.run([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
    last, unstamped = {}, {}
    for time, slot in re.findall(r"^\+(\S+) slot (\d+) tid \d+ (?:alloc|free) ", dump, re.M):
        unstamped[slot] = unstamped.get(slot, 0) + (last.get(slot) == time)
        last[slot] = time
    without = [slot for slot, count in unstamped.items() if count > 1000]
    expect(len(without) >= 2, f"events without a stamp, by slot: {unstamped}")


def ordered(folder, *how):
    """Every step is replayed in the order in which it happened."""
    truth = os.path.join(folder, "steps")
    _, log, summary = run(folder, truth, *how)
    with open(truth) as lines:
        steps = [(kind, int(site), address, moved, int(size))
                 for kind, site, address, moved, size in (line.split() for line in lines)]
    true_order = [(kind, address, moved if kind == "r" else None, size) for kind, _, address, moved, size in steps]
    logged = list(logged_steps(log))
    begin = next(i for i in range(len(logged)) if logged[i:i + 3] == true_order[:3])
    swapped = [i for i, (a, b) in enumerate(zip(logged[begin:], true_order)) if a != b]
    expect(len(logged) - begin >= len(steps), f"{len(logged) - begin} steps in the log, {len(steps)} in truth")
    expect(not swapped, f"{len(swapped)} of {len(steps)} steps stand elsewhere in the log, first: " +
           "; ".join(f"{i}: {logged[begin + i]}, in truth {true_order[i]}" for i in swapped[:2]))
    check_peak(summary, *true_peak(steps))
    print(f"{len(steps)} steps replayed in their true order")
    return log


def racing(folder):
    output, _, summary = run(folder)
    peak = int(re.search(r"truth heap_peak (\d+)", output)[1])
    check_peak(summary, peak, {name: int(size) for name, size in re.findall(r"(site<\d+u>) (\d+)", output)})
    print(f"peak of {peak} bytes of racing threads, and who held it: exact")


def limited(folder):
    """Racing threads turn to a sample halfway: no free is lost, and none is of a block that the log lacks."""
    _, log, summary = run(folder, GPUPEAK_LOG_MAX="2MiB", GPUPEAK_SAMPLE="4KiB")
    expect("GP033" in [w["code"] for w in summary["quality"]["warnings"]], "the limit was not reached")
    live = summary["metrics"]["host.kind.heap.live_bytes"]
    expect(live <= OTHERS, f"{live} bytes are live at the end")
    print(f"log of {os.path.getsize(log)} bytes, {live} bytes live at the end")
    os.unlink(log)
    _, log, summary = run(folder, GPUPEAK_HOST="auto", GPUPEAK_LOG_MAX="2MiB", GPUPEAK_SAMPLE="4KiB")
    quality, live = summary["quality"], summary["metrics"]["host.kind.heap.live_bytes"]
    expect(quality["heap_sample_bytes"] >= 4 << 10 and not quality["warnings"], f"no sample by design: {quality}")
    # By default the sample gets thinner where the time is short, and what is left is an estimate of a few blocks.
    mean = quality["heap_sample_bytes"]
    most = OTHERS + mean + 4 * math.sqrt(OTHERS * mean)
    expect(live <= most, f"{live} bytes are live at the end, by default, of {most:.0f} at most by a sample of {mean}")


def handover(folder):
    """Two threads that take turns, handed over in six ways: the log has their events in turn."""
    done = subprocess.run([PROGRAM, "run", HAND_OVERS], env=environment(folder, True, GPUPEAK_HOST="full"), cwd=folder, check=False)
    expect(done.returncode == 0, f"{PROGRAM} gives {done.returncode}")
    (log,) = logs(folder)
    dump = subprocess.Popen([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE)
    checked = subprocess.run([PROGRAM, "check", HAND_OVERS], stdin=dump.stdout, stdout=subprocess.PIPE, check=False)
    expect(dump.wait() == 0, "the log cannot be read")
    print(checked.stdout.decode(), end="")
    expect(checked.returncode == 0, "not in turn")


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"ordered": ordered, "turns": turns, "racing": racing, "limited": limited, "handover": handover}[CASE](folder)


run_checks(main)
