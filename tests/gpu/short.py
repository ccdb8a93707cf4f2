#!/usr/bin/env python3
"""What `gpupeak run` adds to a CUDA program of a third of a second (short.cu), step by step.

usage: short.py PREFIX SECONDS [NAME=PREFIX…]

PREFIX: an installed gpupeak; further ones are compared with it. Needs nvcc and a GPU. For so many seconds each way is
run once in each turn, in a new order each time and with an empty cache. The driver's own start and end differ by tens of
milliseconds from run to run: below a hundred turns the figures do not tell 5 ms apart. "waits" is a program that only
starts the other one and waits for it. Prints means and medians of what is more than alone, in ms.
"""
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = ["start", "cuInit", "context", "memory", "first", "launches", "result", "end", "all"]


def main():
    prefix, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
    work = pathlib.Path(tempfile.mkdtemp())
    program = str(work / "short")
    here = pathlib.Path(__file__).parent
    subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-o", program, here / "short.cu", "-lcuda"], check=True)
    (work / "waits.c").write_text('#include <sys/wait.h>\n#include <unistd.h>\nint main(int n, char** words) { int status = n; if (vfork() == 0) { execv(words[1], words + 1); '
                                  "_exit(127); } wait(&status); return WEXITSTATUS(status); }\n")
    subprocess.run(["cc", "-O2", "-o", work / "waits", work / "waits.c"], check=True)

    def run(at, *options):
        return [f"{at}/bin/gpupeak", "run", *options, "-o", str(work / "x.gplog"), "--", program]
    ways = {"alone": [program], "waits": [str(work / "waits"), program], "run": run(prefix), "run -q": run(prefix, "-q"), "run --host off": run(prefix, "--host", "off")}
    for named in sys.argv[3:]:
        name, at = named.split("=")
        ways[name] = run(os.path.abspath(at))

    def once(command):
        with tempfile.TemporaryDirectory() as cache:
            begin = time.monotonic() * 1e3
            done = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True)
            end = time.monotonic() * 1e3
        at = [begin, *map(float, done.stdout.split()), end]
        return [after - before for before, after in zip(at, at[1:])] + [end - begin]

    took = {way: [] for way in ways}
    for command in ways.values():
        once(command)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for way in random.sample(list(ways), len(ways)):
            took[way].append(once(ways[way]))
    print(f"{len(took['alone'])} turns\n\n| way, more than alone | {' | '.join(STEPS)} | all, pairs |\n|{'---|' * (len(STEPS) + 2)}")
    for name, middle in (("mean", statistics.mean), ("median", statistics.median)):
        alone = [middle(step) for step in zip(*took["alone"])]
        print(f"| alone, {name} | {' | '.join(f'{step:.1f}' for step in alone)} | |")
        for way in list(ways)[1:]:
            more = [middle(step) - before for step, before in zip(zip(*took[way]), alone)]
            pairs = middle([ours[-1] - its[-1] for ours, its in zip(took[way], took["alone"])])
            print(f"| {way}, {name} | {' | '.join(f'{step:+.1f}' for step in more)} | {pairs:+.1f} |")


main()
