#!/usr/bin/env python3
"""Runs programs whose threads are stopped by signals or by a debugger many times, in every host mode, and prints how often each went otherwise
than without the library: took longer than a minute, or ended or printed otherwise.

usage: stops.py LIBGPUPEAK RUNS PROGRAM [ARGUMENT…] [-- PROGRAM [ARGUMENT…]]…

For instance: stops.py libgpupeak.so 1000 hazard_stop_world map 20 -- mono hazard_collected_mono 3 -- gdb hazard_stop_one marked 20

Behind `gdb` stands a program that gdb runs, with the library, and stops at each call of stop_here.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODES = ("full", "auto", "sampled", "counters", "off")
SECONDS = 60
# Next to nothing that differs from run to run is printed; the exit code is the program's.
GDB = ["gdb", "-q", "-nx", "-batch", "--return-child-result", "-iex", "set debuginfod enabled off", "-ex", "set print thread-events off",
       "-ex", "set print inferior-events off", "-ex", "set startup-with-shell off"]


def outcome(command, folder, library=None, mode=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    variables = {}
    if library:
        variables = dict(LD_PRELOAD=library, GPUPEAK_OUT=os.path.join(folder, "log.gplog"), GPUPEAK_HOST=mode, GPUPEAK_SUMMARY="off")
    if os.path.basename(command[0]) == "gdb":
        script = os.path.join(folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.writelines(f"set environment {name} {value}\n" for name, value in variables.items())
            file.write("break stop_here\ncommands\nsilent\ncontinue\nend\nrun\n")
        command = [*GDB, "-x", script, "--args", *command[1:]]
        variables = {}
    try:
        done = subprocess.run(command, env=env | variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=SECONDS, check=False)
        return done.returncode, re.sub(rb"\(process \d+\)", b"", done.stdout), done.stderr
    except subprocess.TimeoutExpired:
        return "stands still", b"", b""


def main():
    library, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    commands, rest = [], sys.argv[3:]
    while rest:
        end = rest.index("--") if "--" in rest else len(rest)
        words = [word if shutil.which(word) and "/" not in word or not os.path.exists(word) else os.path.abspath(word) for word in rest[:end]]
        commands.append(words)
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
                    seen = outcome(command, folder, library, mode)
                    otherwise += seen != alone
                    if seen != alone:
                        print(f"{command}, {mode}: {seen}, alone {alone}", file=sys.stderr, flush=True)
            row.append(f"{otherwise} of {runs}, {time.monotonic() - begin:.0f} s")
            failed += otherwise
        print(f"| {' '.join(map(os.path.basename, command))} | " + " | ".join(row) + " |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
