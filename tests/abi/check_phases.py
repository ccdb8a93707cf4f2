#!/usr/bin/env python3
"""A program with gpupeak.h: nothing without the preload, phases, marks, tags, arenas and usage with it.

usage: check_phases.py LIBGPUPEAK GPUPEAK PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile

library, gpupeak, program = sys.argv[1:4]
plain = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "a.gplog")
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    preloaded = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=True)
    summary = json.loads(subprocess.run([gpupeak, "report", "--json", log], stdout=subprocess.PIPE, check=True).stdout)
    text = subprocess.run([gpupeak, "report", log], stdout=subprocess.PIPE, check=True, text=True).stdout
    dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, check=True, text=True).stdout
assert plain.stdout == preloaded.stdout == b"done\n", (plain, preloaded)
assert plain.stderr == b"", plain

phases = {phase["name"]: phase for phase in summary["phases"]}
print(json.dumps(phases, indent=1))
for name, parent, peak in (("load", "main", 2000000), ("inner", "load", 2000000), ("block", "main", 4000000)):
    assert phases[name]["source"] == "api" and phases[name]["parent"] == parent, phases[name]
    measured = phases[name]["metrics"]["host.peak_bytes"]
    assert peak <= measured < peak + 200000, (name, measured)

(mark,) = summary["marks"]
assert mark["name"] == "half way" and mark["source"] == "api" and mark["host_bytes"] < 200000, mark
assert "MARKS" in text and "half way" in text, text
assert re.search(r"tag_push weights", dump) and len(re.findall(r"tag_pop", dump)) >= 2, dump

truth = {name: int(value) for name, value in re.findall(r"truth (\S+) (\d+)", preloaded.stderr.decode())}
print(truth)
assert 4000000 <= truth["before.peak"] == truth["before.window"] == truth["after.peak"] < 4200000, truth
assert 500000 <= truth["after.window"] < 700000 and truth["after.live"] < 200000, truth
assert "none.live" not in truth, truth

(arena,) = summary["arenas"]
print(arena)
assert arena["name"] == "my pool" and arena["count"] == 1 and arena["capacity_bytes"] == 1 << 20, arena
assert arena["peak_bytes"] == 101000 and arena["live_bytes"] == 0 and arena["alloc_count"] == 5, arena
assert sum(part["bytes"] for part in arena["parts"]) + arena["other_bytes"] == 101000, arena
assert {(part["title"], part["bytes"]) for part in arena["parts"]} >= {("second", 70000), ("first", 1000)}, arena
assert "POOLS" in text and "my pool" in text, text
