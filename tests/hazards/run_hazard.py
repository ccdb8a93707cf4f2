#!/usr/bin/env python3
"""Runs one hazard: a program with and without the preload. Nothing that a user sees may differ.

usage: run_hazard.py LIBGPUPEAK GPUPEAK CASE PROGRAM [ARGUMENT…]

Exit code 0: held; 1: did not; 77: cannot be tried on this machine.
"""
import collections
import ctypes.util
import glob
import json
import os
import pwd
import random
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import Skipped, environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE = sys.argv[3]
COMMAND = sys.argv[4:]
# By program, 0 elsewhere: one that ends too early without the preload shows nothing.
EXIT_CODES = {"hazard_much": 9, "hazard_before_and_after": 5, "hazard_exec_same_process": 6, "hazard_quick_end": 4}
ENDS_WELL = ("bus_handler", "bus_signal", "bus_named", "bus_sysv", "bus_sigset", "bus_vforked")
HEAP_OF_LIBC = 96 << 10  # what libc and the loader allocate for themselves, at most


def run(folder, preload, command=None, prepare=None, **more):
    work = tempfile.mkdtemp(dir=folder)
    done = subprocess.run(command or COMMAND, cwd=work, env=environment(folder, preload, **more), timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          preexec_fn=prepare)
    return done


def same(native, preloaded, expected=None):
    if native.returncode == 77:
        raise Skipped("the program cannot do here what it is about")
    if expected is None:
        expected = EXIT_CODES.get(os.path.basename(COMMAND[0]), 0)
    expect(native.returncode == expected, f"without the preload: exit {native.returncode}, {native.stderr!r}")
    for what in ("returncode", "stdout", "stderr"):
        a, b = getattr(native, what), getattr(preloaded, what)
        expect(a == b, f"{what} differs: {a!r} without, {b!r} with the preload")


def plain(folder, prepare=None, command=None, **more):
    """Same behaviour, and a log that replays without a contradiction."""
    native = run(folder, False, command, prepare)
    preloaded = run(folder, True, command, prepare, **more)
    same(native, preloaded)
    found = logs(folder)
    expect(len(found) == 1, f"one log expected, there are {len(found)}")
    summary = report(found[0])
    expect_nothing_dropped(summary)
    check_truths(preloaded.stdout.decode(errors="replace"), summary)
    return summary


def check_truths(output, summary):
    metrics = summary["metrics"]
    for name, value in re.findall(r"truth (\w+) (\d+)", output):
        value = int(value)
        if name == "heap_peak":
            heap = metrics["host.kind.heap.peak_bytes"]
            expect(value <= heap <= value + HEAP_OF_LIBC, f"heap peak {heap}, in truth {value}")
        elif name == "heap_peak_at_least":
            expect(metrics["host.kind.heap.peak_bytes"] >= value, f"heap peak {metrics['host.kind.heap.peak_bytes']} < {value}")
        elif name in ("about_peak", "about_live"):
            heap = metrics[f"host.kind.heap.{name[6:]}_bytes"]
            expect(0.8 * value < heap < 1.2 * value, f"{name}: {heap}, in truth {value}")
        elif name == "mmap_anon_live":
            live = metrics["host.live_bytes"] - metrics["host.kind.heap.live_bytes"]  # there is no third kind
            expect(live == value, f"{live} bytes of anonymous mappings live, in truth {value}")
        elif name == "mmap_anon_peak":
            peak = metrics["host.kind.mmap_anon.peak_bytes"]
            expect(peak == value, f"peak of anonymous mappings {peak}, in truth {value}")


def no_repairs(summary):
    codes = [w["code"] for w in summary["quality"]["warnings"]]
    expect("GP028" not in codes, f"events contradict each other: {summary['quality']['warnings']}")
    expect("GP005" not in codes, f"events make no sense: {summary['quality']['warnings']}")


def case_plain(folder):
    no_repairs(plain(folder))


case_limits_setrlimit = case_limits_prlimit = case_limits_forked = case_plain


def case_bus_error(folder):
    """A SIGBUS of the program's own ends in what the program wants, and it finds the actions that it set."""
    native, preloaded = run(folder, False), run(folder, True)
    same(native, preloaded, 0 if CASE in ENDS_WELL else -signal.SIGBUS)
    (log,) = logs(folder)
    report(log)


for mode in ("died", "raised", "handler", "once", "signal", "named", "sysv", "sigset", "ignored", "vforked", "restored"):
    globals()["case_bus_" + mode] = case_bus_error


