#!/usr/bin/env python3
"""XLA's pool and programs through a stand-in: what the log says against the allocator's own statistics.

usage: check_xla.py PRELOAD GPUPEAK FOLDER_OF_CUDA CLIENT seen|not_seen LIBRARY [threads|wait]

seen: after every step in use and reserved are what the allocator says, to the byte, in the end the same blocks and the
same peak; programs are phases with their names. not_seen: the program runs as without, and the report says why.
"""
import json
import os
import subprocess
import sys
import tempfile

preload, gpupeak, cuda, client, expected, library = sys.argv[1:7]
what = sys.argv[7:]


def run(folder, name, **environment):
    log, truth = os.path.join(folder, name + ".gplog"), os.path.join(folder, name + ".truth")
    subprocess.run([client, truth, library, *what], check=True, timeout=100,
                   env=dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=cuda, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                            **environment))
    view, report = (json.loads(subprocess.run([gpupeak, *command], check=True, capture_output=True, text=True).stdout)
                    for command in (["pools", log, "--at", "last", "--json"], ["report", "--json", log]))
    return view, report, [line.split() for line in open(truth)]


def check(pools, report, truth):
    warnings = [w for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
    assert not warnings, warnings
    pool, = pools["pools"]
    assert pool["name"] == "XLA" and pool["device"] == 0 and pool["checks"] > 0 and pool["contradictions"] == 0, pool
    marks = {m["name"]: m["pools"] for m in pools["marks"]}
    for _, name, in_use, reserved in (t for t in truth if t[0] == "mark"):
        found, = marks[name]
        assert (found["in_use_bytes"], found["reserved_bytes"]) == (int(in_use), int(reserved)), (name, found, in_use, reserved)
    seen = sorted((b["address"], b["bytes"]) for b in pool["blocks"])
    assert seen == sorted((int(t[1]), int(t[2])) for t in truth if t[0] == "block"), seen
    assert pool["in_use_bytes"] + pool["idle_bytes"] == pool["reserved_bytes"] == 64 << 20, pool
    return pool


with tempfile.TemporaryDirectory() as folder:
    pools, report, truth = run(folder, "auto")
    if expected == "not_seen":
        said = [w["message"] for w in report["quality"]["warnings"] if w["code"] == "GP049"]
        assert len(said) == 1 and "XLA_PYTHON_CLIENT_ALLOCATOR=platform" in said[0] and not pools["pools"], (said, pools)
        print(said[0])
    else:
        pool = check(pools, report, truth)
    if not what:
        names = {}
        for phase in report["phases"]:
            if phase["source"] == "pjrt":
                names[phase["name"]] = phase["count"]
        assert names == {"compile": 4, "jit_first": 7, "jit_second_with_a_longer_name": 3, "jit_third": 1}, names
    if expected == "seen":
        if not what:
            assert pool["failed_count"] > 0, pool
            peak = max(int(t[1]) for t in truth if t[0] == "peak")
            assert pool["peak"]["in_use_bytes"] >= peak, (pool["peak"], peak)  # the statistics are cleared now and then
        for host in ("sampled", "off"):
            check(*run(folder, host, GPUPEAK_HOST=host))
        assert run(folder, "without", GPUPEAK_POOLS="off")[0]["pools"] == []
    print(f"{sum(t[0] == 'mark' for t in truth)} steps equal")
