#!/usr/bin/env python3
"""Compares a log's device events with CUPTI's memory records of the same run, to the byte.

usage: compare.py GPUPEAK NAME LOG CUPTI_JSON [--module LIBRARY BYTES]

Prints a Markdown row for each kind. With --module, also checks that the peak of what was allocated below
LIBRARY's frames is BYTES (what a framework says its allocator reserved). Exit code 1 on any difference.
"""
import collections
import json
import os
import re
import subprocess
import sys

gpupeak, name, log, cupti_path = sys.argv[1:5]
library, library_bytes = (sys.argv[6], int(sys.argv[7])) if len(sys.argv) > 6 else (None, None)

# CUPTI records registered memory as pinned, and knows nothing of cuMemCreate.
CUPTI_KIND = {"device.linear": "linear", "device.pool": "pool", "host.pinned": "pinned",
              "host.registered": "pinned", "device.managed": "managed", "device.array": "array"}


class Totals:
    def __init__(self):
        self.alloc_bytes = self.alloc_count = self.free_bytes = self.free_count = 0
        self.live = self.peak = 0

    def allocate(self, size, count=1):
        self.alloc_bytes += size * count
        self.alloc_count += count
        self.live += size * count
        self.peak = max(self.peak, self.live)

    def free(self, size):
        self.free_bytes += size
        self.free_count += 1
        self.live -= size


def read_log():
    modules, nodes, blocks = {}, {}, {}
    kinds = collections.defaultdict(Totals)
    below_library = Totals()
    failed = unknown = 0

    def is_below(node):
        while node:
            parent, module = nodes[node]
            if os.path.basename(modules.get(module, "")).startswith(library):
                return True
            node = parent
        return False

    dump = subprocess.Popen([gpupeak, "dump", log], stdout=subprocess.PIPE, text=True, errors="replace")
    for line in dump.stdout:
        if line.startswith("node "):
            f = line.split()
            nodes[int(f[1])] = (int(f[3]), int(f[7]))
        elif line.startswith("module "):
            f = line.split(maxsplit=6)
            modules[int(f[1])] = f[-1].strip()
        elif " device_alloc " in line:
            m = re.search(r"device_alloc id (\d+) kind (\S+) device \S+ \S+ bytes (\d+) api \S+ stack (\d+)", line)
            block, kind, size, stack = int(m[1]), m[2], int(m[3]), int(m[4])
            below = library is not None and kind in ("device.linear", "device.pool", "device.vmm") and is_below(stack)
            blocks[block] = (kind, size, below)
            kinds[CUPTI_KIND.get(kind, kind)].allocate(size)
            if below:
                below_library.allocate(size)
        elif " device_free " in line:
            kind, size, below = blocks[int(re.search(r"device_free id (\d+)", line)[1])]
            kinds[CUPTI_KIND.get(kind, kind)].free(size)
            if below:
                below_library.free(size)
        elif " device_revive " in line:
            kind, size, below = blocks[int(re.search(r"device_revive id (\d+)", line)[1])]
            kinds[CUPTI_KIND.get(kind, kind)].free(-size)
        failed += " device_failed " in line
        unknown += " device_unknown " in line
    if dump.wait() != 0:
        sys.exit(f"gpupeak dump {log} failed")
    return kinds, below_library, failed, unknown


ours, below_library, failed, unknown = read_log()
with open(cupti_path) as file:
    theirs = json.load(file)
same = True
for kind in sorted(set(theirs) | set(ours)):
    mine, cupti = ours.get(kind, Totals()), theirs.get(kind)
    row = f"{mine.alloc_bytes:,} in {mine.alloc_count}"
    if kind in ("device.vmm", "device.vmm_va", "device.imported", "host.vmm"):
        print(f"| {name} | {kind.split('.')[1]} | {row} | – | – | {mine.peak:,} | – |")
        continue
    if kind in ("device_static", "managed_static"):  # variables of modules: no call hands them out
        print(f"| {name} | {kind} | – | {cupti['alloc_bytes']:,} in {cupti['alloc_count']} | modules' own | | |")
        continue
    if cupti is None:
        cupti = {"alloc_bytes": 0, "alloc_count": 0, "free_bytes": 0, "free_count": 0, "peak_bytes": 0}
    equal = (mine.alloc_bytes == cupti["alloc_bytes"] and mine.alloc_count == cupti["alloc_count"]
             and mine.peak == cupti["peak_bytes"])
    same = same and equal
    print(f"| {name} | {kind} | {row} | {cupti['alloc_bytes']:,} in {cupti['alloc_count']} | "
          f"{'equal' if equal else '**DIFFERS**'} | {mine.peak:,} | {cupti['peak_bytes']:,} |")
if library is not None:
    equal = below_library.peak == library_bytes
    same = same and equal
    print(f"| {name} | below {library} | peak {below_library.peak:,} | the framework says {library_bytes:,} | "
          f"{'equal' if equal else '**DIFFERS**'} | | |")
if failed or unknown:
    print(f"| {name} | failed allocations {failed}, frees of unknown pointers {unknown} | | | | | |")
sys.exit(0 if same else 1)
