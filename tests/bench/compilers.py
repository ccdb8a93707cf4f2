#!/usr/bin/env python3
"""What `gpupeak run` costs a build: make -j8 of two hundred small compilations, natively and below it.

usage: tests/bench/compilers.py [FOLDER] [--rounds=N]

FOLDER: a build folder (build/release). Prints a Markdown table: of N alternating rounds (9) the median and the least, by
the clock and in processor time of all processes, which a busy machine changes least. The compilations are as small as
they get, so that what a process costs to begin and to end counts most: each is the compiler's driver, the compiler and
the assembler, started by a shell.
"""
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = 200
SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct item { int number; struct item* next; };
int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
int main(int count, char** words) {
  int numbers[16] = {0};
  for (int i = 0; i < count; ++i) numbers[i % 16] += (int)strlen(words[i]);
  qsort(numbers, 16, sizeof *numbers, compare);
  for (int i = 0; i < 16; ++i) printf("%d\\n", numbers[i]);
  return 0;
}
"""


def timed(command, folder):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    rounds = next((int(word[9:]) for word in sys.argv[1:] if word.startswith("--rounds=")), 9)
    gpupeak = os.path.join(os.path.abspath(words[0]) if words else os.path.join(ROOT, "build/release"), "tools/gpupeak")
    with tempfile.TemporaryDirectory() as folder:
        for extension, compiler in (("c", "cc"), ("cc", "c++")):
            for i in range(FILES):
                with open(os.path.join(folder, f"{extension}{i}.{extension}"), "w", encoding="utf-8") as file:
                    file.write(SOURCE)
            with open(os.path.join(folder, f"Makefile.{extension}"), "w", encoding="utf-8") as file:
                file.write(f"all: {' '.join(f'{extension}{i}.o' for i in range(FILES))}\n%.o: %.{extension}\n\t@{compiler} -O0 -c $< -o $@ && :\n")
        print(f"| make -j8 of {FILES} | by the clock: native | gpupeak run | ratio of medians, of the least | processor time: native | gpupeak run | ratio of medians, of the least |")
        print("|---|---|---|---|---|---|---|")
        for extension, name in (("c", "cc -O0"), ("cc", "c++ -O0")):
            make = ["make", "-j8", "-s", "-B", "-f", f"Makefile.{extension}"]
            ways = {"native": make, "run": [gpupeak, "run", "-q", "-o", os.path.join(folder, "a.gplog"), "--", *make]}
            took = {way: [] for way in ways}
            for number in range(rounds + 1):
                for way, command in ways.items():
                    times = timed(command, folder)
                    if number > 0:  # the first brings files into memory
                        took[way].append(times)
            row = [name]
            for kind in (0, 1):
                native, run = ([times[kind] for times in took[way]] for way in ("native", "run"))
                row += [f"{statistics.median(native):.2f} s", f"{statistics.median(run):.2f} s",
                        f"{statistics.median(run) / statistics.median(native):.3f}, {min(run) / min(native):.3f}"]
            print("| " + " | ".join(row) + " |", flush=True)


main()
