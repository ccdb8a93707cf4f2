#!/usr/bin/env python3
"""Which processes of a run are recorded, and how much of each. argv: … STARTER SAYER SAYER_STATIC CUDA_BENCHMARK FOLDER_OF_THE_DRIVER CASE"""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, expect, run_checks

STARTER, SAYER, SAYER_STATIC, BENCHMARK, DRIVER, CASE = sys.argv[3:9]
WAYS = 11
MIB = 1 << 20


def finished(folder, *command, options=("-q",), code=0, **more):
    done = subprocess.run([GPUPEAK, "run", *options, "-o", os.path.join(folder, "a.gplog"), "--", *command],
                          env=dict(os.environ, LD_LIBRARY_PATH=DRIVER, **more), cwd=folder, capture_output=True, text=True, check=False)
    expect(done.returncode == code, f"{command}: exit {done.returncode}, {done.stderr}")
    return done


def run(folder, *command, options=(), **more):
    return finished(folder, *command, options=("-q", *options), **more).stdout


def run_screen(folder, *command, options=(), code=0):
    return finished(folder, *command, options=options, code=code).stderr


def children(folder):
    found = []
    for name in sorted(os.listdir(os.path.join(folder, "a.children"))) if os.path.isdir(os.path.join(folder, "a.children")) else []:
        report = subprocess.run([GPUPEAK, "report", "--json", os.path.join(folder, "a.children", name)], capture_output=True, check=True)
        found.append(json.loads(report.stdout))
        expect(found[-1]["quality"]["dropped_events"] == 0, f"{name}: {found[-1]['quality']}")
    return found


def started(output, expected):
    lines = output.splitlines()
    expect(len(lines) == WAYS, f"{len(lines)} programs were started: {output}")
    for line in lines:
        expect(line.endswith(f"2 arguments, {expected}, theirs kept"), f"not {expected}: {line}")


def kept(folder):
    """A launcher replaces LD_PRELOAD and cleans the environment. Our variables are kept beside those that it sets, in each way of starting."""
    started(run(folder, STARTER, SAYER), "recorded")


def kept_off(folder):
    started(run(folder, STARTER, SAYER, GPUPEAK_KEEP_PRELOAD="off"), "not recorded")


def kept_not_by_hand(folder):
    """Without `gpupeak run` the launcher's variables hold."""
    done = subprocess.run([STARTER, SAYER], env=dict(os.environ, LD_PRELOAD=sys.argv[1], GPUPEAK_SUMMARY="off"), cwd=folder,
                          capture_output=True, text=True, check=True)
    started(done.stdout, "not recorded")


def kept_not_static(folder):
    started(run(folder, STARTER, SAYER_STATIC), "not recorded")


def kept_not_privileged(folder):
    copy = os.path.join(folder, "privileged")
    shutil.copy(SAYER, copy)
    os.chmod(copy, 0o755 | stat.S_ISGID)
    started(run(folder, STARTER, copy), "not recorded")


def kept_by_env(folder):
    output = run(folder, "env", "-i", f"LD_LIBRARY_PATH={DRIVER}", BENCHMARK)
    expect(output, "the benchmark says nothing")
    report = subprocess.run([GPUPEAK, "report", "--json", os.path.join(folder, "a.gplog")], capture_output=True, check=True)
    expect(json.loads(report.stdout)["metrics"]["device.peak_bytes"] > MIB, "the program behind env -i is not recorded")


def held_by(child, frame):
    """Bytes at the host's peak of sites with a frame that begins like this."""
    return sum(h["bytes"] for p in child["peaks"] if p["scope"] == "host" for h in p["holders"] if frame in h["site"])


def large_is_counted(folder):
    """A child above 16 MiB has a log with its exact counters, from its start, and holders from then on; small ones leave nothing."""
    script = f"{sys.executable} -c 'x = bytearray(50 << 20); del x; y = bytearray(30 << 20)'; ls > /dev/null; cat /dev/null"
    run(folder, "sh", "-c", script + "; :")
    (child,) = children(folder)
    heap = child["metrics"]["host.kind.heap.peak_bytes"]
    expect(50 * MIB <= heap < 56 * MIB, f"heap peak of the child {heap}")
    expect("GP053" in [w["code"] for w in child["quality"]["warnings"]], f"{child['quality']['warnings']}")
    expect(not any("0x" in h["site"] for p in child["peaks"] for h in p["holders"]), f"modules from before the log: {child['peaks']}")
    expect(child["quality"]["exact"] and 50 * MIB <= held_by(child, "<module>") < 51 * MIB, f"{child['peaks']}")


