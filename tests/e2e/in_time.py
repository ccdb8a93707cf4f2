"""The lines that a run ends with are there in time: of a log that takes longer they are what the library has counted.

usage: in_time.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK FOLDER_OF_THE_DRIVER MUCH LOG_LIMIT SLOW_OPEN CASE
"""
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, report, run_checks

BENCHMARK, DRIVER, MUCH, WAITS, SLOW_OPEN, CASE = sys.argv[3:9]
HUGE = 300 << 20  # more than is tried
FILE_BYTES = 4096 + 9 * 8  # of the counters page
COUNTED = "as it was counted: to read the log takes longer"


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


def case_counted():
    """What is counted is what is replayed."""
    with tempfile.TemporaryDirectory() as folder:
        log = run(folder, BENCHMARK, LD_LIBRARY_PATH=DRIVER)
        summary = report(log)
        said = text("report", "--short", "--within", "0.001", log)
        expect(COUNTED in said.splitlines()[0], f"it was fast enough: {said}")
        peak = summary["metrics"]["device.peak_bytes"]
        expect(f"Peak device memory (GPU 0): {peak} bytes\n" in said, f"the peak is {peak}: {said}")
        usable = int(re.search(r"^Peak host heap \(usable, within 64 KiB a thread\): (\d+) bytes$", said, re.M)[1])
        exact = summary["metrics"]["host.kind.heap.usable_peak_bytes"]
        expect(abs(usable - exact) <= 8 * (64 << 10), f"usable heap {usable}, replayed {exact}")
        expect("Peak host heap: " not in said, f"another figure has the name of the one that is replayed: {said}")
        expect(f"{summary['quality']['device_events']} device events" in said, said)
        expect(f"next: gpupeak report {log}" in said, said)
        whole = text("report", "--short", "--within", "1000", log)
        expect(whole == text("report", "--short", log) and COUNTED not in whole, f"in time it differs: {whole}")
        hidden = text("report", "--short", "--within", "0.001", "--confidential", log)
        expect("x.gplog" not in hidden, f"the name of the log is told: {hidden}")


def case_names():
    """Where the names take too long, all else is there, and a word that they are not."""
    with tempfile.TemporaryDirectory() as folder:
        log = run(folder, BENCHMARK, LD_LIBRARY_PATH=DRIVER)
        slow = dict(LD_PRELOAD=SLOW_OPEN, SLOW_FILE=os.path.basename(BENCHMARK))
        named = text("report", "--short", log).splitlines()
        said = text("report", "--short", "--within", "3", log, **slow)
        lines = said.splitlines()
        expect(COUNTED not in said and lines[0] == named[0], f"not as it is with names: {said}")
        place = os.path.basename(BENCHMARK) + "+0x"
        expect(place in said and not any(place in line for line in named), f"the sites have names or are none: {said}")
        hint = "of it has no names yet: the libraries' symbols take longer to read"
        expect(hint in said and hint not in "".join(named), said)


def case_died():
    """Who reads the names may die of them: `run` ends as the program did, and tells all but the names."""
    with tempfile.TemporaryDirectory() as folder:
        said = text("run", "-o", os.path.join(folder, "x.gplog"), "--", MUCH, code=9, LD_PRELOAD=SLOW_OPEN,
                    SLOW_FILE=os.path.basename(MUCH), OPEN_KILLS="1")
        expect("gpupeak: peak " in said and "has no names yet" in said and "exit 9" in said, said)


def case_losses():
    """What is lost, and that the program has no end, is said before any figure."""
    with tempfile.TemporaryDirectory() as folder:
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        said = text("report", "--short", "--within", "0.001", run(folder, MUCH, code=9, prepare=limit))
        expect("EVENTS LOST" in said.splitlines()[0], said)
        said = text("report", "--short", "--within", "0.001", run(folder, "sh", "-c", "kill -9 $$", code=128 + signal.SIGKILL))
        expect("log without an end" in said.splitlines()[0] and "killed by signal 9" in said, said)
        said = text("report", "--short", "--within", "0.001", run(folder, MUCH, code=9, GPUPEAK_LOG_MAX="1MiB"))
        expect("reached its limit" in said.splitlines()[0], said)
        said = text("report", "--short", "--within", "0.001", run(folder, MUCH, code=9, GPUPEAK_HOST="off"))
        expect("host heap" not in said and "Peak host" not in said, f"what was not counted is told: {said}")
    text("report", "--short", "--within", "1", MUCH, code=3)
    text("report", "--within", "1", MUCH, code=2)


def case_huge():
    """A log that is far too long for a second, made so by a hole: with `run` and without, which must not make anybody wait."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "x.gplog")
        wanted = dict(GPUPEAK_SUMMARY_WITHIN="1", GPUPEAK_LOG_MAX="off")
        recorded = environment(folder, True, GPUPEAK_OUT=log, **wanted)
        recorded["GPUPEAK_SUMMARY"] = "on"
        for command, variables in (([GPUPEAK, "run", "-o", log, "--compress", "never", "--"], environment(folder, False) | wanted),
                                   ([], recorded)):
            running = subprocess.Popen([*command, WAITS, "waits"], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            expect(running.stdout.readline() == b"ready\n", "the program is not ready")
            with open(log, "r+b") as file:
                os.truncate(log, HUGE + (64 << 20))
                file.seek(FILE_BYTES)
                file.write(struct.pack("<Q", HUGE))
            said = running.communicate(b"x")[1].decode()
            expect(running.returncode == 0 and COUNTED in said, f"exit {running.returncode}: {said}")
            expect(re.search(r"^Peak host heap \(usable, .*: \d+ bytes$", said, re.M), said)
            expect(text("report", "--short", log).startswith("gpupeak: peak "), "the report cannot read it")
            os.unlink(log)


run_checks(globals()[f"case_{CASE}"])
