#!/usr/bin/env python3
"""Compares a log's device events with CUPTI's memory records of the same run, to the byte.

usage: compare.py GPUPEAK NAME LOG CUPTI_RECORDS [--module LIBRARY BYTES]

Prints a Markdown row for each kind. With --module, also checks that the peak of what was allocated below
LIBRARY's frames is BYTES (what a framework says its allocator reserved). Exit code 1 on any difference.
"""
import collections
import os
import re
import subprocess
import sys

gpupeak, name, log, cupti_path = sys.argv[1:5]
library, library_bytes = (sys.argv[6], int(sys.argv[7])) if len(sys.argv) > 6 else (None, None)

# CUPTI records registered memory as pinned. Of cuMemCreate's memory it records some of the mappings, as device
# memory at their address: those are shown beside, not compared.
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
    reserved = set()
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

    dump = subprocess.Popen([gpupeak, "export", "events", log], stdout=subprocess.PIPE, text=True, errors="replace")
    for line in dump.stdout:
        if line.startswith("node "):
            f = line.split()
            # a Python frame has no module
            nodes[int(f[1])] = (int(f[3]), int(f[7]) if len(f) > 7 and f[6] == "module" else 0)
        elif line.startswith("module "):
            f = line.split(maxsplit=6)
            modules[int(f[1])] = f[-1].strip()
        elif " device_alloc " in line:
            m = re.search(r"device_alloc id (\d+) kind (\S+) device \S+ (\S+) bytes (\d+) api \S+ stack (\d+)", line)
            block, kind, address, size, stack = int(m[1]), m[2], int(m[3], 16), int(m[4]), int(m[5])
            if kind == "device.vmm_va":
                reserved.add(address)
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
        sys.exit(f"gpupeak export events {log} failed")
    return kinds, below_library, failed, unknown, reserved


def read_cupti(reserved):
    kinds = collections.defaultdict(Totals)
    with open(cupti_path) as file:
        for line in file:
            operation, kind, address, size = line.split()
            if kind == "linear" and int(address, 16) in reserved:
                kind = "device.vmm"
            if operation == "alloc":
                kinds[kind].allocate(int(size))
            else:
                kinds[kind].free(int(size))
    return kinds


ours, below_library, failed, unknown, reserved = read_log()
theirs = read_cupti(reserved)
same = True
for kind in sorted(set(theirs) | set(ours)):
    mine, cupti = ours.get(kind, Totals()), theirs.get(kind, Totals())
    row, their_row = (f"{t.alloc_bytes:,} in {t.alloc_count}" if t.alloc_count else "–" for t in (mine, cupti))
    if kind in ("device.vmm", "device.vmm_va", "device.imported", "host.vmm", "device_static", "managed_static"):
        verdict = "variables of modules" if kind.endswith("static") else "not comparable"
    elif (mine.alloc_bytes, mine.alloc_count, mine.peak) == (cupti.alloc_bytes, cupti.alloc_count, cupti.peak):
        verdict = "equal"
    else:
        verdict = "**DIFFERS**"
        same = False
    print(f"| {name} | {kind.replace('device.', '')} | {row} | {their_row} | {verdict} | {mine.peak:,} | "
          f"{cupti.peak if cupti.alloc_count else '–':{',' if cupti.alloc_count else ''}} |")
if library is not None:
    equal = below_library.peak == library_bytes
    same = same and equal
    print(f"| {name} | below {library} | peak {below_library.peak:,} | the framework says {library_bytes:,} | "
          f"{'equal' if equal else '**DIFFERS**'} | | |")
if failed or unknown:
    print(f"| {name} | failed allocations {failed}, frees of unknown pointers {unknown} | | | | | |")
sys.exit(0 if same else 1)