def mapped_is_counted(folder):
    """The same for a child whose memory are mappings. Mappings from before its log count, too."""
    script = "import mmap; a = mmap.mmap(-1, 10 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); b = mmap.mmap(-1, 40 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    run(folder, "sh", "-c", f"{sys.executable} -c '{script}'; :")
    (child,) = children(folder)
    mapped = child["metrics"]["host.kind.mmap_anon.peak_bytes"]
    expect(50 * MIB <= mapped < 56 * MIB, f"mappings of the child {mapped}")
    expect(held_by(child, "<module>") == 40 * MIB, f"the mapping that made it large has its site: {child['peaks']}")


def reserved_is_counted(folder):
    """Reserved addresses count when they become writable, as the heap of a runtime does: 5 MiB at once, then 30 MiB of 64."""
    script = ("import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p; size = ctypes.c_size_t; "
              "a, b = (c.mmap(None, size(m << 20), 0, 34, -1, 0) for m in (5, 64)); "
              "assert not c.mprotect(ctypes.c_void_p(a), size(5 << 20), 3) and not c.mprotect(ctypes.c_void_p(b + (4 << 20)), size(30 << 20), 3)")
    run(folder, "sh", "-c", f"{sys.executable} -c '{script}'; :")
    (child,) = children(folder)
    mapped = child["metrics"]["host.kind.mmap_anon.peak_bytes"]
    expect(35 * MIB <= mapped < 41 * MIB, f"mappings of the child {mapped}")


