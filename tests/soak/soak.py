#!/usr/bin/env python3
"""Real programs with and without the preload, and kills at random instants. tests/soak.sh calls it.

usage: soak.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER ACKNOWLEDGE [--kills N] [--only NAME] [--seed N]

Prints Markdown. Exit code 1: a program behaved otherwise, a log could not be read, or an acknowledged event was lost.
"""
import argparse
import collections
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("command")
parser.add_argument("driver")
parser.add_argument("acknowledge")
parser.add_argument("--kills", type=int, default=1000)
parser.add_argument("--only")
parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
options = parser.parse_args()
failures = []


def report(log):
    done = subprocess.run([options.command, "report", "--json", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def run(command, folder, preload):
    work = os.path.join(folder, "work")  # the same path both times
    os.mkdir(work)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    environment.update(LC_ALL="C.UTF-8", TMPDIR=work)
    if preload:
        environment.update(LD_PRELOAD=options.library, GPUPEAK_OUT=os.path.join(folder, "%n.%p.gplog"),
                           GPUPEAK_CHILDREN="all", GPUPEAK_SUMMARY="off")
    # A session of its own: what it leaves running is ended with it.
    program = subprocess.Popen(["bash", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        out, _ = program.communicate(timeout=120)
        code = program.returncode
    except subprocess.TimeoutExpired:
        out, code = b"", "no end within 120 s"
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()
    shutil.rmtree(work, ignore_errors=True)
    return code, out


def soak(name, command):
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        native = run(command, folder, False)
        preloaded = run(command, folder, True)
        logs = glob.glob(os.path.join(folder, "*.gplog"))
        events = unread = repaired = 0
        for log in logs:
            summary = report(log)
            if summary is None:
                unread += 1
                continue
            events += summary["quality"]["events"]
            repaired += summary["quality"]["repairs"]
        problems = []
        if native[0] != preloaded[0]:
            problems.append(f"exit {preloaded[0]}, not {native[0]}")
        if native[1] != preloaded[1]:
            problems.append("other output")
        if unread:
            problems.append(f"{unread} logs cannot be read")
        if problems:
            failures.append(name)
        # Said by the report too: code that reaches the C library past us (RTLD_DEEPBIND) frees what it did not allocate.
        doubts = f", {repaired} events contradicted others" if repaired else ""
        return len(logs), events, (", ".join(problems) or "same") + doubts


def programs():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, command = line.split(" | ", 1)
                if shutil.which(name) and options.only in (None, name):
                    yield name, command.strip()


def soak_all():
    print("| program | processes recorded | events | exit code and output |\n|---|---|---|---|")
    seen = collections.Counter()
    total = 0
    for name, command in programs():
        seen[name] += 1
        logs, events, result = soak(name, command)
        total += events
        title = name if seen[name] == 1 else f"{name} ({seen[name]})"
        print(f"| {title} | {logs} | {events} | {result} |", flush=True)
    print(f"\n{sum(seen.values())} runs of {len(seen)} programs, {total} events; {len(failures)} otherwise"
          f"{': ' + ', '.join(failures) if failures else ''}.")


def kill_many():
    """Of the device events that the program has been told of, none may be missing in its log."""
    chance = random.Random(options.seed)
    acknowledged = recorded = lost = unread = started = 0
    for _ in range(options.kills):
        with tempfile.TemporaryDirectory() as folder:
            count, log = os.path.join(folder, "count"), os.path.join(folder, "a.gplog")
            environment = dict(os.environ, LD_LIBRARY_PATH=options.driver, LD_PRELOAD=options.library, GPUPEAK_OUT=log,
                               GPUPEAK_SUMMARY="off", GPUPEAK_LEDGER="off")
            program = subprocess.Popen([options.acknowledge, count], env=environment)
            time.sleep(chance.uniform(0.005, 0.15))
            program.kill()
            program.wait()
            if not os.path.exists(count) or os.path.getsize(count) < 64:
                continue
            with open(count, "rb") as file:
                told = sum(struct.unpack("<8Q", file.read(64)))
            if told == 0:
                continue
            started += 1
            summary = report(log)
            if summary is None:
                unread += 1
                continue
            acknowledged += told
            recorded += summary["quality"]["device_events"]
            lost += max(0, told - summary["quality"]["device_events"])
    print(f"\n{options.kills} kills at random instants (seed {options.seed}), {started} of them after the first event: {acknowledged} device "
          f"events acknowledged, {recorded} recorded, {lost} lost, {unread} logs unreadable.")
    if lost or unread:
        failures.append("kills")


soak_all()
if options.kills:
    kill_many()
sys.exit(1 if failures else 0)
