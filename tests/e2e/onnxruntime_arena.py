#!/usr/bin/env python3
"""The CPU arena of a released ONNX Runtime: the log's figures equal the arena's own statistics. And its nodes as phases.

usage: onnxruntime_arena.py LIBGPUPEAK GPUPEAK VERSION WORK_FOLDER CLIENTS_FOLDER CLIENT
The model is SqueezeNet if the folder of clients is there, else a tiny one of our own.
Exit code 77: npm or the network is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, environment, expect, expect_nothing_dropped, report, run_checks
import npm_package
import ort_nodes
import tiny_onnx

VERSION, WORK, CLIENTS, CLIENT = sys.argv[3:7]


def run(folder, library, model, mode, preload=True, **variables):
    log, truth = os.path.join(folder, mode + ".gplog"), os.path.join(folder, "truth")
    done = subprocess.run([CLIENT, library, model, truth, mode], env=environment(folder, preload, GPUPEAK_OUT=log, **variables),
                          capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{mode}: exit code {done.returncode}: {done.stderr}")
    if not preload:
        return done.stdout
    view = subprocess.run([GPUPEAK, "pools", log, "--at", "end", "--json"], check=True, capture_output=True, text=True)
    with open(truth) as file:
        marks = [line.split()[1:] for line in file]
    summary = report(log)
    expect_nothing_dropped(summary)
    wrong = [w for w in summary["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
    expect(not wrong, f"{wrong}")
    return done.stdout, json.loads(view.stdout), marks, log


def main():
    place = npm_package.fetch(VERSION, WORK)
    if place is None:
        raise Skipped("no npm or network")
    library = npm_package.library(place)
    model = os.path.join(CLIENTS, "onnxruntime/models/light_squeezenet.onnx")
    with tempfile.TemporaryDirectory() as folder:
        if not os.path.exists(model):
            model = os.path.join(folder, "tiny.onnx")
            tiny_onnx.write(model)
        native = run(folder, library, model, "arena", preload=False)
        output, pools, marks, log = run(folder, library, model, "arena")
        expect(output == native, f"output {output!r}, without {native!r}")
        found = [p for p in pools["pools"] if p["name"] == "ONNX Runtime"]
        expect(len(found) == 1, f"pools {[p['name'] for p in pools['pools']]}")
        pool = found[0]
        expect(pool["checks"] > 100 and pool["contradictions"] == 0, f"{pool['contradictions']} of {pool['checks']} differ")
        expect(pool["failed_count"] == 1, f"{pool['failed_count']} requests failed")
        expect(pool["in_use_bytes"] == 0 == pool["reserved_bytes"], f"left at the end: {pool}")
        expect(int(VERSION.split(".")[1]) < 23 or len(marks) == 7, f"{len(marks)} marks")
        ours = {m["name"]: m["pools"][0] for m in pools["marks"]}
        for name, in_use, total, most in marks:
            # Small pieces that the arena reserves are rounded up by the heap.
            rounding = ours[name]["reserved_bytes"] - int(total)
            expect(ours[name]["in_use_bytes"] == int(in_use) and 0 <= rounding < 4096,
                   f"{name}: {ours[name]}, ONNX Runtime says {in_use} of {total}")
        if marks:
            expect(pool["peak"]["in_use_bytes"] == int(marks[-1][3]), f"peak {pool['peak']}, not {marks[-1][3]}")
        print(f"{VERSION}: {pool['checks']} checks, {len(marks)} marks, peak {pool['peak']['in_use_bytes']:,}")
        text = subprocess.run([GPUPEAK, "report", log], check=True, capture_output=True, text=True).stdout
        expect("ONNX Runtime" in text, text)
        # Without an arena, and with pools off, the log has no blocks of arenas, and the output is the same.
        plain = run(folder, library, model, "no_arena", preload=False)
        output, pools, _, _ = run(folder, library, model, "no_arena")
        expect(output == plain and not any(p["alloc_count"] for p in pools["pools"]), f"without an arena: {pools['pools']}")
        output, pools, _, _ = run(folder, library, model, "arena", GPUPEAK_POOLS="off")
        expect(output == native and pools["pools"] == [], f"switched off: {pools['pools']}")
        log = os.path.join(folder, "nodes.gplog")
        done = subprocess.run([GPUPEAK, "run", "-q", "--ort-nodes", "-o", log, "--", CLIENT, library, model,
                               os.path.join(folder, "truth"), "arena"], env=environment(folder, False), capture_output=True,
                              text=True, check=False)
        expect(done.returncode == 0 and done.stdout == native, f"with --ort-nodes: {done}")
        ort_nodes.expect_as_in_profile(report(log), folder, "nodes.gplog.ort-1_*.json")
        dump = subprocess.run([GPUPEAK, "export", "events", log], check=True, capture_output=True, text=True).stdout
        told = ort_nodes.expect_memory_as_in_profile(dump, folder, "nodes.gplog.ort-1_*.json")
        expect(told > 0 or tuple(map(int, VERSION.split("."))) < (1, 29), "the profile says nothing of memory")


run_checks(main)
