#!/usr/bin/env python3
"""Times what Python lines cost: a block of a stand-in for PyTorch's pool, and a driver call, below 10, 30 and 60 Python frames.

usage: python_lines.py BUILD [--compare=LIBRARY] [--rounds=N] [PYTHON …]      (BUILD: build/release)

Each block is given from another place than the one before, as a model's layers do: 24 functions of several lines, at five
depths. Ways run in turn within each round; printed is the median over rounds of ns a pair (given and taken back), less the
native run's of the same round.
"""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

DEPTHS = (10, 30, 60)


def client(library, *whats):
    calls = ctypes.PyDLL(library)
    calls.pool_use()
    pool_pair, driver_pair = calls.pool_pair, calls.driver_pair
    pool_pair.argtypes = [ctypes.c_size_t]
    pool_pair.restype = driver_pair.restype = None
    source = "".join(f"def layer{i}(give):\n" + "".join(f"    give({0x10000 + 512 * i})\n" for _ in range(4)) for i in range(24))
    names = {}
    exec(compile(source, "/usr/lib/python3/dist-packages/torch/nn/modules/layers.py", "exec"), names)
    layers = [names[f"layer{i}"] for i in range(24)]

    def call(layer, depth, give):
        return layer(give) if depth == 0 else call(layer, depth - 1, give)

    def model(give, steps):
        began = time.perf_counter()
        for _ in range(steps):
            for i, layer in enumerate(layers):
                call(layer, i % 5, give)
        return (time.perf_counter() - began) / steps / 96 * 1e9

    def below(depth, give, steps):
        return model(give, steps) if depth == 0 else below(depth - 1, give, steps)

    def driver(_):
        driver_pair()

    for give in [{"pool": pool_pair, "driver": driver}[what] for what in whats or ("pool", "driver")]:
        for depth in DEPTHS:
            below(depth - 6, give, 5)
            print(min(below(depth - 6, give, 10) for _ in range(10)))


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    build, pythons = os.path.abspath(words[0]), words[1:] or [sys.executable]
    library = os.path.join(build, "tests/bench/libbench_arena_events.so")
    preload = os.path.join(build, "preload/libgpupeak.so")
    ways = {"native": (None, "off"), "without Python lines": (preload, "off"), "with Python lines": (preload, "on")}
    if "compare" in options:
        ways["with Python lines, the other"] = (os.path.abspath(options["compare"]), "on")
    for python in pythons:
        times = {way: [] for way in ways}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(int(options.get("rounds", 5))):
                for way, (preloaded, lines) in ways.items():
                    environment = dict(os.environ, GPUPEAK_OUT=os.path.join(folder, "bench.gplog"), GPUPEAK_SUMMARY="off",
                                       GPUPEAK_HOST="off", GPUPEAK_PYTHON="off" if lines == "off" else "auto",
                                       LD_LIBRARY_PATH=os.path.join(build, "tests/fake_cuda"))
                    if preloaded is not None:
                        environment["LD_PRELOAD"] = preloaded
                    done = subprocess.run([python, __file__, "--client", library], env=environment, check=True,
                                          stdout=subprocess.PIPE, text=True)
                    times[way].append([float(line) for line in done.stdout.split()])
        print(f"| {os.path.basename(python)}, ns a pair | " + " | ".join(
            f"{what}, {depth} frames" for what in ("pool", "driver") for depth in DEPTHS) + " |")
        print("|---" * (1 + 2 * len(DEPTHS)) + "|")
        for way in ways:
            columns = [statistics.median(t[i] - (n[i] if way != "native" else 0) for t, n in zip(times[way], times["native"]))
                       for i in range(2 * len(DEPTHS))]
            print(f"| {way} | " + " | ".join(f"{c:.0f}" for c in columns) + " |")


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(*sys.argv[2:])
    else:
        main()
