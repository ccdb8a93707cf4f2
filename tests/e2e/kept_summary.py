"""The summary of a large log is kept: the next report comes at once and says the same. It is made anew if names may have changed.

usage: kept_summary.py LIBGPUPEAK GPUPEAK MUCH MANY_PROCESSORS CASE
"""
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, Skipped, environment, expect, run_checks

MUCH, MANY_PROCESSORS, CASE = sys.argv[3:6]


class Place:
    """A folder with a program of its own, its log and a cache."""

    def __init__(self, folder):
        self.program, self.log, self.cache = (os.path.join(folder, name) for name in ("program", "x.gplog", "cache"))
        self.folder = folder
        os.mkdir(self.cache)
        shutil.copy(MUCH, self.program)

    def run(self, *options, **variables):
        subprocess.run([GPUPEAK, "run", "-q", "-o", self.log, *options, "--", self.program, "1", "5"], check=False, stdout=subprocess.DEVNULL,
                       env=dict(environment(self.folder, False), GPUPEAK_HOST="full", XDG_CACHE_HOME=self.cache, **variables))
        expect(os.path.exists(self.log), "there is no log")

    def report(self, *options, cache=None):
        environment_ = dict(os.environ, XDG_CACHE_HOME=cache or self.cache)
        environment_.pop("DEBUGINFOD_URLS", None)
        return subprocess.run([GPUPEAK, "report", *options, self.log], stdout=subprocess.PIPE, text=True, check=True, env=environment_).stdout

    def anew(self, *options):
        return self.report(*options, cache="/proc/no such folder")

    def kept(self):
        """Kept files, each with the time of its last use (a read or a write)."""
        folder = os.path.join(self.cache, "gpupeak", "summaries")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in names}


def case_report():
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        place.run("--compress", "never")
        expect(os.path.getsize(place.log) > 32 << 20, f"the log has {os.path.getsize(place.log)} bytes only")
        expect(not place.kept(), "something was kept before anybody asked")
        first = place.report("--json")
        kept = place.kept()
        expect(len(kept) == 1 and first == place.anew("--json"), f"not kept, or another report: {kept}")
        for options in ((), ("--json",), ("--full",), ("--short",), ("--csv",)):
            anew = place.anew(*options)
            expect(place.report(*options) == anew, f"report {options} says something else")
            used, kept = kept, place.kept()
            expect(len(kept) == 1 and kept != used, f"report {options} did not use what was kept")
        named = re.compile(r"\bwork\b")
        expect(named.search(place.report()), f"the function's name is not there: {place.report()}")
        if shutil.which("strip") is None:
            raise Skipped("no strip to take names away with")
        subprocess.run(["strip", place.program], check=True)
        expect(not named.search(place.report()), "a name that the program no longer has")
        shutil.copy(MUCH, os.path.join(folder, "program.debug"))
        subprocess.run(["objcopy", "--add-gnu-debuglink=program.debug", place.program], cwd=folder, check=True)
        expect(named.search(place.report()), f"a name that the debug file has is missing: {place.report()}")


def begin_beside(place, end, **variables):
    """A run on a machine with processors to spare, whose log is to be compressed."""
    running = subprocess.Popen([GPUPEAK, "run", "-o", place.log, "--compress", "always", "--", place.program, "1", "5"],
                               stderr=end, stdout=subprocess.DEVNULL,
                               env=dict(environment(place.folder, False), GPUPEAK_HOST="full", XDG_CACHE_HOME=place.cache, LD_PRELOAD=MANY_PROCESSORS, **variables))
    os.close(end)
    return running


def read_all(source):
    """Reads until nobody writes any more."""
    said = b""
    try:
        while piece := os.read(source, 4096):
            said += piece
    except OSError:
        pass
    os.close(source)
    return said.decode()


def case_beside():
    """If processors are idle while the log is compressed, the summary is made meanwhile. Afterwards neither a person nor a script has to wait for it."""
    for ends in (pty.openpty, os.pipe):
        with tempfile.TemporaryDirectory() as folder:
            place = Place(folder)
            place.run("--compress", "always", LD_PRELOAD=MANY_PROCESSORS)
            expect(not place.kept(), "a summary for nobody")
            source, end = ends()
            running = begin_beside(place, end)
            said = read_all(source)
            expect(running.wait() == 9 and "compressed: " in said, f"exit {running.returncode}: {said}")
            expect(re.search(r"\bwork\b", said.split("compressed: ")[0]), f"the first screen was not whole at once: {said}")
            kept = place.kept()
            expect(len(kept) == 1, f"nothing was kept: {kept}")
            expect(place.report() == place.anew() and place.report("--json") == place.anew("--json"), "what was kept says something else")
            expect(len(place.kept()) == 1 and place.kept() != kept, "what was kept is not used")


def processes_of(folder):
    """Processes whose command line names the folder."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                if folder.encode() in file.read():
                    found.append(int(process))
        except OSError:
            continue  # the process has ended
    return found


def case_killed():
    """If `run` is killed meanwhile, no process stays behind."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        terminal, end = pty.openpty()
        running = begin_beside(place, end)
        while running.poll() is None and not any(name.endswith(".tmp") for name in os.listdir(folder)):
            time.sleep(0.001)
        expect(running.poll() is None and len(processes_of(folder)) == 2, f"nothing works beside it: {processes_of(folder)}")
        running.kill()
        running.wait()
        os.close(terminal)
        until = time.monotonic() + 60
        while processes_of(folder) and time.monotonic() < until:
            time.sleep(0.01)
        expect(not processes_of(folder), f"left behind: {processes_of(folder)}")
        expect(not place.kept(), "a summary of a log that was not finished")


run_checks(globals()[f"case_{CASE}"])
