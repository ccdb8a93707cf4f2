#!/usr/bin/env python3
"""A stack of 1,000 frames is kept whole; one of 1,500 is cut at its outer end, and counted.

usage: deep_stacks.py LIBGPUPEAK GPUPEAK PROGRAM
"""
import os
import re
import subprocess
import sys
import tempfile

MAX_FRAMES = 1024  # GPUPEAK_MAX_FRAMES
library, gpupeak, program = sys.argv[1:]


def record(folder, frames):
    """How deep the stack of the program's block is in the log, and whether the report says that stacks were cut."""
    log = os.path.join(folder, f"{frames}.gplog")
    subprocess.run([program, str(frames)], env=dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off"),
                   check=True)
    dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, check=True, text=True).stdout
    parents = dict(re.findall(r"^node (\d+) parent (\d+) ", dump, re.M))
    node = re.search(r" size 424242 .*stack (\d+)", dump).group(1)
    depth = 0
    while node != "0":
        node, depth = parents[node], depth + 1
    warnings = subprocess.run([gpupeak, "report", log], stdout=subprocess.PIPE, check=True, text=True).stdout
    return depth, "GP023" in warnings


with tempfile.TemporaryDirectory() as folder:
    for frames, whole in ((10, True), (300, True), (1000, True), (1500, False)):
        depth, cut = record(folder, frames)
        print(f"{frames} frames of its own: {depth} in the log{', said to be cut' if cut else ''}")
        assert cut != whole
        assert frames + 1 < depth < frames + 10 if whole else depth == MAX_FRAMES