def case_no_tsc(folder):
    """The clock changes in the middle of the log: nothing is lost, nor out of order."""
    summary = plain(folder)
    no_repairs(summary)
    expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "the peak after the change is missing")
    expect(summary["quality"]["dropped_events"] == 0 and summary["quality"]["exact"], f"{summary['quality']}")


def case_confined(folder):
    """What a thread does after strict seccomp is not recorded, and said; all else is."""
    native, preloaded = run(folder, False), run(folder, True)
    same(native, subprocess.CompletedProcess([], preloaded.returncode, preloaded.stdout, b""))
    lines = preloaded.stderr.decode().splitlines()
    expect(len(lines) == 1 and "strict seccomp" in lines[0], f"stderr: {lines}")
    summary = report(logs(folder)[0])
    expect("GP009" in [w["code"] for w in summary["quality"]["warnings"]], f"not counted: {summary['quality']}")
    if len(COMMAND) == 1:
        expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "the other thread's peak is missing")


case_confined_alone = case_confined


def case_dispatched(folder):
    """The handler of a thread whose system calls are dispatched sees none of ours. That it is not recorded is said."""
    native, preloaded = run(folder, False), run(folder, True)
    if b"no dispatch" in native.stdout:
        raise Skipped("no Syscall User Dispatch")
    same(native, subprocess.CompletedProcess([], preloaded.returncode, preloaded.stdout, b""))
    lines = preloaded.stderr.decode().splitlines()
    expect(len(lines) == 1 and "dispatched" in lines[0], f"stderr: {lines}")
    summary = report(logs(folder)[0])
    expect("GP009" in [w["code"] for w in summary["quality"]["warnings"]], f"not counted: {summary['quality']}")
    expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "what came before is missing")


case_dispatched_to_the_end = case_dispatched


def case_filtered(folder):
    """A filter that ends the program for what recording takes: nothing is recorded any more, and that is said."""
    off = CASE.startswith("filtered_off")
    native = run(folder, False)
    preloaded = run(folder, True, GPUPEAK_CHILDREN="all", **({"GPUPEAK_HOST": "off"} if off else {}))
    same(native, subprocess.CompletedProcess([], preloaded.returncode, preloaded.stdout, b""))
    lines = preloaded.stderr.decode().splitlines()
    expect(len(lines) == 1 and "filter of system calls" in lines[0], f"stderr: {lines}")
    summary = report(logs(folder)[0])
    expect("GP007" in [w["code"] for w in summary["quality"]["warnings"]], f"not said: {summary['quality']}")
    if not off:
        expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "the peak before is missing")


for way in ("prctl", "call"):
    globals()[f"case_filtered_by_{way}"] = globals()[f"case_filtered_off_by_{way}"] = case_filtered


def reads_tsc(log):
    """Whether the library has taken time stamps by the TSC, and not by the kernel's clock."""
    with open(log, "rb") as file:
        file.seek(40)  # `clock` of the file header
        return struct.unpack("<I", file.read(4))[0] != 0


