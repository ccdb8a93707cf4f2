#!/usr/bin/env python3
"""Attaches to a program that works on the GPU with a framework, and leaves it again, several times: what it prints and its exit code stay
what they are, and what it took meanwhile is what the framework's counters say, to the byte. Says what a step takes before, while, after.

usage: attach.py PREFIX torch|jax [ROUNDS]
       attach.py PREFIX ort ONNXRUNTIME_FOLDER [ROUNDS]    (its libraries with the CUDA provider's, models/light_resnet50.onnx)
       attach.py PREFIX perf_test ONNXRUNTIME_FOLDER [ROUNDS]    (and onnxruntime_perf_test)
PREFIX: where gpupeak is installed.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

gpupeak = os.path.join(sys.argv[1], "bin/gpupeak")
framework = sys.argv[2] if len(sys.argv) > 2 else "torch"
HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
ATTACHES = 3  # of each run of onnxruntime_perf_test
POOL = {"torch": "PyTorch", "jax": "XLA"}.get(framework, "ONNX Runtime")


def touch(folder, name):
    open(os.path.join(folder, name), "w", encoding="utf-8").close()


def told(*words):
    done = subprocess.run([gpupeak, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (words, done)
    return done


def attach(log, pid):
    print("  ", told("attach", "-o", log, str(pid)).stderr.strip(), flush=True)


def detach(log, pid):
    print("  ", told("detach", str(pid)).stderr.strip())
    print("   " + "\n   ".join(told("report", log).stdout.splitlines()[:8]), flush=True)
    return json.loads(told("report", "--json", log).stdout)["metrics"]


def expect_gate(log, metric, limit, passes):
    code = subprocess.run([gpupeak, "check", log, "--max", f"{metric}={limit}"], stdout=subprocess.DEVNULL, check=False).returncode
    assert code == (0 if passes else 1), (metric, limit, code)


def compare_pools(log, in_use):
    """What the framework's pool has in use by its own word: what it has handed out since the attach, and what is left from before."""
    pools = json.loads(told("pools", "--at", "end", "--json", log).stdout)["pools"]
    ours = [(p["in_use_bytes"], p.get("from_before", {}).get("in_use_bytes", 0)) for p in pools if p["name"].startswith(POOL) and p.get("device") == 0]
    checks, contradictions = (sum(p[name] for p in pools) for name in ("checks", "contradictions"))
    is_equal = any(since + (before or 0) == in_use for since, before in ours)
    print(f"   {POOL}: {in_use:,} bytes in use by its own word, by gpupeak since the attach and from before {ours}: "
          f"{'equal' if is_equal else 'DIFFERENT'}; {checks} checks, {contradictions} contradictions", flush=True)
    assert is_equal and checks > 0 and contradictions == 0, pools


def steps(command, attached):
    """Exit code, numbers, growth by the framework, medians in µs, our metrics."""
    with tempfile.TemporaryDirectory() as folder:
        log, metrics = os.path.join(folder, "a.gplog"), None
        with subprocess.Popen([sys.executable, command[0], folder, *command[1:]], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout.readline() == "ready\n"
            if attached:
                attach(log, program.pid)
            touch(folder, "attached")
            grown, in_use = (int(word) for word in program.stdout.readline().split()[1:])
            if attached:
                compare_pools(log, in_use)
            touch(folder, "looked")
            if attached:
                metrics = detach(log, program.pid)
                expect_gate(log, "device.growth_peak_bytes", grown, True)
                expect_gate(log, "device.growth_peak_bytes", grown - 1, False)
            touch(folder, "detached")
            medians = [float(word) for word in program.stdout.readline().split()[1:]]
            numbers = program.stdout.read()
        return program.returncode, numbers, grown, medians, metrics


def median_row(rounds):
    return " · ".join(f"{name} {statistics.median(times):.1f} µs" for name, times in zip(("before", "attached", "after"), zip(*rounds)))


def stepping(command, rounds):
    alone, with_us = [], []
    for number in range(rounds):
        code, numbers, grown, medians, _ = steps(command, False)
        assert code == 3 and numbers.startswith("numbers ") and grown >= 600 * MIB, (code, numbers[:80], grown)
        alone.append(medians)
        found = steps(command, True)
        assert found[0] == code, f"exit code {found[0]}"
        assert found[1] == numbers, "other numbers"
        with_us.append(found[3])
        peak, left = found[4]["device.growth_peak_bytes"], found[4]["device.growth_bytes"]
        print(f"round {number}: grown by {found[2]:,} bytes by {framework}, by gpupeak {peak:,}: {'equal' if peak == found[2] else 'DIFFERENT'}; "
              f"{left:,} left at detach", flush=True)
        assert peak == found[2]
    print(f"P50 of a step, by itself:   {median_row(alone)}\nP50 of a step, attached to: {median_row(with_us)}")


def perf_test(folder, rounds):
    """Inferences that hold what they hold: attached to and left all the time, nothing has grown; P50 as by itself."""
    command = [os.path.join(folder, "onnxruntime_perf_test"), "-e", "cuda", "-t", "10", "-I", "-m", "duration",
               os.path.join(folder, "models/light_resnet50.onnx")]

    def once(attached):
        with tempfile.TemporaryDirectory() as work, open(os.path.join(work, "out"), "w+", encoding="utf-8") as out, \
                subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as program:
            time.sleep(4)
            logs = [os.path.join(work, f"{number}.gplog") for number in range(ATTACHES if attached else 0)]
            for log in logs:
                attach(log, program.pid)
                time.sleep(0.5)
                told("detach", str(program.pid))
            assert program.poll() is None, "it ended too early for this"
            program.wait()
            for log in logs:
                metrics = json.loads(told("report", "--json", log).stdout)["metrics"]
                print(f"   device.growth_bytes {metrics['device.growth_bytes']}, peak {metrics['device.growth_peak_bytes']}")
                expect_gate(log, "device.growth_peak_bytes", 0, True)
            out.seek(0)
            text = out.read()
        p50 = float(re.search(r"P50 Latency: ([0-9.e-]+) s", text).group(1)) * 1e6
        return program.returncode, re.sub(r"[0-9.e+-]+", "N", text), p50

    alone, with_us = [], []
    for number in range(rounds):
        code, text, p50 = once(False)
        found = once(True)
        assert (code, text) == found[:2] and code == 0, (code, found, text)
        alone.append(p50)
        with_us.append(found[2])
        print(f"round {number}: exit code {code}, P50 {p50:.1f} µs by itself, {found[2]:.1f} µs with {ATTACHES} attaches", flush=True)
    print(f"P50: {statistics.median(alone):.1f} µs by itself, {statistics.median(with_us):.1f} µs with {ATTACHES} attaches in each run")


def main():
    with_folder = framework in ("ort", "perf_test")
    folder = sys.argv[3] if with_folder else ""
    at = 4 if with_folder else 3
    rounds = int(sys.argv[at]) if len(sys.argv) > at else 5
    if framework == "perf_test":
        perf_test(folder, rounds)
    else:
        more = [os.path.join(folder, "libonnxruntime.so.1"), os.path.join(folder, "models/light_resnet50.onnx")] if with_folder else []
        stepping([os.path.join(HERE, f"attach_{framework}.py"), *more], rounds)
    print(f"attach, {framework}: {rounds} of {rounds} rounds as by itself")


main()
