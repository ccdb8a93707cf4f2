#!/usr/bin/env python3
"""ONNX Runtime's arenas through stand-ins: what the log says against the arenas' own statistics.

usage: check_ort.py PRELOAD GPUPEAK CLIENT seen|not_seen|given_up LIBRARY … [threads|jump|hold|device|fork]

seen: after every call in use and reserved are what the arenas say, to the byte, in the end the same blocks, and the
same peaks (fork: in both processes' logs no comparison differs); not_seen: the program runs as without, the log has no block, and the report says why; given_up: the program
runs as without, and the report says why there are no blocks any more.
"""
import json
import os
import subprocess
import sys
import tempfile

preload, gpupeak, client, expected = sys.argv[1:5]
arguments = sys.argv[5:]
what = arguments[-1] if "/" not in arguments[-1] else ""
steps_are_seen = what in ("", "device")


def run(folder, name, **environment):
    log, truth = os.path.join(folder, name + ".gplog"), os.path.join(folder, name + ".truth")
    subprocess.run([client, truth, *arguments], check=True, timeout=100,
                   env=dict(os.environ, LD_PRELOAD=preload, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off", **environment))
    dump = subprocess.run([gpupeak, "export", "events", log], check=True, capture_output=True, text=True, errors="replace").stdout
    view = subprocess.run([gpupeak, "pools", log, "--at", "last" if " last" in dump else "end", "--json"], check=True,
                          capture_output=True, text=True)
    return json.loads(view.stdout), open(truth).read().split("\n"), log


def output(*command):
    return subprocess.run([gpupeak, *command], check=True, capture_output=True, text=True).stdout


def ours(pools):
    found = [p for p in pools if p["name"].startswith("ONNX Runtime")]
    return sum(p["in_use_bytes"] for p in found), sum(p["reserved_bytes"] for p in found)


def peaks_of(pools):
    return {p["peak"]["in_use_bytes"] for p in pools["pools"]}


def check_fork(folder):
    subprocess.run([client, os.path.join(folder, "truth"), *arguments], check=True, timeout=100,
                   env=dict(os.environ, LD_PRELOAD=preload, GPUPEAK_OUT=os.path.join(folder, "%p.gplog"), GPUPEAK_SUMMARY="off",
                            GPUPEAK_CHILDREN="all"))
    logs = [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".gplog")]
    assert len(logs) == 2, logs
    for log in logs:
        report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True, text=True).stdout)
        wrong = [w for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
        assert not wrong, wrong
        assert report["arenas"][0]["checks"] > 0 and report["arenas"][0]["live_bytes"] > 0, report["arenas"]
    print("parent and child: no difference")


with tempfile.TemporaryDirectory() as folder:
    if what == "fork":
        check_fork(folder)
        sys.exit(0)
    pools, truth, log = run(folder, "auto")
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True, text=True).stdout)
    said = [w["message"] for w in report["quality"]["warnings"] if w["code"] == "GP049"]
    others = [w for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047")]
    assert not others, others
    if expected != "seen":
        assert not any(p["blocks"] for p in pools["pools"]), pools["pools"]
        assert len(said) == 1, report["quality"]
        print(said[0])
        sys.exit(0)
    assert not said, said
    if what == "jump":
        # A jump may come out of the middle of the driver, which is not asked then; an exception does not.
        dump = subprocess.run([gpupeak, "export", "events", log], check=True, capture_output=True, text=True, errors="replace").stdout
        failed = [line for line in dump.split("\n") if " arena_failed " in line]
        jumps = 20
        asked = sum(" free " in line for line in failed)
        assert len(failed) == 2 * jumps and asked == (jumps if "gpu" in arguments[0] else 0), (len(failed), asked)
    marks = {m["name"]: m["pools"] for m in pools["marks"]}
    blocks, peaks, checked = set(), set(), 0
    for line in truth:
        field = line.split()
        if field and field[0] == "block":
            blocks.add((int(field[1]), int(field[2])))
        elif field and field[0] == "peak":
            peaks.add(int(field[1]))
        elif field:
            assert ours(marks[field[1]]) == (int(field[2]), int(field[3])), (line, marks[field[1]])
            checked += 1
    assert checked > (800 if steps_are_seen else 0), checked
    seen = [(b["address"], b["bytes"]) for p in pools["pools"] for b in p["blocks"]]
    assert set(seen) == blocks and len(seen) == len(blocks), (set(seen) - blocks, blocks - set(seen))
    assert all(p["contradictions"] == 0 for p in pools["pools"]), pools["pools"]
    assert all(p["in_use_bytes"] + p["idle_bytes"] == p["reserved_bytes"] for p in pools["pools"])
    assert any(p["checks"] > 0 for p in pools["pools"])
    # Arenas that follow each other share a row, so the larger peak is the one that shows.
    assert max(peaks_of(pools)) >= max(peaks) and (steps_are_seen or peaks_of(pools) >= peaks - {0}), (peaks_of(pools), peaks)
    if what != "jump":
        assert "use" in " ".join(b["site"] for p in pools["pools"] for b in p["blocks"])
    if not client.endswith(".py"):  # an exception of C++ would end Python
        assert sum(p["failed_count"] for p in pools["pools"]) > 0
    if what == "device":
        # What the driver handed out is in use by the arena's sites or idle in it, at the device's peak too.
        device = next(p for p in pools["pools"] if p.get("device") == 0)
        assert device["checks"] > 0 and device["segments"], device
        peak = next(p for p in report["peaks"] if p["scope"] == "device:0")
        held = {kind: sum(h["bytes"] for h in peak["holders"] if h["kind"] == kind) for kind in ("device.pooled", "device.idle")}
        assert held["device.pooled"] > 0 and held["device.idle"] > 0 and not peak["other_bytes"], peak
        assert sum(held.values()) == peak["bytes"] == device["reserved_peak_bytes"], (held, peak["bytes"], device)
        # Tags tell the two apart, in every view that has tags: rules go by who uses the pool, not by who made it grow.
        wanted = {"used": held["device.pooled"], f"idle in {device['name']}'s pool": held["device.idle"]}
        rule = ["--rules", "none", "--tag", "used=use*"]
        tags = {t["name"]: t["bytes"] for t in json.loads(output("report", "--json", *rule, log))["peaks"][0]["tags"]}
        assert tags == wanted, (tags, wanted)
        view = json.loads(output("tags", "--json", "--scope", "device:0", *rule, log))
        assert {t["name"]: t["bytes"] for t in view["tags"]} == wanted, view["tags"]
        assert sum(layer["bytes"] for layer in view["layers"]) == sum(e["bytes"] for e in view["entries"]) == peak["bytes"], view
        # The pool's blocks are the main phase's as any others; nobody's phase is what is idle.
        assert {layer["name"] for layer in view["layers"]} == {"main", "(no phase)"}, view["layers"]
        rows = dict(line.rsplit(",", 1) for line in output("export", "mxnet-csv", "--scope", "device:0", *rule, log).splitlines())
        assert {name: float(mib) * 2**20 for name, mib in rows.items()} == wanted, (rows, wanted)
    text = subprocess.run([gpupeak, "pools", log], check=True, capture_output=True, text=True).stdout
    assert "ONNX Runtime on the host" in text and "█" in text, text
    # Where not all of the heap is in the log, what is in use is known all the same.
    for host in ("sampled", "off"):
        other, its_truth, _ = run(folder, host, GPUPEAK_HOST=host)
        assert all(p["contradictions"] == 0 for p in other["pools"]), other["pools"]
        if steps_are_seen:  # the arenas' own figures differ from run to run, by where their memory lies
            its_peaks = {int(line.split()[1]) for line in its_truth if line.startswith("peak")}
            assert max(peaks_of(other)) >= max(its_peaks), (peaks_of(other), its_peaks)
    without, _, _ = run(folder, "without", GPUPEAK_POOLS="off")
    assert without["pools"] == []
print(f"{checked} steps equal")