def case_bare_tsc(folder):
    """A limit, docs/accuracy.md names it: who takes the TSC away by a bare system call is ended by the next time stamp. The log
    holds what came before."""
    native, preloaded = run(folder, False), run(folder, True)
    expect(native.returncode == 0 or native.returncode == 77, f"without the preload: {native}")
    if native.returncode == 77:
        raise Skipped("the program cannot do here what it is about")
    (log,) = logs(folder)
    summary = report(log)
    expected = -signal.SIGSEGV if reads_tsc(log) else 0
    expect(preloaded.returncode == expected, f"with the preload: {preloaded}, not {expected}")
    expect(summary["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "what came before is missing")
    unharmed(folder)


def unharmed(folder):
    same(run(folder, False), run(folder, True, GPUPEAK_HOST="off"))


def case_bare_strict(folder):
    """The same limit for strict seccomp. Where the TSC is not read, asking for the time may be the forbidden system call, or none: that is the
    kernel's clock's business."""
    native, preloaded = run(folder, False), run(folder, True)
    if native.returncode == 77:
        raise Skipped("the program cannot do here what it is about")
    expect(native.returncode == 0, f"without the preload: {native}")
    allowed = (-signal.SIGSEGV, -signal.SIGKILL) if reads_tsc(logs(folder)[0]) else (-signal.SIGSEGV, -signal.SIGKILL, 0)
    expect(preloaded.returncode in allowed, f"with the preload: {preloaded}")
    expect(report(logs(folder)[0])["metrics"]["host.kind.heap.peak_bytes"] >= 50000000, "what came before is missing")
    unharmed(folder)


def case_threads(folder):
    no_repairs(plain(folder))
    size = os.path.getsize(logs(folder)[0])
    expect(size < 8 << 20, f"2,000 short threads made a log of {size} bytes")


def case_signals(folder):
    plain(folder)  # calls inside our own work are passed through and counted: no word on repairs


def case_fork(folder):
    """The parent's peak holds nothing of the children's 64 MiB."""
    summary = plain(folder)
    peak = summary["metrics"]["host.kind.heap.peak_bytes"]
    expect(peak < 8 << 20, f"the parent's heap peak is {peak}")


def case_beside(folder):
    """Children that begin while other threads have locks of the loader, of libc and of ours end as they do by themselves, in each host
    mode, and each has its log."""
    native = run(folder, False)
    children = int(COMMAND[-1])
    for mode in ("full", "auto", "sampled", "counters", "off"):
        out = os.path.join(folder, mode + ".%p.gplog")
        same(native, run(folder, True, GPUPEAK_CHILDREN="all", GPUPEAK_HOST=mode, GPUPEAK_OUT=out))
        found = glob.glob(os.path.join(folder, mode + ".*.gplog"))
        expect(len(found) == children + 1, f"{mode}: {children + 1} logs expected, there are {len(found)}")
        report(found[0])


case_beside_fork = case_beside_vfork = case_beside_clone = case_beside_spawn = case_beside


def case_exec(folder):
    native, preloaded = run(folder, False), run(folder, True)
    same(native, preloaded)
    kept = [log for log in logs(folder) if ".before" not in log]  # what took a second, on a slow machine, is put aside
    expect(len(kept) == 1, f"one log expected: {logs(folder)}")
    peak = report(kept[0])["metrics"]["host.kind.heap.peak_bytes"]
    expect(2000000 <= peak < 2100000, f"peak {peak}")


def case_children_all(folder):
    """With GPUPEAK_CHILDREN=all forked children have logs of their own, which say what they do not know."""
    native = run(folder, False)
    preloaded = run(folder, True, GPUPEAK_CHILDREN="all")
    same(native, preloaded)
    expect(len(logs(folder)) == 21, f"21 logs expected, there are {len(logs(folder))}")
    for log in logs(folder):
        report(log)


def case_foreign_malloc(folder):
    summary = plain(folder)
    text = json.dumps(summary["quality"])
    expect("malloc" in text, f"the report does not say that the heap is unseen: {text}")


def case_allocators(folder, native=None, preloaded=None):
    """Whatever allocator it has: each block counts once, at the function that asked for it."""
    native = native or run(folder, False)
    preloaded = preloaded or run(folder, True)
    same(native, preloaded)
    (log,) = logs(folder)
    summary = report(log)
    expect_nothing_dropped(summary)
    no_repairs(summary)
    check_truths(preloaded.stdout.decode(), summary)
    expect(not summary["quality"]["hooks_missing"], f"not hooked: {summary['quality']['hooks_missing']}")
    metrics = summary["metrics"]
    expect(metrics["host.kind.heap.live_bytes"] < HEAP_OF_LIBC, f"{metrics['host.kind.heap.live_bytes']} bytes never freed")
    held = collections.Counter()
    (peak,) = [p for p in summary["peaks"] if p["scope"] == "host"]
    for holder in peak["holders"]:
        held[holder["site"].split(" ")[0]] += holder["bytes"]
    expected = {"by_malloc": 200, "by_new": 250, "by_nothrow_new": 50, "by_aligned_new": 100}
    for function, mib in expected.items():
        expect(held[function] == mib << 20, f"{function} holds {held[function]} bytes, not {mib} MiB: {held}")


def case_preloaded(folder):
    name = CASE.removeprefix("preloaded_").removeprefix("before_")
    library = ctypes.util.find_library(name)
    if library is None:
        raise Skipped(f"there is no lib{name}")
    ours = [sys.argv[1], library]
    preloads = reversed(ours) if CASE.startswith("preloaded_before_") else ours
    case_allocators(folder, run(folder, False, ["env", f"LD_PRELOAD={library}", *COMMAND]), run(folder, True, LD_PRELOAD=" ".join(preloads)))


for allocator in ("tcmalloc_minimal", "mimalloc", "jemalloc", "tbbmalloc_proxy", "before_jemalloc"):
    globals()["case_preloaded_" + allocator] = case_preloaded


def case_foreign_malloc_off(folder):
    """Nothing is called there either where nothing of the host is recorded."""
    plain(folder, GPUPEAK_HOST="off")


def case_sizes(folder, **more):
    """What is recorded of each block is what the allocator says that it keeps for it."""
    done = run(folder, True, **more)
    expect(done.returncode == 0 and done.stderr == b"", f"exit {done.returncode}: {done.stderr!r}")
    (log,) = logs(folder)
    dump = subprocess.run([sys.argv[2], "export", "events", log], capture_output=True, text=True, check=True).stdout
    recorded = re.findall(r"(?:alloc|realloc_end) (0x[0-9a-f]+) size \d+ usable (\d+)", dump)
    told = re.findall(r"block (0x[0-9a-f]+) (\d+)", done.stdout.decode())
    missing = collections.Counter(told) - collections.Counter(recorded)
    expect(len(told) > 2000 and not missing, f"{len(told)} blocks, not so recorded: {list(missing)[:5]}")


def case_sizes_mapped(folder):
    """Small blocks that glibc maps one by one, whose headers say other things."""
    case_sizes(folder, MALLOC_MMAP_THRESHOLD_="1000")


def case_sizes_jemalloc(folder):
    library = ctypes.util.find_library("jemalloc")
    if library is None:
        raise Skipped("there is no libjemalloc.so")
    case_sizes(folder, LD_PRELOAD=f"{sys.argv[1]} {library}")


def case_libc_names(folder):
    """Blocks that glibc's own names make and take count, in every mode; of another allocator beside it only that one's."""
    mixed = [*COMMAND, "mixed"]
    summary = plain(folder, command=mixed, GPUPEAK_HOST="full")
    expect(summary["metrics"]["host.kind.heap.live_bytes"] < HEAP_OF_LIBC, "blocks that were freed count")
    for mode in ("auto", "sampled", "counters", "off"):
        same(run(folder, False, mixed), run(folder, True, mixed, GPUPEAK_HOST=mode))
    library = ctypes.util.find_library("jemalloc")
    if library is None:
        raise Skipped("there is no libjemalloc.so")
    beside = os.path.join(folder, "beside")
    os.mkdir(beside)
    same(run(folder, False, ["env", f"LD_PRELOAD={library}", *COMMAND]), run(beside, True, LD_PRELOAD=f"{sys.argv[1]} {library}", GPUPEAK_HOST="full"))
    (log,) = logs(beside)
    heap = report(log)["metrics"]["host.kind.heap.peak_bytes"]
    expect(20 << 20 <= heap < 21 << 20, f"{heap} bytes of the other allocator's 20 MiB")


def case_sizes_memcheck(folder):
    if shutil.which("valgrind") is None:
        raise Skipped("there is no valgrind")
    # Its allocator has nothing before a block. It would replace our functions as well, but for the option.
    program = ["valgrind", "-q", "--error-exitcode=9", "--soname-synonyms=somalloc=nouserintercepts", *COMMAND]
    done = run(folder, True, program)
    expect(done.returncode == 0 and done.stderr == b"", f"exit {done.returncode}: {done.stderr!r}")


def case_debugged(folder):
    """glibc's debugging allocator, preloaded behind us, is called as it is without us."""
    debugger = "libc_malloc_debug.so.0"
    trace = os.path.join(folder, "trace")
    native = subprocess.run(COMMAND, env=environment(folder, False) | dict(LD_PRELOAD=debugger, MALLOC_TRACE=trace),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if b"cannot be preloaded" in native.stderr:
        raise Skipped("this glibc has its debugging allocator within")
    preloaded = run(folder, True, LD_PRELOAD=f"{sys.argv[1]} {debugger}", MALLOC_TRACE=trace)
    same(native, preloaded)
    (log,) = logs(folder)
    no_repairs(report(log))


def case_ended(folder):
    """However the program ends, the log says that it did."""
    codes = [w["code"] for w in plain(folder)["quality"]["warnings"]]
    expect("GP002" not in codes, f"a log without an end: {codes}")


def case_kill9(folder):
    """Killed at a random instant: what was written replays."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for i in range(12):
        log = os.path.join(folder, f"{i}.gplog")
        program = subprocess.Popen(COMMAND, env=environment(folder, True, GPUPEAK_OUT=log))
        time.sleep(chance.uniform(0.02, 0.25))
        program.send_signal(signal.SIGKILL)
        program.wait()
        if not os.path.exists(log):
            continue  # killed before it began
        summary = report(log)
        no_repairs(summary)
        live = summary["metrics"]["host.peak_bytes"]
        expect(live is not None and live < 64 << 20, f"a peak of {live} cannot be")
    expect(len(logs(folder)) > 6, "too few runs wrote a log")


def case_refused(folder):
    """A request that the machine refuses is a failure, with what it asked for, the limit, and who held memory then."""
    how = COMMAND[2]
    native, preloaded = run(folder, False), run(folder, True)
    same(native, preloaded, -signal.SIGABRT if how == "thrown" else 1)
    (log,) = logs(folder)
    summary = report(log)
    expect(summary["oom_count"] == 1, f"{summary['oom_count']} failures")
    (failure,) = summary["oom"]
    api = {"new": "malloc", "thrown": "malloc"}.get(how, how)
    grown = 4096 - 250 if how == "realloc" else 4096
    expect(failure["api"] == api and failure["result"] == "ENOMEM", f"{failure['api']}: {failure['result']}")
    expect(failure["requested_bytes"] in (4096 << 20, grown << 20), f"{failure['requested_bytes']} bytes asked")
    # Its reservations were given back when the program limited its addresses.
    own = failure["host_limit"]["gpupeak_bytes"]
    expect(1 << 20 <= own < 64 << 20 if COMMAND[1] == "addresses" else own == 0, f"{own} bytes of the limit by gpupeak")
    limit = "RLIMIT_DATA" if COMMAND[1] == "data" else "RLIMIT_AS"
    expect(limit in failure["host_limit"]["name"] and failure["host_limit"]["bytes"] == 2048 << 20, f"{failure['host_limit']}")
    holder = failure["holders"][0]
    expect("load_model" in holder["site"] and holder["bytes"] == 250 << 20, f"held by {holder['site']}: {holder['bytes']}")
    text = subprocess.run([sys.argv[2], "report", "--short", log], capture_output=True, text=True, check=True).stdout
    said = f"OUT OF MEMORY on the host: 4.00 GiB asked by {api}, 250 MiB held"
    expect(any(line.endswith(said) for line in text.splitlines()[:2]), f"the first screen says {text}")  # after "log without an end"


def case_refused_goes_on(folder):
    """A program that could do without has it as a note: `run` knows how it ended."""
    log = os.path.join(folder, "a.gplog")
    done = subprocess.run([sys.argv[2], "run", "-o", log, "--", *COMMAND], capture_output=True, text=True, check=False)
    expect(done.returncode == 0 and "OUT OF MEMORY" not in done.stderr, f"exit {done.returncode}, {done.stderr}")
    expect("1 allocation was refused, and the program went on (malloc: ENOMEM)" in done.stderr, f"not told: {done.stderr}")


for way in ("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "new", "mmap", "sbrk", "data", "thrown"):
    globals()["case_refused_" + way] = case_refused


def case_resident(folder, **more):
    """What was resident at its highest has a cause; the parts add up, and next to nothing is left over."""
    native, preloaded = run(folder, False), run(folder, True, **more)
    same(native, preloaded)
    cause, truth = preloaded.stdout.decode().split()
    metrics = report(logs(folder)[0])["metrics"]
    resident = {k.removeprefix("host.resident."): v for k, v in metrics.items() if k.startswith("host.resident.")}
    total = resident.pop("total_bytes")
    expect(sum(resident.values()) == total, f"{resident} are not {total}")
    expect(total <= metrics["host.rss.peak_bytes"], f"{total} of {metrics['host.rss.peak_bytes']}")
    found = resident[cause + "_bytes"]
    expect(0.95 * int(truth) < found < 1.1 * int(truth), f"{cause}: {found}, in truth {truth}: {resident}")
    expect(resident["unexplained_bytes"] <= total // 50, f"unexplained: {resident['unexplained_bytes']} of {total}")


case_resident_arenas = case_resident_shared = case_resident


def case_resident_side_by_side(folder):
    """The same where arenas are one mapping. A heap that is only counted is not looked at while it grows, when all is in use."""
    case_resident(folder, GPUPEAK_HOST="counters")


def case_resident_forked(folder):
    """What a child has of its parent's heap is in use, and not kept by malloc."""
    native, preloaded = run(folder, False), run(folder, True, GPUPEAK_CHILDREN="all", GPUPEAK_HOST="counters")
    same(native, preloaded)
    cause, truth = preloaded.stdout.decode().split()
    metrics = max((report(log)["metrics"] for log in logs(folder)), key=lambda one: one["host.resident.total_bytes"])
    found = metrics[f"host.resident.{cause}_bytes"]
    expect(0.95 * int(truth) < found < 1.1 * int(truth), f"{cause}: {found}, in truth {truth}")


def case_full_disk(folder):
    """On a full disk the program ends as ever, and the report says that events are missing."""
    if os.geteuid() != 0:
        raise Skipped("mounting a small tmpfs needs root")
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skipped("tmpfs cannot be mounted here")
    try:
        native = run(folder, False)
        preloaded = run(folder, True, GPUPEAK_OUT=os.path.join(disk, "a.gplog"))
        same(native, preloaded)
        summary = report(os.path.join(disk, "a.gplog"))
        expect(summary["quality"]["dropped_events"] > 0, "no dropped events are reported")
        expect(not summary["quality"]["exact"], "the report calls itself exact")
    finally:
        subprocess.run(["umount", disk], check=False)


def case_file_limit(folder):
    """RLIMIT_FSIZE: growing past it would send SIGXFSZ."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    native, preloaded = run(folder, False, None, limit), run(folder, True, None, limit)
    same(native, preloaded)
    expect(report(logs(folder)[0])["quality"]["dropped_events"] > 0, "no dropped events are reported")


def case_file_limit_at_start(folder):
    """Where not even the head fits, nothing is recorded, and that is said: no SIGXFSZ."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    native, preloaded = run(folder, False, None, limit), run(folder, True, None, limit)
    said = preloaded.stderr.decode()
    expect("file size limit" in said, f"not said: {said!r}")
    same(native, subprocess.CompletedProcess([], preloaded.returncode, preloaded.stdout, native.stderr))
    expect(not logs(folder), f"there is a log: {logs(folder)}")


def case_room_again(folder):
    """Recording goes on when there is room again. No gate passes on what was lost meanwhile, only on what was counted."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512 << 10, resource.RLIM_INFINITY))
    native, preloaded = run(folder, False, None, limit), run(folder, True, None, limit, GPUPEAK_HOST="full")
    same(native, preloaded)
    (log,) = logs(folder)
    summary = report(log)
    expect(summary["quality"]["events_lost"], "nothing was lost: the limit is too high")
    (told,) = [warning["message"] for warning in summary["quality"]["warnings"] if warning["code"] == "GP007"]
    expect(re.match(r"from \+[0-9.]+ s to \+[0-9.]+ s the log could not grow", told), f"not said from when to when: {told}")
    for metric, passes in (("host.peak_bytes", False), ("host.kind.heap.peak_bytes", True)):
        gate = subprocess.run([sys.argv[2], "check", log, "--max", f"{metric}=1TiB"], stdout=subprocess.PIPE, text=True, check=False)
        expect((gate.returncode == 0) == passes and (passes or "events are missing" in gate.stdout), f"{metric}: {gate}")
    heap = [peak for peak in summary["peaks"] if peak["scope"] == "host/heap"]
    if CASE == "room_again_freed":  # the log has the block of before, and not its end
        expect(8 << 20 <= heap[0]["bytes"] < 9 << 20, f"the heap's peak is {heap[0]['bytes']}: what was freed was not counted as that")
        return
    largest = max(holder["bytes"] for holder in heap[0]["holders"] if holder["kind"] == "host.heap")
    expect(largest >= 8 << 20, f"the block of before is not in the log: {largest}")
    dump = subprocess.run([sys.argv[2], "export", "events", log], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(f"size {5 << 20} " in dump, "the block that came when there was room again is not in the log")


case_room_again_freed = case_room_again


def with_quota(folder, use):
    """use(SUBVOLUME, set_quota): a Btrfs of its own, whose subvolume set_quota("2M" or "none") limits."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("mkfs.btrfs", "btrfs")):
        raise Skipped("a Btrfs with a quota needs root and btrfs-progs")
    image, disk = os.path.join(folder, "image"), os.path.join(folder, "disk")
    os.mkdir(disk)
    os.truncate(os.open(image, os.O_CREAT | os.O_WRONLY), 256 << 20)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["mkfs.btrfs", "-q", image], **quiet, check=True)
    if subprocess.run(["mount", "-o", "loop", image, disk], **quiet, check=False).returncode:
        raise Skipped("a Btrfs cannot be mounted here")
    try:
        part = os.path.join(disk, "part")
        set_quota = lambda size: subprocess.run(["btrfs", "qgroup", "limit", size, part], **quiet, check=True)
        subprocess.run(["btrfs", "quota", "enable", disk], **quiet, check=True)
        subprocess.run(["btrfs", "subvolume", "create", part], **quiet, check=True)
        use(part, set_quota)
    finally:
        subprocess.run(["umount", disk], check=False)


def case_refused_pages(folder):
    """Btrfs under a quota refuses pages that were written before. That ends the log, and not the program."""
    def use(part, set_quota):
        def stepped(preload, **more):
            process = subprocess.Popen(COMMAND, env=environment(folder, preload, **more), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            said = process.stdout.readline()
            os.sync()  # what is clean has to be written anew
            out, errors = process.communicate(b"\n", timeout=120)
            return subprocess.CompletedProcess(COMMAND, process.returncode, said + out, errors)

        log = os.path.join(part, "a.gplog")
        set_quota("2M")
        native = stepped(False)
        preloaded = stepped(True, GPUPEAK_HOST="full", GPUPEAK_OUT=log)
        expect(b" could not be written any more" in preloaded.stderr, f"not said at the end: {preloaded.stderr!r}")
        preloaded.stderr = native.stderr
        same(native, preloaded, 3)
        codes = [warning["code"] for warning in report(log)["quality"]["warnings"]]
        expect("GP002" in codes, f"not said that the log has no end: {codes}")

    with_quota(folder, use)


def case_room_again_thread(folder):
    """A thread that had no room to say by which mean its blocks are chosen says it when there is room again: without, each of them would
    count as one."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512 << 10, resource.RLIM_INFINITY))
    native = run(folder, False, None, limit)
    preloaded = run(folder, True, None, limit, GPUPEAK_HOST="sampled", GPUPEAK_SAMPLE="4KiB")
    same(native, preloaded)
    (log,) = logs(folder)
    expect(report(log)["quality"]["events_lost"], "nothing was lost: the limit is too high")
    dump = subprocess.run([sys.argv[2], "export", "events", log], stdout=subprocess.PIPE, text=True, check=True).stdout
    said, alone = {}, set()  # the mean that a thread said last; who had blocks before
    for line in dump.splitlines():
        if found := re.search(r" tid (\d+) (sampling bytes (\d+)|alloc )", line):
            thread, what, mean = found.groups()
            if mean:
                said[thread] = mean
            elif thread not in said:
                alone.add(thread)
    expect(not alone and len(said) == 2 and set(said.values()) == {"4096"}, f"said {said}, blocks before that: {alone}")


def case_log_limit_few_addresses(folder):
    """GPUPEAK_LOG_MAX holds under `ulimit -v` too."""
    case_log_limit(folder, lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))


def case_log_limit(folder, prepare=None):
    """Past GPUPEAK_LOG_MAX the heap is a sample: the log stays small, nothing is freed that was never allocated."""
    full = plain(folder, prepare, GPUPEAK_HOST="full")["metrics"]["host.kind.heap.peak_bytes"]
    for log in logs(folder):
        os.unlink(log)
    summary = plain(folder, prepare, GPUPEAK_HOST="full", GPUPEAK_LOG_MAX="1MiB", GPUPEAK_SAMPLE="16KiB")
    no_repairs(summary)
    quality = summary["quality"]
    expect("GP033" in [w["code"] for w in quality["warnings"]], f"not said: {quality['warnings']}")
    expect(quality["unknown_heap_frees"] == 0, f"{quality['unknown_heap_frees']} frees of unknown blocks")
    size = os.path.getsize(logs(folder)[0])
    expect(size < 3 << 20, f"the log has {size} bytes")
    (peak,) = [p for p in summary["peaks"] if p["scope"] == "host"]
    expect(peak["bytes"] >= full / 2, f"the peak is {peak['bytes']}, in full {full}")
    live = summary["metrics"]["host.kind.heap.live_bytes"]
    expect(live <= full * 3, f"{live} bytes live at the end, the whole peak is {full}")


def case_log_limit_threads(folder):
    """What many threads have not filled of their chunks does not add up beyond the limit. Where the one that goes over to
    the sample loses its processor meanwhile, the others write on: that is rare, and by chance."""
    sizes = []
    while not sizes or (sizes[-1] >= 3 << 19 and len(sizes) < 5):
        sub = tempfile.mkdtemp(dir=folder)
        summary = plain(sub, GPUPEAK_HOST="full", GPUPEAK_LOG_MAX="1MiB", GPUPEAK_SAMPLE="512KiB")
        no_repairs(summary)
        expect("GP033" in [w["code"] for w in summary["quality"]["warnings"]], "the limit was not reached")
        sizes.append(os.path.getsize(logs(sub)[0]))
    expect(sizes[-1] < 3 << 19, f"the logs have {sizes} bytes")


def case_address_limit(folder):
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
    plain(folder, limit)


def case_unwritable(folder):
    """Said once on stderr; the program runs as ever."""
    native = run(folder, False)
    preloaded = run(folder, True, GPUPEAK_OUT="/proc/nowhere/a.gplog")
    expect(preloaded.returncode == native.returncode and preloaded.stdout == native.stdout, "the result differs")
    lines = preloaded.stderr.decode().splitlines()
    expect(len(lines) == 1 and "/proc/nowhere/a.gplog" in lines[0] and "GPUPEAK_OUT" in lines[0], f"stderr: {lines}")


def case_nonsense(folder):
    native = run(folder, False)
    preloaded = run(folder, True, GPUPEAK_HOST="everything", GPUPEAK_CHILDREN="some", GPUPEAK_SAMPLE="1 potato",
                    GPUPEAK_LOG_MAX="1 potato")
    expect(preloaded.returncode == native.returncode and preloaded.stdout == native.stdout, "the result differs")
    lines = preloaded.stderr.decode().splitlines()
    expect(len(lines) == 1, f"one line expected: {lines}")
    for name in ("GPUPEAK_HOST", "GPUPEAK_CHILDREN", "GPUPEAK_SAMPLE", "GPUPEAK_LOG_MAX"):
        expect(name in lines[0], f"{name} is not named: {lines[0]}")
    report(logs(folder)[0])


def case_closed_streams(folder):
    def close_streams():
        for fd in (0, 1, 2):
            os.close(fd)
    native, preloaded = run(folder, False, None, close_streams), run(folder, True, None, close_streams)
    same(native, preloaded)
    report(logs(folder)[0])


def case_own_files(folder):
    """The program's files stay empty, and the log is whole."""
    summary = plain(folder, GPUPEAK_HOST="full")
    expect(summary["quality"]["events"] >= 600000, f"only {summary['quality']['events']} events")
    for path in glob.glob(os.path.join(folder, "*", "own.*")):
        expect(os.path.getsize(path) == 0, f"{path} was written into")


def case_modes(folder):
    """Each host mode leaves the program alone, and says null for what it does not measure."""
    for mode in ("full", "sampled", "counters", "off"):
        sub = os.path.join(folder, mode)
        os.mkdir(sub)
        native, preloaded = run(sub, False), run(sub, True, GPUPEAK_HOST=mode)
        same(native, preloaded)
        metrics = report(logs(sub)[0])["metrics"]
        if mode == "off":
            expect(metrics.get("host.kind.heap.peak_bytes") is None, "a heap peak without measuring")


def case_stopped(folder):
    """A world that stands still waits for nobody, in any host mode."""
    native = run(folder, False)
    for mode in ("full", "full", "auto", "sampled", "counters", "off"):
        sub = tempfile.mkdtemp(dir=folder)
        same(native, run(sub, True, GPUPEAK_HOST=mode))
        expect_nothing_dropped(report(logs(sub)[0]))


for mode in ("allocate", "map", "start", "generated", "holding", "by_boehm", "by_d", "by_go", "by_mono", "thread", "signal", "process"):
    globals()["case_stopped_" + mode] = case_stopped


def case_sampled(folder):
    """A sample of some hundred blocks tells the sums, whoever frees them: what stays of it at each free would add up."""
    no_repairs(plain(folder, GPUPEAK_HOST="sampled", GPUPEAK_SAMPLE="16KiB"))


def case_bare_summary(folder):
    """Without the command: the short summary on stderr at exit, nothing on stdout."""
    native = run(folder, False)
    preloaded = run(folder, True, GPUPEAK_SUMMARY="on")
    expect(preloaded.returncode == native.returncode and preloaded.stdout == native.stdout, "the result differs")
    text = preloaded.stderr.decode()
    expect("gpupeak" in text and "Peak host heap" in text, f"stderr: {text}")


case_bare_summary_timer = case_bare_summary


def case_setuid(folder):
    """A program that gains privileges does not load us, or does nothing with us."""
    if os.geteuid() != 0:
        raise Skipped("a setuid copy needs root")
    nobody = pwd.getpwnam("nobody")
    os.chmod(folder, 0o777)
    copy = os.path.join(folder, "id")
    shutil.copy(shutil.which("id"), copy)
    os.chmod(copy, 0o755 | stat.S_ISUID)
    drop = lambda: (os.setgroups([]), os.setgid(nobody.pw_gid), os.setuid(nobody.pw_uid))
    native = subprocess.run([copy], env=environment(folder, False), preexec_fn=drop, stdout=subprocess.PIPE, check=False)
    if b"euid=0" not in native.stdout:
        raise Skipped("this file system does not honour setuid")
    preloaded = subprocess.run([copy], env=environment(folder, True), preexec_fn=drop, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=False)
    expect(preloaded.stdout == native.stdout and preloaded.returncode == native.returncode, "the result differs")
    expect(not logs(folder), "a log was written")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
