#!/usr/bin/env python3
"""Runs programs whose threads are stopped by signals many times, in every host mode, and prints how often each went otherwise than
without the library: took longer than a minute, or ended in another way.

usage: stops.py LIBGPUPEAK RUNS PROGRAM [ARGUMENT…] [-- PROGRAM [ARGUMENT…]]…

For instance: stops.py libgpupeak.so 1000 hazard_stop_world map -- hazard_stop_world start -- hazard_collected 20
"""
import os
import subprocess
import sys
import tempfile
import time

MODES = ("full", "auto", "sampled", "counters", "off")
SECONDS = 60


def outcome(command, folder, library=None, mode=None):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    if library:
        variables.update(LD_PRELOAD=library, GPUPEAK_OUT=os.path.join(folder, "log.gplog"), GPUPEAK_HOST=mode, GPUPEAK_SUMMARY="off")
    try:
        done = subprocess.run(command, env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS,
                              check=False)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return "stands still", b"", b""


def main():
    library, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    commands, rest = [], sys.argv[3:]
    while rest:
        end = rest.index("--") if "--" in rest else len(rest)
        commands.append([os.path.abspath(rest[0]), *rest[1:end]])
        rest = rest[end + 1:]
    print("| program | " + " | ".join(MODES) + " |\n|---|" + "---|" * len(MODES))
    failed = 0
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            alone = outcome(command, folder)
        row = []
        for mode in MODES:
            otherwise, begin = 0, time.monotonic()
            for _ in range(runs):
                with tempfile.TemporaryDirectory() as folder:
                    otherwise += outcome(command, folder, library, mode) != alone
            row.append(f"{otherwise} of {runs}, {time.monotonic() - begin:.0f} s")
            failed += otherwise
        print(f"| {' '.join([os.path.basename(command[0]), *command[1:]])} | " + " | ".join(row) + " |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
