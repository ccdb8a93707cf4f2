#!/usr/bin/env python3
"""The arenas of ONNX Runtime's Python package as gpupeak sees them, against the arenas' own statistics.

usage: ort_wheel.py GPUPEAK MODEL …      (python3 has onnxruntime; no network is used)

A program makes a session of each model, runs it three times and drops it. Each block that an arena gives is compared with what its
own statistics grow by; in use + idle must be what was taken from the heap, and the program's output what it is without gpupeak.
Prints a Markdown row a model. Exit code 1 on any difference.
"""
import json
import os
import subprocess
import sys
import tempfile


def client(model):
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = {i.name: numpy.ones([d if isinstance(d, int) else 1 for d in i.shape], numpy.float32) for i in session.get_inputs()}
    for _ in range(3):
        results = session.run(None, inputs)
    print(onnxruntime.__version__, [float(numpy.sum(numpy.abs(r))) for r in results])


def compare(gpupeak, model, log):
    command = [sys.executable, os.path.abspath(__file__), "--client", model]
    native = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = subprocess.run([gpupeak, "run", "-q", "-o", log, "--", *command], capture_output=True, text=True, check=True).stdout
    problems = [] if native == ours else [f"its output is {ours!r}, not {native!r}"]
    view = json.loads(subprocess.run([gpupeak, "pools", log, "--json"], capture_output=True, text=True, check=True).stdout)
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], capture_output=True, text=True, check=True).stdout)
    pools = [p for p in view["pools"] if p["name"].startswith("ONNX Runtime")]
    if not pools:
        problems.append("no arena was seen")
    for pool in pools:
        if pool["checks"] == 0 or pool["contradictions"] > 0:
            problems.append(f"{pool['contradictions']} of {pool['checks']} comparisons differ")
        if pool["in_use_bytes"] + pool["idle_bytes"] != pool["reserved_bytes"]:
            problems.append("in use + idle is not reserved")
    problems += [w["message"][:160] for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
    return native.split()[0], pools, problems


def main():
    gpupeak, models = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failures = 0
    print("| model | release | arenas | blocks given | peak in use | reserved then | checks | verdict |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for model in models:
            name = os.path.basename(model).removesuffix(".onnx")
            log = os.path.join(os.environ.get("OUT") or temporary, f"wheel_{name}.gplog")
            release, pools, problems = compare(gpupeak, model, log)
            in_use, reserved = (sum(p["peak"][key] for p in pools) for key in ("in_use_bytes", "reserved_bytes"))
            print(f"| {name} | {release} | {len(pools)} | {sum(p['alloc_count'] for p in pools):,} | {in_use:,} | {reserved:,} "
                  f"| {sum(p['checks'] for p in pools):,} | {'equal' if not problems else '**DIFFERS**'} |", flush=True)
            for problem in problems:
                print(f"|   | {problem} |", flush=True)
            failures += bool(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(sys.argv[2])
    else:
        sys.exit(main())
