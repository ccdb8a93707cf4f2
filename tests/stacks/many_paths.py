#!/usr/bin/env python3
"""Every stack in the log of many_paths.cc is the one that the program had: each frame stands for the bit of the path.

usage: many_paths.py LIBGPUPEAK GPUPEAK PROGRAM WAY MINIMUM
MINIMUM: so many blocks must be in the log.
"""
import os
import re
import subprocess
import sys
import tempfile

library, gpupeak, program, way, minimum = sys.argv[1:]
LEVELS, FIRST, PAGE = 60, 100_000, 4096  # as in many_paths.cc
MASK = 2**64 - 1


def path_of(number):
    if way in ("callers", "middle"):
        return 0 if number == 0 else 1 << (number - 1)
    if way == "crossed":
        inner, outer, low = number // 4, (number + number // 4) % 4, 2 ** (LEVELS // 2) - 1
        return random_path(inner) & ~low | random_path(1000 + outer) & low
    return random_path(number)


def random_path(number):
    x = number * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def events(dump):
    """(number of the path, node of the stack) of each block; fills `parents` on the way."""
    block = re.compile(r" alloc 0x[0-9a-f]+ size (\d+) .*stack (\d+)$")
    if way == "jumps":
        block = re.compile(r" map 0x[0-9a-f]+ bytes (\d+) .*stack (\d+)$")
    for line in dump:
        node = re.match(r"node (\d+) parent (\d+) ip (0x[0-9a-f]+)", line)
        if node:
            parents[int(node[1])] = int(node[2]), node[3]
            continue
        found = block.search(line.rstrip())
        if found:
            size = int(found[1]) // (PAGE if way == "jumps" else 1)
            if size >= FIRST:
                yield size - FIRST, int(found[2])


parents = {}
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_HOST="full", GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    subprocess.run([program, way], env=environment, check=True)
    dump = os.path.join(folder, "dump")
    with open(dump, "w") as out:
        subprocess.run([gpupeak, "export", "events", log], stdout=out, check=True)
    with open(dump) as text:
        blocks = list(events(text))

node_of, known = {}, [{}, {}]
wrong = 0
for number, node in blocks:
    if node_of.setdefault(number, node) != node:
        print(f"path {number} has the stacks {node_of[number]} and {node}")
        wrong += 1
for number, node in node_of.items():
    frames = []
    while node != 0:
        node, ip = parents[node]
        frames.append(ip)
    if len(frames) < 2 + 2 * LEVELS:
        print(f"path {number} has {len(frames)} frames")
        wrong += 1
        continue
    # From the inside: allocate, descend, and for each level the function that was called, and descend.
    path = path_of(number)
    for level in range(LEVELS):
        bit = path >> level & 1
        ip = frames[2 + 2 * (LEVELS - 1 - level)]
        if known[bit].setdefault(0, ip) != ip or known[1 - bit].get(0) == ip:
            print(f"path {number} ({path:x}) has {ip} at level {level}")
            wrong += 1
print(f"{len(blocks)} blocks from {len(node_of)} paths, {wrong} wrong")
sys.exit(0 if wrong == 0 and len(blocks) >= int(minimum) else 1)
