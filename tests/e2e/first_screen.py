"""The lines that a run ends with are complete, from the device's records alone, however much the host has done.

usage: first_screen.py LIBGPUPEAK GPUPEAK MALLOCS_THEN_DEVICE FOLDER_OF_THE_DRIVER MUCH SLOW_OPEN USE_GPU MANY_PROCESSORS CASE
"""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, LIBRARY, environment, expect, report, run_checks

PROGRAM, DRIVER, MUCH, SLOW_OPEN, USE_GPU, MANY_PROCESSORS, CASE = sys.argv[3:10]
COUNTED = "as it was counted: the log could not be read"
WORK = re.compile(r"^gpupeak: work: (\d+) records decoded, (\d+) addresses looked up in (\d+) files, (\d+) of them scanned for types$", re.M)


def text(*arguments, code=0, **variables):
    done = subprocess.run([GPUPEAK, *arguments], env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{arguments} gives {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def run(folder, *command, code=0, prepare=None, **more):
    log = os.path.join(folder, "x.gplog")
    done = subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", *command], cwd=folder, env=environment(folder, False) | more,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, preexec_fn=prepare)
    expect(done.returncode == code, f"{done}")
    return log


def screen(said):
    """The text without the line that says what takes long, since that differs on a busy machine."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("gpupeak: reading "))


def expect_whole_story(said, mallocs):
    """The screen of MALLOCS_THEN_DEVICE names what failed, the peak, its holder and phase, and the driver's figure; few records were read."""
    for part in ("OUT OF MEMORY on GPU 0", "200 GiB asked", "why: ", "peak 36.0 MiB of", "in training", "100.0 %  ", "build_model",
                 "nvidia-smi shows", "Peak device memory (GPU 0): 37748736 bytes\n", "host heap in usable bytes"):
        expect(part in said, f"'{part}' is missing: {said}")
    expect(COUNTED not in said and not re.search(r"\+0x[0-9a-f]+", said), f"not complete: {said}")
    done = WORK.search(said)
    expect(done, f"no word of the work: {said}")
    records, names, files, scans = map(int, done.groups())
    # The records are ten calls, their readings, mappings, the phases and samples of resident memory; no malloc.
    expect(10 <= records < mallocs // 1000, f"{records} records were decoded for ten calls of the driver")
    expect(1 <= names < 60 and files < 12, f"{names} addresses were looked up in {files} files")
    expect(scans == 0, f"{scans} files were read whole")


def expect_same_events(said, whole):
    """The first screen and the report that reads everything speak of the same number of calls."""
    quality = whole["quality"]
    counts = re.search(r"([\d ]+) device \+ ([\d ]+) host events", said)
    expect(counts and [int(count.replace(" ", "")) for count in counts.groups()] == [quality["device_events"], quality["host_events"]],
           f"other events than {quality}: {said}")


def case_device_first():
    """Millions of mallocs do not delay the screen about the device: with `run`, with the library alone, for a log on the disk, and with an empty
    and a warm cache."""
    mallocs = 4_000_000
    with tempfile.TemporaryDirectory() as folder:
        cold = dict(XDG_CACHE_HOME=os.path.join(folder, "none"), GPUPEAK_WORK="1", LD_LIBRARY_PATH=DRIVER, GPUPEAK_HOST="full")
        log = os.path.join(folder, "x.gplog")
        done = subprocess.run([GPUPEAK, "run", "-o", log, "--", PROGRAM, str(mallocs // 1000)], env=environment(folder, False) | cold,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 7, f"{done}")
        expect_whole_story(done.stderr, mallocs)
        first, second = (text("report", "--short", log, **cold) for _ in range(2))
        expect(screen(first) == screen(second), f"the second one differs: {first}{second}")
        expect_whole_story(first, mallocs)
        whole = report(log)
        expect(whole["quality"]["events"] > mallocs, f"the mallocs are not in the log: {whole['quality']}")
        expect_same_events(first, whole)
        peak = next(p for p in whole["peaks"] if p["scope"] == "device:0")
        expect(peak["bytes"] == 37748736 and peak["holders"][0]["site"] in first, f"the report has another peak: {peak}")
        expect(whole["metrics"]["device.peak_bytes"] == 37748736, "the report has another figure")
        for arguments in (("metrics", "--metric", "device.peak_bytes", log), ("check", "--max", "device.peak_bytes=1GiB", log),
                          ("tree", "--scope", "device:0", log)):
            text(*arguments, **cold)
        few = 400_000
        bare = environment(folder, True, GPUPEAK_OUT=os.path.join(folder, "y.gplog"), GPUPEAK_SUMMARY="on", **cold)
        done = subprocess.run([PROGRAM, str(few // 1000)], env=bare, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 7, f"{done}")
        expect_whole_story(done.stderr, few)


def case_few_mallocs():
    """If the heap is read, too, no names are looked up for its rows, which this screen does not have."""
    with tempfile.TemporaryDirectory() as folder:
        said = text("run", "-o", os.path.join(folder, "x.gplog"), "--", PROGRAM, "4", code=7, GPUPEAK_WORK="1", LD_LIBRARY_PATH=DRIVER,
                    XDG_CACHE_HOME=os.path.join(folder, "none"))
        records, names = map(int, WORK.search(said).groups()[:2])
        expect(records > 4_000 and 1 <= names < 60, f"{names} addresses were looked up, {records} records decoded: {said}")
        expect("100.0 %  build_model" in said and "Peak host heap" in said, said)


def case_sampled():
    """The counts of what happened do not depend on how much of it was recorded, nor on how much is read."""
    with tempfile.TemporaryDirectory() as folder:
        log = run(folder, PROGRAM, "400", code=7, LD_LIBRARY_PATH=DRIVER, GPUPEAK_HOST="sampled")
        whole = report(log)
        expect(whole["quality"]["events"] < 400_000 <= whole["quality"]["host_events"], f"not a sample: {whole['quality']}")
        expect_same_events(text("report", "--short", log), whole)


def case_waits():
    """If symbols are slow to read, a line says once what is being read, also in a pipe. Then the same screen follows."""
    with tempfile.TemporaryDirectory() as folder:
        log = run(folder, PROGRAM, "1", code=7, LD_LIBRARY_PATH=DRIVER)
        at_once = text("report", "--short", log)
        said = text("report", "--short", log, LD_PRELOAD=SLOW_OPEN, SLOW_FILE=os.path.basename(PROGRAM), SLOW_SECONDS="3")
        waiting = [line for line in said.splitlines() if line.startswith("gpupeak: reading ")]
        expect(len(waiting) == 1 and log in waiting[0], f"what is being read is not said once: {said}")
        expect(screen(said) == screen(at_once), f"another screen: {said}")


def case_died():
    """The process that reads names may die of them: `run` still ends as the program did, and tells everything but the names."""
    with tempfile.TemporaryDirectory() as folder:
        said = text("run", "-o", os.path.join(folder, "x.gplog"), "--", MUCH, code=9, LD_PRELOAD=SLOW_OPEN,
                    SLOW_FILE=os.path.basename(MUCH), OPEN_KILLS="1")
        expect("gpupeak: peak " in said and "has no names: the libraries' symbols could not be read" in said and "exit 9" in said, said)


def case_other_files():
    """The folder of the log may be full of other files: a file that cannot be a log of the run is not opened."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "photo"), "w") as file:
            file.write("of a cat")
        for name, found in (("x.gplog", "x.gplog"), ("%n.gplog", os.path.basename(MUCH) + ".gplog"), ("log.%r", "log"), ("log.%p.gplog", None)):
            text("run", "-q", "-o", os.path.join(folder, name), "--", MUCH, code=9, LD_PRELOAD=SLOW_OPEN, SLOW_FILE="photo", OPEN_KILLS="1")
            found = found or next(entry for entry in os.listdir(folder) if re.fullmatch(r"log\.\d+\.gplog", entry))
            expect(report(os.path.join(folder, found))["quality"]["log_complete"], f"{name}: the run's end is not in its log")


def counted(log, why=COUNTED):
    """The screen of a log that kills any process that reads it."""
    said = text("report", "--short", log, LD_PRELOAD=SLOW_OPEN, SLOW_FILE=os.path.basename(log), OPEN_KILLS="child")
    expect(why in said, f"it was read: {said}")
    return said


def case_counted():
    """If the log cannot be read, the screen has the counters, which equal the replay; losses and a missing end are said first."""
    with tempfile.TemporaryDirectory() as folder:
        log = run(folder, PROGRAM, "20", code=7, LD_LIBRARY_PATH=DRIVER, GPUPEAK_HOST="full")
        summary = report(log)
        said = counted(log)
        expect(f"Peak device memory (GPU 0): {summary['metrics']['device.peak_bytes']} bytes\n" in said, said)
        usable = int(re.search(r"^Peak host heap \(usable.*\): (\d+) bytes$", said, re.M)[1])
        exact = summary["metrics"]["host.kind.heap.usable_peak_bytes"]
        expect(abs(usable - exact) <= 8 * (64 << 10), f"usable heap {usable}, replayed {exact}")
        expect("Peak host heap: " not in said, f"another figure has the name of the one that is replayed: {said}")
        expect(f"{summary['quality']['device_events']} device events" in said and f"next: gpupeak report {log}" in said, said)
        hidden = text("report", "--short", "--confidential", log, LD_PRELOAD=SLOW_OPEN, SLOW_FILE="x.gplog", OPEN_KILLS="child")
        expect("x.gplog" not in hidden, f"the name of the log is told: {hidden}")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        said = counted(run(folder, MUCH, code=9, prepare=limit, GPUPEAK_HOST="full"))
        expect("EVENTS LOST" in said.splitlines()[0], said)
        said = counted(run(folder, "sh", "-c", "kill -9 $$", code=128 + signal.SIGKILL))
        expect("killed by SIGKILL" in said.splitlines()[0], said)
        said = counted(run(folder, MUCH, code=9, GPUPEAK_HOST="off"), "and the host's was not measured")
        expect("host heap" not in said and "Peak host" not in said, f"what was not counted is told: {said}")
    text("report", "--short", MUCH, code=3)


def start_with_ahead(folder, name, milliseconds, **variables):
    """USE_GPU under `run`, which thinks it has processors to spare."""
    return subprocess.Popen([GPUPEAK, "run", "-o", os.path.join(folder, name), "--", USE_GPU, str(milliseconds)], cwd=folder, text=True,
                            env=environment(folder, False) | dict(LD_LIBRARY_PATH=DRIVER, GPUPEAK_WORK="1", XDG_CACHE_HOME=os.path.join(folder, "none"))
                            | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process):
    out, said = process.communicate(timeout=100)
    expect(process.returncode == 7 and out == "used\n", f"{process.returncode}: {out}{said}")
    expect("main use_gpu.c" in said and "3.00 MiB" in said and COUNTED not in said, f"not complete: {said}")
    return said


def same(said):
    """The lines that are the same in each run: without times, and without the readings of the driver."""
    lines = [line for line in said.splitlines() if not any(word in line for word in ("work:", "reading ", "█", "nvidia-smi", "RSS"))]
    return [re.sub(r"[+]?[0-9.]+ ?(ms|s|us|MiB|KiB|%)|pid \d+|\w+\.gplog|\d+ (bytes|host events|events)", "N", line) for line in lines]


def ahead_of(run):
    """The process that reads names beside the program. It exists once the other child of `run` has become the program."""
    for _ in range(1000):
        children = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1]) == run.pid:
                    children[os.readlink(f"/proc/{entry}/exe")] = int(entry)
            except OSError:
                pass
        if os.path.realpath(USE_GPU) in children and os.path.realpath(GPUPEAK) in children:
            return children[os.path.realpath(GPUPEAK)]
        time.sleep(0.01)
    raise AssertionError("nothing reads ahead")


def case_ahead():
    """If there are processors to spare, the names are known when the program ends. The screen is the same, also if the process that read them died."""
    with tempfile.TemporaryDirectory() as folder:
        alone = ended(start_with_ahead(folder, "alone.gplog", 10))
        expect(int(WORK.search(alone)[3]) > 0, f"without it no file is read: {alone}")
        # The process that reads ahead gets a processor only if nobody else wants it: on a busy machine late, or not at all.
        for milliseconds in (1000, 3000, 9000):
            said = ended(start_with_ahead(folder, "x.gplog", milliseconds, LD_PRELOAD=MANY_PROCESSORS))
            expect(same(said) == same(alone), f"another screen:\n{said}\n{alone}")
            if WORK.search(said)[3] == "0":
                break
        else:
            expect(os.getloadavg()[0] > os.cpu_count() / 2, f"files were read behind the end: {said}")

        killed = start_with_ahead(folder, "killed.gplog", 1000, LD_PRELOAD=MANY_PROCESSORS)
        os.kill(ahead_of(killed), signal.SIGKILL)
        said = ended(killed)
        expect(same(said) == same(alone), f"another screen:\n{said}\n{alone}")

        # A symbol file kills the process that reads it: then the names are missing.
        dies = start_with_ahead(folder, "dies.gplog", 1000, LD_PRELOAD=f"{MANY_PROCESSORS}:{SLOW_OPEN}", SLOW_FILE=os.path.basename(USE_GPU), OPEN_KILLS="1")
        out, said = dies.communicate(timeout=100)
        expect(dies.returncode == 7 and "peak 3.00 MiB" in said and COUNTED not in said, f"{dies.returncode}: {out}{said}")


run_checks(globals()[f"case_{CASE}"])
