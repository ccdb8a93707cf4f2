#!/usr/bin/env python3
"""Runs programs, such as hazards and those whose threads are stopped by signals or by a debugger, many times in every host mode, and prints how
often each went otherwise than without the library: took too long, or ended or printed otherwise.

usage: stops.py [--jobs N] [--seconds S] [--limit S] [--list FILE] LIBGPUPEAK RUNS [PROGRAM [ARGUMENT…] [-- PROGRAM [ARGUMENT…]]…]

N runs at once; after S seconds no run is started. All programs and modes take turns, so that they have been run equally often whenever it ends.
A run may take S seconds (--limit; 60). FILE has a program and its arguments in each line; those that are not here are left out. It needs
python3 and the programs' folder alone, which may be a copy.

For instance: stops.py libgpupeak.so 1000 hazard_stop_world map 20 -- mono hazard_collected_mono 3 -- gdb hazard_stop_one marked 20

Behind `gdb` stands a program that gdb runs, with the library, and stops at each call of stop_here.
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODES = ("full", "auto", "sampled", "counters", "off")
STANDS_STILL = "stands still"
# Next to nothing that differs from run to run is printed; the exit code is the program's.
GDB = ["gdb", "-q", "-nx", "-batch", "--return-child-result", "-iex", "set debuginfod enabled off", "-ex", "set print thread-events off",
       "-ex", "set print inferior-events off", "-ex", "set startup-with-shell off"]


def outcome(command, folder, limit, library=None, mode=None):
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
                              timeout=limit, check=False)
        # What the library says of a program that confines itself is not the program's.
        return done.returncode, re.sub(rb"\(process \d+\)", b"", done.stdout), re.sub(rb"(?m)^gpupeak: .*\n", b"", done.stderr)
    except subprocess.TimeoutExpired:
        return STANDS_STILL, b"", b""


def options_of(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--list", type=argparse.FileType(encoding="utf-8"), default=())
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("runs", type=int)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    commands, rest = [line.split() for line in options.list], options.words
    while rest:
        end = rest.index("--") if "--" in rest else len(rest)
        commands.append(rest[:end])
        rest = rest[end + 1:]
    is_here = lambda words: shutil.which(words[0]) and all(os.path.exists(word) for word in words if word.startswith("./"))
    options.commands = [[word if shutil.which(word) and "/" not in word or not os.path.exists(word) else os.path.abspath(word) for word in words]
                        for words in commands if is_here(words)]
    for words in commands:
        if not is_here(words):
            print("not here:", *words, file=sys.stderr)
    return options


def main():
    options = options_of(sys.argv[1:])

    def run_alone(command):
        with tempfile.TemporaryDirectory() as folder:
            return outcome(command, folder, options.limit)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        alone = list(pool.map(run_alone, options.commands))
    for command, seen in zip(options.commands, alone):
        if seen[0] == STANDS_STILL:
            sys.exit(f"{command} does not end by itself")
    end = time.monotonic() + options.seconds
    tried, otherwise = collections.Counter(), collections.Counter()

    def run(which, mode):
        if time.monotonic() > end:
            return
        with tempfile.TemporaryDirectory() as folder:
            seen = outcome(options.commands[which], folder, options.limit, options.library, mode)
        tried[which, mode] += 1
        if seen != alone[which]:
            otherwise[which, mode] += 1
            print(f"{options.commands[which]}, {mode}: {repr(seen):.400}, alone {repr(alone[which]):.400}", file=sys.stderr, flush=True)

    turns = itertools.product(range(options.runs), MODES, range(len(options.commands)))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(run, which, mode) for _, mode, which in turns]:
            future.result()
    print("| program | " + " | ".join(MODES) + " |\n|---|" + "---|" * len(MODES))
    for which, command in enumerate(options.commands):
        row = [f"{otherwise[which, mode]} of {tried[which, mode]}" for mode in MODES]
        print(f"| {' '.join(map(os.path.basename, command))} | " + " | ".join(row) + " |")
    sys.exit(1 if otherwise else 0)


if __name__ == "__main__":
    main()
