#!/usr/bin/env python3
"""A program with gpupeak.h: nothing without the preload, phases with it.

usage: check_phases.py LIBGPUPEAK GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

library, gpupeak, program = sys.argv[1:4]
plain = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "a.gplog")
    environment = dict(os.environ, LD_PRELOAD=library, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off")
    environment.pop("GPUPEAK_RUN_PID", None)
    preloaded = subprocess.run([program], stdout=subprocess.PIPE, env=environment, check=True).stdout
    summary = json.loads(subprocess.run([gpupeak, "report", "--json", log], stdout=subprocess.PIPE, check=True).stdout)
assert plain == preloaded == b"done\n", (plain, preloaded)
phases = {phase["name"]: phase for phase in summary["phases"]}
print(json.dumps(phases, indent=1))
for name, parent, peak in (("load", "main", 2000000), ("inner", "load", 2000000)):
    assert phases[name]["source"] == "api" and phases[name]["parent"] == parent, phases[name]
    measured = phases[name]["metrics"]["host.peak_bytes"]
    assert peak <= measured < peak + 200000, (name, measured)
