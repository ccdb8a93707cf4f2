#!/usr/bin/env python3
"""What plugins map that lie at one address after each other is said to be each one's own, though the program has its own malloc.

usage: own_malloc.py LIBGPUPEAK GPUPEAK PROGRAM MANAGER PLUGIN
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

library, gpupeak, program, manager, plugin = sys.argv[1:]
ROUNDS, CALLS = 5, 4
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    plugins = [shutil.copy(plugin, os.path.join(folder, name)) for name in ("first.so", "second.so")]
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    subprocess.run([program, manager, *plugins], env=environment, check=True)
    dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, text=True, check=True).stdout

paths = {number: path for number, path in re.findall(r"^module (\d+) .* (\S+)$", dump, re.M)}
nodes = {number: (parent, paths.get(module)) for number, parent, module in
         re.findall(r"^node (\d+) parent (\d+) ip \S+ module (\d+)", dump, re.M)}


def plugins_of(stack):
    while stack in nodes:
        stack, path = nodes[stack]
        if path in plugins:
            yield os.path.basename(path)


mapped = collections.Counter()
for size, stack in re.findall(r" map \S+ bytes (\d+) .*kind host.mmap_anon stack (\d+)", dump):
    for name in plugins_of(stack):
        mapped[name, int(size)] += 1
print(dict(mapped))
expected = {("first.so", 1 << 20): ROUNDS * CALLS, ("second.so", 2 << 20): ROUNDS * CALLS}
sys.exit(0 if mapped == expected else f"expected {expected}")
