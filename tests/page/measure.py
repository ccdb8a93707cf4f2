#!/usr/bin/env python3
"""Measures what a log of ten million events costs: the page (written, its size, opened in headless Chromium) and every
export. Prints the tables of docs/performance.md.

usage: measure.py GPUPEAK PAGE_LOG [NODE CHROMIUM MODULES]
"""
import os
import re
import subprocess
import sys
import tempfile
import time

GPUPEAK, PAGE_LOG = sys.argv[1:3]
BROWSER = sys.argv[3:6]
HERE = os.path.dirname(os.path.abspath(__file__))
FORMATS = ("massif", "heaptrack", "pprof", "chrome", "speedscope", "folded", "sqlite", "mxnet-csv", "csv")


def measured(*command):
    """Wall seconds, processor seconds, peak resident MiB."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command} gives {child.returncode}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    with tempfile.TemporaryDirectory() as folder:
        log, page = os.path.join(folder, "big.gplog"), os.path.join(folder, "big.html")
        subprocess.run([PAGE_LOG, "big", log], check=True)
        print(f"log: {os.path.getsize(log) / 2**20:.1f} MiB\n")
        print("| what | seconds | of processor | peak RSS MiB | MiB written |\n|---|---|---|---|---|")
        rows = [("report --html", ["report", "--html", page, log], page), ("report --json", ["report", "--json", log], None)]
        for name in FORMATS:
            out = os.path.join(folder, name)
            rows.append((f"export {name}", ["export", name, log, "-o", out], out))
        for name, command, out in rows:
            wall, processor, rss = measured(GPUPEAK, *command)
            size = f"{os.path.getsize(out) / 2**20:.2f}" if out else ""
            print(f"| `{name}` | {wall:.1f} | {processor:.1f} | {rss:.0f} | {size} |", flush=True)
        if BROWSER:
            node, chromium, modules = BROWSER
            done = subprocess.run([node, os.path.join(HERE, "browse.mjs"), "big", page, chromium, modules, folder], check=True,
                                  stdout=subprocess.PIPE)
            print("\nopened in headless Chromium after " + re.search(rb"open after (\d+) ms", done.stdout)[1].decode() + " ms")


main()
