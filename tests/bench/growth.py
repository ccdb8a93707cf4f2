#!/usr/bin/env python3
"""Counts the instructions of a report that the search for growth takes, by callgrind.

usage: tests/bench/growth.py GPUPEAK LOG...

GPUPEAK: the command, not stripped. Prints a Markdown table: a row for each log. Of what compilers inline (a comparison an
allocation) nothing is counted.
"""
import os
import re
import subprocess
import sys
import tempfile

# What the collector calls of it, with all that these call.
ENTRIES = ("HostGrowth::look", "HostGrowth::finish", "HostGrowth::note_time", "SteadyGrowth::take", "GrowthTable::instance_began",
           "GrowthTable::instance_ended", "collector::summarize_growth")


def counted(gpupeak, log, folder):
    file = os.path.join(folder, "callgrind.out")
    subprocess.run(["valgrind", "--tool=callgrind", "--separate-threads=no", f"--callgrind-out-file={file}", gpupeak, "report", "--color", "never", log],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": folder})
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", file], check=True, stdout=subprocess.PIPE, text=True).stdout
    found, total = {}, 0
    for line in text.splitlines():
        figures = re.match(r"\s*([\d,]+)\s+\(\s*[\d.]+%\)\s+(.*)$", line)
        if not figures:
            continue
        count = int(figures[1].replace(",", ""))
        if "PROGRAM TOTALS" in line:
            total = count
        for entry in ENTRIES:
            if re.search(rf"{entry}(<|\()", figures[2]):
                found[entry] = max(found.get(entry, 0), count)
    return total, found


def main():
    gpupeak, *logs = sys.argv[1:]
    print("| log | MB | million instructions | of growth | share |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for log in logs:
            total, found = counted(gpupeak, log, folder)
            growth = sum(found.values())
            print(f"| {os.path.basename(log)} | {os.path.getsize(log) / 1e6:.1f} | {total / 1e6:,.0f} | {growth / 1e6:,.1f} | {100 * growth / total:.2f} % |", flush=True)


main()
