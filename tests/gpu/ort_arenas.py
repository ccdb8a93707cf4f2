#!/usr/bin/env python3
"""ONNX Runtime's arenas as gpupeak saw them against their own statistics, with the CUDA provider.

usage: ort_arenas.py GPUPEAK ONNXRUNTIME_FOLDER [STATS_CLIENT] [CASE …]      (no network is used)

GPUPEAK: bin/gpupeak of an installed build. ONNXRUNTIME_FOLDER: onnxruntime_perf_test, its libraries with the CUDA
provider's, models/. STATS_CLIENT: tests/e2e/ort_stats_client.cc, built; without it (-) it is built here with g++.
Cases that begin with `stats` run that client: after each step in use and reserved of the device's arena must be what
ONNX Runtime's C API says, to the byte, and the peak its MaxInUse. The others run perf_test three times without gpupeak
and three times with it: each block given is compared with the arena's statistics, in use + idle with what the driver
handed out, and nothing may be left at the end. Prints a Markdown row a case. Exit code 1 on any difference.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SAME = "arena_extend_strategy|kSameAsRequested"
CASES = {  # name: (model, arguments of perf_test or options of the client)
    "vgg19_d0": ("vgg19", ["-d", "0"]),
    "vgg19_d1": ("vgg19", ["-d", "1"]),
    "vgg19_d2": ("vgg19", ["-d", "2"]),
    "resnet50_d0": ("resnet50", ["-d", "0"]),
    "resnet50_d1": ("resnet50", ["-d", "1"]),
    "resnet50_d2": ("resnet50", ["-d", "2"]),
    "vgg19_same_as_requested": ("vgg19", ["-i", SAME]),
    "resnet50_parallel": ("resnet50", ["-c", "4"]),
    "densenet121": ("densenet121", []),
    "squeezenet": ("squeezenet", []),
    "stats_vgg19": ("vgg19", []),
    "stats_resnet50": ("resnet50", []),
    "stats_vgg19_same": ("vgg19", ["arena_extend_strategy=kSameAsRequested"]),
    "stats_resnet50_limit": ("resnet50", ["gpu_mem_limit=1073741824"]),
}
RUNS = 3


def pools_of(pools, device=0):
    return [p for p in pools if p["name"].startswith("ONNX Runtime") and p.get("device") == device]


def levels(pools):
    return sum(p["in_use_bytes"] for p in pools), sum(p["reserved_bytes"] for p in pools)


def read(gpupeak, log):
    view = subprocess.run([gpupeak, "pools", log, "--at", "end", "--json"], capture_output=True, text=True)
    if view.returncode != 0:
        raise OSError(f"gpupeak arenas: {view.stderr.strip()[:160]}")
    report = subprocess.run([gpupeak, "report", "--json", log], capture_output=True, text=True)
    return json.loads(view.stdout), json.loads(report.stdout)


def latency(text):
    found = re.search(r"Average inference time cost(?: total)?: ([\d.]+) ms", text)
    return float(found.group(1)) if found else 0.0


def perf_test(gpupeak, folder, log, model, arguments):
    command = [os.path.join(folder, "onnxruntime_perf_test"), "-e", "cuda", *arguments, "-r", "50", "-I", "-m", "times",
               os.path.join(folder, f"models/light_{model}.onnx")]
    problems, times = [], {False: [], True: []}
    for _ in range(RUNS):
        for ours in (False, True):
            full = [gpupeak, "run", "-q", "--host", "off", "-o", log, "--", *command] if ours else command
            run = subprocess.run(full, capture_output=True, text=True, timeout=200)
            if run.returncode != 0:
                return [f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['?'])[-1][:160]}"], {}
            times[ours].append(latency(run.stdout))
    pools, report = read(gpupeak, log)
    on_device = pools_of(pools["pools"])
    if levels(on_device) != (0, 0):
        problems.append(f"left at the end: {levels(on_device)}")
    without = statistics.median(times[False])
    return problems, {"pools": on_device, "report": report, "steps": "",
                      "ratio": f"{statistics.median(times[True]) / without:.3f}" if without else "?"}


def stats(gpupeak, folder, log, model, arguments, client):
    truth = log + ".truth"
    run = subprocess.run([gpupeak, "run", "-q", "--host", "off", "-o", log, "--", client,
                          os.path.join(folder, "libonnxruntime.so.1"), os.path.join(folder, f"models/light_{model}.onnx"),
                          truth, "cuda", *arguments], capture_output=True, text=True, timeout=200)
    if run.returncode != 0:
        return [f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['?'])[-1][:160]}"], {}
    pools, report = read(gpupeak, log)
    marks = {m["name"]: m["pools"] for m in pools["marks"]}
    problems, equal, most = [], 0, 0
    told = [line.split()[1:] for line in open(truth)]
    for name, in_use, total, most in told:
        ours = levels(pools_of(marks.get(name, [])))
        if ours == (int(in_use), int(total)):
            equal += 1
        else:
            problems.append(f"{name}: in use and reserved {ours}, not {in_use} and {total}")
    on_device = pools_of(pools["pools"])
    peak = max((p["peak"]["in_use_bytes"] for p in on_device), default=0)
    if peak != int(most):
        problems.append(f"peak in use {peak}, not {most}")
    if sum(p["failed_count"] for p in on_device) != 1:
        problems.append("the request that was refused was not seen")
    return problems, {"pools": on_device, "report": report, "steps": f"{equal} of {len(told)}", "ratio": ""}


def compare(gpupeak, folder, work, name, client):
    model, arguments = CASES[name]
    log = os.path.join(work, name + ".gplog")
    if name.startswith("stats"):
        problems, told = stats(gpupeak, folder, log, model, arguments, client)
    else:
        problems, told = perf_test(gpupeak, folder, log, model, arguments)
    if not told:
        return problems, told
    if not told["pools"]:
        problems.append("no arena of the device was seen")
    for pool in told["pools"]:
        if pool["checks"] == 0 or pool["contradictions"] > 0:
            problems.append(f"{pool['contradictions']} of {pool['checks']} comparisons differ")
        if pool["in_use_bytes"] + pool["idle_bytes"] != pool["reserved_bytes"]:
            problems.append("in use + idle is not reserved")
    problems += [w["message"][:160] for w in told["report"]["quality"]["warnings"]
                 if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
    for peak in told["report"]["peaks"]:
        held = sum(h["bytes"] for h in peak["holders"]) + peak.get("other_bytes", 0)
        if re.fullmatch(r"device:\d+", peak["scope"]) and held != peak["bytes"]:
            problems.append(f"the device's peak is {peak['bytes']}, its rows add up to {held}")
    return problems, told


def main():
    gpupeak, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rest = sys.argv[3:]
    client = rest.pop(0) if rest and rest[0] not in CASES else "-"
    failures = 0
    print("| case | steps equal | blocks given | peak in use | reserved then | idle then | checks | refused | time with/without | verdict |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        if client == "-":
            client = os.path.join(temporary, "ort_stats_client")
            include = os.path.join(HERE, "../../preload/include")
            subprocess.run(["g++", "-std=c++20", "-O1", f"-I{include}", "-o", client,
                            os.path.join(HERE, "../e2e/ort_stats_client.cc"), "-ldl", "-pthread"], check=False)
        work = os.environ.get("OUT") or temporary
        for name in rest or list(CASES):
            try:
                problems, told = compare(gpupeak, folder, work, name, os.path.abspath(client))
            except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError, KeyError) as error:
                problems, told = [f"{type(error).__name__}: {error}"[:160]], {}
            pools = told.get("pools", [])
            in_use = sum(p["peak"]["in_use_bytes"] for p in pools)
            reserved = sum(p["peak"]["reserved_bytes"] for p in pools)
            print(f"| {name} | {told.get('steps', '')} | {sum(p['alloc_count'] for p in pools):,} | {in_use:,} | {reserved:,} "
                  f"| {reserved - in_use:,} | {sum(p['checks'] for p in pools):,} | {sum(p['failed_count'] for p in pools)} "
                  f"| {told.get('ratio', '')} | {'equal' if not problems else '**DIFFERS**'} |", flush=True)
            for problem in problems[:6]:
                print(f"|   | {problem} |", flush=True)
            failures += bool(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
