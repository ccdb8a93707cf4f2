#!/usr/bin/env python3
"""The real onnxruntime_perf_test on the CPU: unchanged behaviour, the heap peak that heaptrack finds, and phases that
hold all that is live in the end, also where the process is killed with a session open.

usage: onnxruntime.py LIBGPUPEAK GPUPEAK MODEL CLIENTS_FOLDER WORK_FOLDER
Exit code 77: the client is not here, or could not be fetched.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from common import (GPUPEAK, Skipped, environment, expect, expect_heap_is_what_events_leave, expect_nothing_dropped,
                    logs, report, run_checks)
import ort_nodes

model, clients, work = sys.argv[3:6]
RUNS = 12  # on a busy machine the threads of each of four runs may ask for memory in another way


def plain_output(text):
    """The output with times, dates and numbers replaced, which differ from run to run."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \S+", "TIME", text)
    return [re.sub(r"[\d.]+(e[-+]?\d+)?", "#", line) for line in text.splitlines()]


def heaptrack_peak(command, folder):
    """Bytes, from heaptrack's "peak heap memory consumption: 228.77M"; None without heaptrack."""
    if shutil.which("heaptrack") is None:
        return None
    subprocess.run(["heaptrack", "-o", os.path.join(folder, "heaptrack"), *command], env=environment(folder, False),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    data = next(os.path.join(folder, f) for f in os.listdir(folder) if f.startswith("heaptrack"))
    text = subprocess.run(["heaptrack_print", data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    number, unit = re.search(rb"peak heap memory consumption: ([\d.]+)([KMG]?)", text).groups()
    return float(number) * {b"": 1, b"K": 1e3, b"M": 1e6, b"G": 1e9}[unit]


def check_arena(summary, log):
    """The arena on the CPU: its figures equal its own statistics after each block, and nothing is left at the end."""
    arenas = [a for a in summary["arenas"] if a["name"] == "ONNX Runtime"]
    expect(len(arenas) == 1, f"arenas {summary['arenas']}")
    arena = arenas[0]
    expect(arena["checks"] == arena["alloc_count"] > 0 == arena["contradictions"], f"{arena}")
    expect(arena["live_bytes"] == 0 and arena["peak_bytes"] > 2**20, f"{arena}")
    expect(sum(p["bytes"] for p in arena["parts"]) + arena["other_bytes"] == arena["peak_bytes"], f"{arena}")
    print(f"arena: {arena['peak_bytes']} in use at its peak, {arena['checks']} checks")
    for view in ("report", "pools"):
        text = subprocess.run([GPUPEAK, view, log], stdout=subprocess.PIPE, check=True, text=True).stdout
        expect("ONNX Runtime on the host" in text, text)


def check_activations(log):
    """The last run asks for one piece of memory. It is divided among the requests of the first run, to the byte."""
    dump = subprocess.run([GPUPEAK, "export", "events", log], capture_output=True, text=True, check=True).stdout.splitlines()
    last = max(i for i, line in enumerate(dump) if " phase_push " in line and " run instance " in line)
    asked = [re.match(r"(\+[\d.]+) .* arena_alloc \d+ \S+ bytes (\d+) ", line) for line in dump[last:]]
    size, moment = max((int(found[2]), found[1]) for found in asked if found)
    view = subprocess.run([GPUPEAK, "pools", log, "--at", moment + "s", "--json"], capture_output=True, text=True, check=True)
    blocks = [b for pool in json.loads(view.stdout)["pools"] for b in pool["blocks"] or []]
    shares = {name: [b for b in blocks if b["site"].startswith(name + " ← ")]
              for name in ("planned activation", "between planned activations", "given beyond planned activations")}
    expect(sum(b["bytes"] for rows in shares.values() for b in rows) == size, f"{shares}, not {size} bytes")
    planned = shares["planned activation"]
    expect(all("::Compute ← OrtApis::Run" in b["site"] for b in planned), f"{planned}")
    expect(2 * sum(b["bytes"] for b in planned) > size, f"{planned} of {size} bytes")
    print(f"activations: {len(planned)} planned in {size} bytes")


def check_without_arena(command, folder):
    command = [command[0], "-A", *command[1:]]
    log = os.path.join(folder, "no_arena.gplog")
    native = subprocess.run(command, env=environment(folder, False), capture_output=True, text=True, check=False)
    ours = subprocess.run(command, env=environment(folder, True, GPUPEAK_OUT=log), capture_output=True, text=True, check=False)
    expect(native.returncode == 0 == ours.returncode, f"-A: exit codes {native.returncode} and {ours.returncode}")
    expect(plain_output(native.stdout) == plain_output(ours.stdout), "-A: stdout differs by more than figures")
    summary = report(log)
    expect(summary["arenas"] == [] and not any(w["code"] == "GP049" for w in summary["quality"]["warnings"]),
           f"-A: {summary['arenas']} {summary['quality']['warnings']}")


def check_killed(command, folder):
    """The program is killed in the middle of its runs: the weights are live, and belong to create_session."""
    log = os.path.join(folder, "killed.gplog")
    forever = [word if word != str(RUNS) else "1000000" for word in command]
    with subprocess.Popen(forever, env=environment(folder, True, GPUPEAK_OUT=log, GPUPEAK_HOST="full"), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.5)
            peek = subprocess.run([GPUPEAK, "phases", "--csv", log], capture_output=True, text=True, check=False)
            if "\nrun," in peek.stdout:
                break
        time.sleep(1)
        process.kill()
    summary = report(log)
    phases = {p["name"]: p for p in summary["phases"]}
    expect({"create_session", "run"} <= set(phases), f"phases of the killed process: {list(phases)}")
    live = expect_heap_is_what_events_leave(log, summary)
    kept = phases["create_session"]["metrics"]["host.live_at_exit_bytes"]
    print(f"killed: {live} bytes live, of them {kept} from create_session")
    expect(kept > 50 * 2**20 and kept > live / 2, f"create_session holds {kept} of {live} bytes")
    inner = sum(p["metrics"]["host.live_at_exit_bytes"] for p in summary["phases"] if p["parent"] == "main")
    expect(inner <= phases["main"]["metrics"]["host.live_at_exit_bytes"], f"main's phases hold {inner}, more than main")


def check_nodes(command, folder):
    """Nodes are phases below the runs: by the program's own profile, and by a profile that --ort-nodes asks for."""
    for how, options, arguments in (("own", [], ["-p", "own"]), ("asked for", ["--ort-nodes"], [])):
        log = os.path.join(folder, "nodes.gplog")
        ours = subprocess.run([GPUPEAK, "run", "-q", "-o", log, *options, "--", command[0], *arguments, *command[1:]],
                              cwd=folder, env=environment(folder, False), capture_output=True, text=True, check=False)
        expect(ours.returncode == 0, f"{how}: {ours}")
        summary = report(log)
        expect_nothing_dropped(summary)
        ort_nodes.expect_as_in_profile(summary, folder, "own_*.json" if how == "own" else "nodes.gplog.ort-1_*.json")


def main():
    get = os.path.join(clients, "onnxruntime/get.sh")
    if not os.path.exists(get):
        raise Skipped(f"no ONNX Runtime client in {clients} (GPUPEAK_CLIENTS)")
    place = os.path.join(work, "onnxruntime")
    if subprocess.run([get, place], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False).returncode != 0:
        raise Skipped("the ONNX Runtime client could not be fetched")
    command = [os.path.join(place, "onnxruntime_perf_test"), "-e", "cpu", "-r", str(RUNS), "-I", "-m", "times",
               os.path.join(place, f"models/light_{model}.onnx")]
    with tempfile.TemporaryDirectory() as folder:
        native = subprocess.run(command, env=environment(folder, False), capture_output=True, text=True, check=False)
        ours = subprocess.run([GPUPEAK, "run", "--host", "full", "-o", os.path.join(folder, "a.gplog"), "--", *command],
                              env=environment(folder, False), capture_output=True, text=True, check=False)
        expect(native.returncode == 0 == ours.returncode, f"exit codes {native.returncode} and {ours.returncode}")
        expect(plain_output(native.stdout) == plain_output(ours.stdout), "stdout differs by more than figures")
        summary = report(logs(folder)[0])
        expect_nothing_dropped(summary)
        expect_heap_is_what_events_leave(logs(folder)[0], summary)
        phases = {p["name"]: p["count"] for p in summary["phases"] if p["source"] == "ort"}
        # One run more than was asked for, since the program warms up.
        expect(phases == {"create_env": 1, "create_session": 1, "run": RUNS + 1, "release_session": 1}, f"phases {phases}")
        create = next(p for p in summary["phases"] if p["name"] == "create_session")
        expect(create["metrics"]["host.kept_bytes"] > 50 * 2**20, "create_session keeps no weights")
        run = next(p for p in summary["phases"] if p["name"] == "run")
        expect(run["instances"][-1]["last"] == RUNS + 1 and len(run["instances"]) <= RUNS, f"runs are not folded: {run['instances']}")
        check_arena(summary, logs(folder)[0])
        check_activations(logs(folder)[0])
        peak = summary["metrics"]["host.kind.heap.peak_bytes"]
        theirs = heaptrack_peak(command, folder)
        print(f"{model}: heap peak {peak}, heaptrack {theirs}")
        if theirs is not None:
            expect(abs(peak - theirs) <= 0.01 * theirs, "more than 1 % from heaptrack's")
        if model == "resnet50":  # these checks do not depend on the model, so the smaller one is taken
            check_without_arena(command, folder)
            check_killed(command, folder)
            check_nodes(command, folder)


run_checks(main)
