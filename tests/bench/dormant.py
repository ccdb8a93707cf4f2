#!/usr/bin/env python3
"""What a dormant recorder (GPUPEAK_HOST=counters, nobody has asked for more) costs, in instructions by callgrind, where no load of the
machine shows: what each program does at its start, once, is taken off, by a second run of another length.

usage: tests/bench/dormant.py LIBGPUPEAK
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY = os.path.abspath(sys.argv[1])
PYTHON = "import sys\nd = {}\nfor i in range(int(sys.argv[1])): d[i % 1000] = [str(i), (i, i)]"
NUMBERS = "import sys\nx = 1\nfor i in range(int(sys.argv[1])): x = x * 3 % 65537"
JSON = "import sys, json\nt = json.dumps([{'a': i, 'b': [i] * 5, 'c': 'x' * i} for i in range(200)])\nfor i in range(int(sys.argv[1])): json.loads(t)"
PROGRAMS = (  # name, command with the length as {}, two lengths
    ("python3, numbers", ("python3", "-c", NUMBERS, "{}"), 2000, 102000),
    ("python3, small objects", ("python3", "-c", PYTHON, "{}"), 2000, 52000),
    ("python3, JSON", ("python3", "-c", JSON, "{}"), 2, 42),
    ("sqlite3, inserts", ("sqlite3", ":memory:", "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<{}) insert into t select x, "
                          "hex(x) from c; select count(*) from t where b like '%9%';"), 200, 10200),
    ("awk, strings", ("gawk", "BEGIN {{ for (i = 0; i < {}; i++) a[i % 100] = a[i % 100 + 1] i % 7; }}"), 500, 10500),
)


def instructions(command, preload):
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))} | {"PYTHONHASHSEED": "0"}
        if preload:
            env.update(LD_PRELOAD=LIBRARY, GPUPEAK_HOST="counters", GPUPEAK_QUIET="1", GPUPEAK_OUT=os.path.join(folder, "l.gplog"))
        out = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/o", *command], env=env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, check=True).stderr
        return int(re.search(r"Collected : (\d+)", out).group(1))


def main():
    print("| program | native, M instructions | dormant | at the start, once, M |\n|---|---|---|---|")
    for name, command, short, long in PROGRAMS:
        if shutil.which(command[0]) is None:
            continue
        def run(length, preload):
            return instructions([word.format(length) for word in command], preload)
        short_native, long_native = run(short, False), run(long, False)
        short_dormant, long_dormant = run(short, True), run(long, True)
        native, dormant = long_native - short_native, long_dormant - short_dormant
        print(f"| {name} | {native / 1e6:.1f} | {100 * (dormant / native - 1):+.2f} % | {(short_dormant - short_native) / 1e6:.2f} |", flush=True)


main()
