#!/usr/bin/env python3
"""XLA's pool as gpupeak saw it against JAX's own memory_stats() after every step.

usage: xla_arenas.py GPUPEAK [CASE …]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)

Each case runs in a process of its own under `gpupeak run --host off`, RUNS times (3), and as often without. After every
step it waits for the device, marks the instant and notes memory_stats(): in use and the pool's size must be ours to the
byte, and so must the peak in use be. Programs must be phases by name. Prints a Markdown row a case. Exit code 1 on any
difference.
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

GROWS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
CASES = {  # name: (program, environment)
    "matmul": ("matmul", {}),
    "matmul_grows": ("matmul", GROWS),
    "train": ("train", {}),
    "train_grows": ("train", GROWS),
    "flax": ("flax", {}),
    "threads": ("threads", GROWS),
    "out_of_memory": ("oom", {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.1"}),
}
RUNS = int(os.environ.get("RUNS", "3"))


# ---- the measured program ---------------------------------------------------------------------------------------------
def client(program, out_path):
    import jax
    import jax.numpy as jnp

    try:
        api_mark = ctypes.CDLL(None).gpupeak_api_mark
        api_mark.argtypes = [ctypes.c_char_p]
    except AttributeError:
        def api_mark(_name):
            pass
    device = jax.local_devices()[0]
    out = {"marks": [], "jax": jax.__version__, "device": device.device_kind}

    def note(name, *arrays):
        jax.block_until_ready(arrays)
        stats = device.memory_stats()
        api_mark(name.encode())
        out["marks"].append({"name": name, "in_use": stats["bytes_in_use"], "pool": stats["pool_bytes"],
                             "peak": stats["peak_bytes_in_use"], "limit": stats["bytes_limit"]})

    def layers(sizes):
        keys = jax.random.split(jax.random.key(0), len(sizes))
        return [jax.random.normal(k, (a, b)) * 0.01 for k, a, b in zip(keys, sizes, sizes[1:])]

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x ** 2).mean()

    begun = time.monotonic()
    if program == "matmul":
        product = jax.jit(lambda x: (x @ x).sum())
        for step in range(4):
            x = jnp.ones((2048 * (step + 1), 2048 * (step + 1)), jnp.float32)
            y = product(x)
            note(f"s{step}", x, y)
    elif program in ("train", "oom"):
        weights = layers([1024, 4096, 4096, 4096, 1024])
        x = jnp.ones((4096, 1024))

        @jax.jit
        def train_step(weights, x):
            return [w - 1e-3 * g for w, g in zip(weights, jax.grad(loss)(weights, x))]

        for step in range(6):
            weights = train_step(weights, x)
            note(f"s{step}", *weights)
        if program == "oom":
            try:
                jax.block_until_ready(jnp.zeros((1 << 20, 1 << 14)))
                out["oom"] = False
            except Exception as error:
                out["oom"] = "RESOURCE_EXHAUSTED" in str(error)
            note("after", *weights)
    elif program == "flax":
        from flax import linen as nn

        class Network(nn.Module):
            @nn.compact
            def __call__(self, x):
                for width in (64, 128):
                    x = nn.relu(nn.Conv(width, (3, 3), strides=(2, 2))(x))
                return nn.Dense(100)(x.mean(axis=(1, 2)))

        network = Network()
        images = jnp.zeros((32, 64, 64, 3))
        parameters = network.init(jax.random.key(0), images)
        note("init", *jax.tree.leaves(parameters))
        grad_step = jax.jit(jax.grad(lambda p: (network.apply(p, images) ** 2).mean()))
        for step in range(4):
            parameters = jax.tree.map(lambda p, g: p - 1e-3 * g, parameters, grad_step(parameters))
            note(f"s{step}", *jax.tree.leaves(parameters))
    elif program == "threads":
        import threading
        product = jax.jit(lambda x: x @ x + 1)
        kept = []

        def work(size):
            y = jnp.ones((size, size))
            for _ in range(200):
                y = product(y)
            kept.append(jax.block_until_ready(y))

        for size in (256, 512, 768, 1024):
            product(jnp.ones((size, size)))
        threads = [threading.Thread(target=work, args=(size,)) for size in (256, 512, 768, 1024)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        note("s0", *kept)
    out["seconds"] = time.monotonic() - begun
    with open(out_path, "w") as file:
        json.dump(out, file)


# ---- comparing -----------------------------------------------------------------------------------------------------------
def compare(gpupeak, work, name):
    program, environment = CASES[name]
    log, truth_path = os.path.join(work, name + ".gplog"), os.path.join(work, name + ".truth")
    command = [sys.executable, os.path.abspath(__file__), "--client", program, truth_path]
    seconds = {False: [], True: []}
    for _ in range(RUNS):
        for ours in (False, True):
            full = [gpupeak, "run", "-q", "--host", "off", "-o", log, "--", *command] if ours else command
            run = subprocess.run(full, capture_output=True, text=True, timeout=200, env=dict(os.environ, **environment))
            if run.returncode != 0:
                return [f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['?'])[-1][:200]}"], {}
            seconds[ours].append(json.load(open(truth_path))["seconds"])
    truth = json.load(open(truth_path))
    pools, report = (json.loads(subprocess.run([gpupeak, *c], capture_output=True, text=True).stdout)
                     for c in (["pools", log, "--at", "end", "--json"], ["report", "--json", log]))
    marks = {m["name"]: m["pools"] for m in pools["marks"]}
    device = [p for p in pools["pools"] if p["name"].startswith("XLA") and p.get("device") == 0]
    problems, equal = [], 0
    for mark in truth["marks"]:
        ours = [p for p in marks.get(mark["name"], []) if p["name"].startswith("XLA") and p.get("device") == 0]
        found = sum(p["in_use_bytes"] for p in ours), sum(p["reserved_bytes"] for p in ours)
        if found == (mark["in_use"], mark["pool"]):
            equal += 1
        else:
            problems.append(f"{mark['name']}: in use and reserved {found}, not {mark['in_use']} and {mark['pool']}")
    peak = max((p["peak"]["in_use_bytes"] for p in device), default=0)
    if peak != truth["marks"][-1]["peak"]:
        problems.append(f"peak in use {peak}, not {truth['marks'][-1]['peak']}")
    if not device:
        problems.append("no pool was seen")
    for pool in device:
        if pool["checks"] == 0 or pool["contradictions"] > 0:
            problems.append(f"{pool['contradictions']} of {pool['checks']} comparisons differ")
        if pool["in_use_bytes"] + pool["idle_bytes"] != pool["reserved_bytes"]:
            problems.append("in use + idle is not reserved")
    if program == "oom" and (not truth["oom"] or sum(p["failed_count"] for p in device) == 0):
        problems.append("the request that was refused was not seen")
    problems += [w["message"][:200] for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]
    phases = {p["name"]: p["count"] for p in report["phases"] if p["source"] == "pjrt"}
    if not phases:
        problems.append("no program is a phase")
    for at_peak in report["peaks"]:
        held = sum(h["bytes"] for h in at_peak["holders"]) + at_peak.get("other_bytes", 0)
        if at_peak["scope"] == "device:0" and held != at_peak["bytes"]:
            problems.append(f"the device's peak is {at_peak['bytes']}, its rows add up to {held}")
    return problems, {"device": device, "steps": f"{equal} of {len(truth['marks'])}", "peak": peak, "phases": phases,
                      "ratio": f"{statistics.median(seconds[True]) / statistics.median(seconds[False]):.2f}",
                      "oom": report.get("oom", [])}


def main():
    if sys.argv[1] == "--client":
        return client(sys.argv[2], sys.argv[3])
    gpupeak = os.path.abspath(sys.argv[1])
    failures = 0
    print("| case | steps equal | blocks given | peak in use | reserved then | checks | programs | refused | time with/without | verdict |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in sys.argv[2:] or list(CASES):
            try:
                problems, told = compare(gpupeak, os.environ.get("OUT") or temporary, name)
            except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError, KeyError) as error:
                problems, told = [f"{type(error).__name__}: {error}"[:200]], {}
            pools = told.get("device", [])
            print(f"| {name} | {told.get('steps', '')} | {sum(p['alloc_count'] for p in pools):,} | {told.get('peak', 0):,} "
                  f"| {sum(p['peak']['reserved_bytes'] for p in pools):,} | {sum(p['checks'] for p in pools):,} "
                  f"| {len(told.get('phases', {}))} | {sum(p['failed_count'] for p in pools)} | {told.get('ratio', '')} "
                  f"| {'equal' if not problems else '**DIFFERS**'} |", flush=True)
            for problem in problems[:6]:
                print(f"|   | {problem} |", flush=True)
            for failure in told.get("oom", [])[:2]:
                print(f"|   | {failure.get('cause') or failure.get('api')} |", flush=True)
            failures += bool(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
