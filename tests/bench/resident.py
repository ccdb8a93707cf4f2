#!/usr/bin/env python3
"""What is resident of real programs, by cause, beside what the kernel says.

usage: tests/bench/resident.py [FOLDER] [NAME…]

FOLDER: a build folder (build/release). NAME: of the programs; all that are installed if none is named. Each runs below
`gpupeak run`. Meanwhile Rss of /proc/PID/smaps_rollup of the largest of its processes is read fifty times a second; then
the causes of that process's report, which add up to host.resident.total_bytes, are put beside it. Prints a Markdown
table, and fails where more than 2 % is unexplained.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from host_inputs import programs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
CAUSES = (("heap", "heap_bytes"), ("kept by malloc", "kept_by_malloc_bytes"), ("mappings", "mappings_bytes"), ("stacks", "thread_stacks_bytes"),
          ("static data", "static_data_bytes"), ("files", "files_bytes"), ("shared", "shared_memory_bytes"), ("inherited", "inherited_bytes"), ("gpupeak", "gpupeak_bytes"))


def descendants(process):
    found, next_ones = [], [process]
    while next_ones:
        one = next_ones.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="utf-8") as file:
                    next_ones += [int(child) for child in file.read().split()]
        except OSError:
            pass
        found.append(one)
    return found[1:]


def kernel_says(process):
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
            return int(re.search(r"^Rss:\s+(\d+)", file.read(), re.M)[1]) << 10
    except (OSError, TypeError):
        return 0


def run(gpupeak, name, command, folder):
    """The largest process's pid, what the kernel said of it at most, and its report; or what went wrong."""
    place = os.path.join(folder, f"log.{name}")  # another user's is not written over
    os.makedirs(place, exist_ok=True)
    os.chmod(place, 0o777)
    log = os.path.join(place, "a.gplog")
    # PostgreSQL refuses to run as root.
    other_user = ["runuser", "-u", "postgres", "--"] if name == "postgres" and os.geteuid() == 0 else []
    with open(os.path.join(folder, "errors"), "w", encoding="utf-8") as errors:
        process = subprocess.Popen([*other_user, gpupeak, "run", "-q", "-o", log, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder)
    most = {}
    while process.poll() is None:
        for one in descendants(process.pid):
            most[one] = max(most.get(one, 0), kernel_says(one))
        time.sleep(0.02)
    if process.returncode != 0:
        with open(os.path.join(folder, "errors"), encoding="utf-8") as errors:
            return f"ends with {process.returncode}: {errors.read()[-200:]}"
    pid = max(most, key=most.get)
    for one in (f"{log}#{pid}", log):
        report = subprocess.run([gpupeak, "report", "--json", one], capture_output=True, check=False)
        if report.returncode == 0 and json.loads(report.stdout)["run"]["pid"] == pid:
            return pid, most[pid], json.loads(report.stdout)
    return f"pid {pid}, of {most[pid] / MIB:.1f} MiB, left no log"


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = sys.argv[1:]
    build = os.path.abspath(words.pop(0)) if words and os.path.isdir(words[0]) else os.path.join(ROOT, "build/release")
    gpupeak, wrong = os.path.join(build, "tools/gpupeak"), []
    print(f"| program | smaps_rollup | causes together | {' | '.join(name for name, _ in CAUSES)} | unexplained |")
    print("|---" * (len(CAUSES) + 4) + "|")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for name, command in programs(folder).items():
            if (words and name not in words) or (name not in ("cc1plus", "ld", "lua", "postgres", "git", "awk", "xz") and not shutil.which(name)) or not shutil.which(command[0]):
                continue
            found = run(gpupeak, name, command, folder)
            if isinstance(found, str):
                print(f"| {name} | {found.strip()} |", flush=True)
                continue
            pid, most, report = found
            metrics = {key.removeprefix("host.resident."): value for key, value in report["metrics"].items() if key.startswith("host.resident.")}
            total, rest = metrics.get("total_bytes"), metrics.get("unexplained_bytes")
            if not total:
                print(f"| {name} | {most / MIB:.1f} | not measured |", flush=True)
                continue
            cells = [f"{metrics[key] / MIB:.1f}" if metrics.get(key) is not None else "" for _, key in CAUSES]
            share = None if rest is None else 100 * rest / total
            print(f"| {name} | {most / MIB:.1f} | {total / MIB:.1f} | {' | '.join(cells)} | {'not known' if share is None else f'{rest / MIB:.1f} ({share:.2f} %)'} |", flush=True)
            if share is None or share > 2:
                wrong.append(name)
    if wrong:
        sys.exit(f"more than 2 % without a cause: {', '.join(wrong)}")


main()