def small_leave_nothing(folder):
    run(folder, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do ls > /dev/null; (cat /dev/null); done; :")
    expect(sorted(os.listdir(folder)) == ["a.gplog"], f"{os.listdir(folder)}")


READS_A_FILE = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file: all = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for at in range(0, len(all), 4096): all[at]
time.sleep(0.5)  # until it is looked at
"""


def others_are_counted(folder):
    """A process without a log has its line, also where what is resident is a file's pages."""
    with open(os.path.join(folder, "read"), "wb") as file:
        file.write(bytes(40 * MIB))
    screen = run_screen(folder, "sh", "-c", f"{sys.executable} -c '{READS_A_FILE}' read; sleep 0.2; :")
    line = re.search(r"([0-9]+) more process(?:es)? without a log, (?:the largest )?(\S+): ([0-9.]+) MiB", screen)
    expect(line and line[2].startswith("python") and as_bytes(line[3]) > 40 * MIB, screen)


def hints(folder):
    """Where most was held by a process without a log, the screen says how to record it; and how the run ended, also where it is of a child."""
    screen = run_screen(folder, "sh", "-c", "for i in 1 2; do seq 1 100000 | sort -R > /dev/null; done; :")
    expect(re.search(r"without a log, (the largest )?sort: .* \(run --children all records them\)", screen), screen)
    screen = run_screen(folder, "sh", "-c", f"{sys.executable} -c 'x = bytearray(50 << 20)'; exit 3", options=["--children", "all"], code=3)
    expect(re.search(r"run: exit 3 · pid \d+ python3", screen), screen)


def none(folder):
    run(folder, "sh", "-c", f"{sys.executable} -c 'x = bytearray(50 << 20)'; {BENCHMARK}; :", options=["--children", "none"])
    expect(sorted(os.listdir(folder)) == ["a.gplog"], f"{os.listdir(folder)}")


def gpu(folder):
    """The option's old name is still understood."""
    for word in ("gpu", "cuda"):
        place = tempfile.mkdtemp(dir=folder)
        run(place, "sh", "-c", f"{BENCHMARK}; :", options=["--children", word])
        (child,) = children(place)
        expect(child["metrics"]["device.peak_bytes"] > MIB, f"{word}: no GPU memory")


FORKS = """
import os, sys
held = bytearray(200 << 20)
for i in range(3):
    if os.fork() == 0:
        own = bytearray(20 << 20)
        del own
        own = bytearray(18 << 20)
        os._exit(0)
for i in range(3): os.wait()
"""


def forked(folder):
    """A forked child is counted from the fork on: nothing of its parent's 200 MiB."""
    run(folder, sys.executable, "-c", FORKS)
    found = children(folder)
    expect(len(found) == 3, f"{len(found)} children")
    for child in found:
        heap = child["metrics"]["host.kind.heap.peak_bytes"]
        expect(20 * MIB <= heap < 21 * MIB, f"since the fork: {heap}")
        expect(20 * MIB <= held_by(child, "<module>") < 21 * MIB, f"holders since the fork: {child['peaks']}")


CROSSING = """
import ctypes, os, re, sys
libc = ctypes.CDLL(None)
for name in ("malloc", "realloc"):
    getattr(libc, name).restype = ctypes.c_void_p
libc.free.argtypes = libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
if os.fork() == 0:
    early = [libc.malloc(ctypes.c_size_t(1 << 20)) for _ in range(15)]
    before = sum(libc.malloc_usable_size(block) for block in early)
    if sys.argv[1] == "realloc":
        grown = libc.realloc(libc.malloc(ctypes.c_size_t(1000)), 9 << 20)
    else:
        grown = libc.malloc(ctypes.c_size_t(9 << 20))
    for block in early[:5]:
        libc.free(block)
    after = libc.malloc(ctypes.c_size_t(30 << 20))
    print(before, flush=True)
    os._exit(0)
os.wait()
"""


def crossing(folder):
    """Memory from before the recording is given to the byte, and is not counted again. Freeing it is no error."""
    for way in ("malloc", "realloc"):
        place = tempfile.mkdtemp(dir=folder)
        # With a shell between them: a process that a recorded process forks gets its log sooner.
        before = int(run(place, "sh", "-c", f"{sys.executable} -c '{CROSSING}' {way}; :"))
        (child,) = children(place)
        (message,) = [w["message"] for w in child["quality"]["warnings"] if w["code"] == "GP053"]
        said = int(re.search(r"\((\d+) bytes\)", message)[1])
        expect(before <= said < before + (1 << 20), f"{way}: {before} bytes of the test's and Python's, it says {message}")
        expect(child["metrics"]["host.before_recording_bytes"] == said, f"{way}: {child['metrics']}")
        said = subprocess.run([GPUPEAK, "report", os.path.join(place, "a.gplog"), "--process", str(child["run"]["pid"])],
                              capture_output=True, text=True, check=True).stdout
        expect("MiB        heap from before its recording began" in said, said)
        expect(held_by(child, "<module>") == 39 << 20, f"{way}: {child['peaks']}")
        for trouble in ("unknown_heap_frees", "repairs", "unmatched_frees"):
            expect(child["quality"].get(trouble, 0) == 0, f"{way}: {child['quality']}")


HOLDS = """
import os, sys
def hold(): return [bytes(1 << 20) + b"x" for _ in range(60)]
if sys.argv[1] == "forked" and os.fork():
    os.wait()
else:
    held = hold()
"""


def as_bytes(text):
    return int(float(text) * MIB)


def rows_and_heap_agree(folder):
    """The heap of a process's row is in the rows of its holders, or is said to be in none."""
    forked, started_ = (run_screen(tempfile.mkdtemp(dir=folder), *command) for command in
                        ((sys.executable, "-c", HOLDS, "forked"), ("sh", "-c", f"{sys.executable} -c '{HOLDS}' started; :")))
    row = re.search(r"\+([0-9.]+) MiB of heap since the fork  ([0-9.]+) MiB \S*hold", forked)
    expect(row and as_bytes(row[1]) - as_bytes(row[2]) <= 3 * MIB, f"a forked worker: {forked}")
    expect("without call sites" not in forked, forked)
    expect("grown while" not in forked + started_, f"nobody asked for a window: {started_}")
    row = re.search(r"([0-9.]+) MiB of heap \(the first ([0-9.]+) MiB without call sites\)  ([0-9.]+) MiB \S*hold", started_)
    expect(row and abs(as_bytes(row[1]) - as_bytes(row[2]) - as_bytes(row[3])) <= 3 * MIB, f"a started child: {started_}")
    expect(re.search(rf"{row[2]} MiB +the heap's first, without call sites: in no row", started_), started_)


def forked_recorded(folder):
    """With --children all, the holders since the fork are known, and their sum is the memory since the fork."""
    run(folder, sys.executable, "-c", FORKS, options=["--children", "all"])
    found = children(folder)
    expect(len(found) == 3, f"{len(found)} children")
    for child in found:
        metrics = child["metrics"]
        expect(20 * MIB <= metrics["host.kind.heap.peak_bytes"] < 21 * MIB, f"since the fork: {metrics['host.kind.heap.peak_bytes']}")
        expect(metrics["host.peak_bytes"] is not None, "no sum since the fork")
        (peak,) = [p for p in child["peaks"] if p["scope"] == "host"]
        expect(peak["holders"][0]["bytes"] >= 20 * MIB, f"holders: {peak['holders'][:1]}")


def forked_cleared(folder):
    """A forked child of a program that has cleared its variables is recorded as those said that the program began with."""
    run(folder, sys.executable, "-c", "import ctypes, os\nctypes.CDLL(None).clearenv()\nif os.fork() == 0:\n  x = bytes(30 << 20)\n  os._exit(0)\nos.wait()",
        options=["--children", "all"])
    (child,) = children(folder)
    peak = child["metrics"]["host.kind.heap.peak_bytes"]
    expect(30 * MIB <= peak < 31 * MIB, f"the child's peak: {peak}")


def main():
    folder = tempfile.mkdtemp()
    try:
        globals()[CASE](folder)
    finally:
        shutil.rmtree(folder)


run_checks(main)
