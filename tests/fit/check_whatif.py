#!/usr/bin/env python3
"""gpupeak whatif, against what happens: a program is recorded, its change is asked for, then really made and recorded again.

usage: check_whatif.py GPUPEAK DRIVER_FOLDER CLIENT TORCH

Exact where it says so; within its bounds elsewhere.
"""
import json
import os
import subprocess
import sys
import tempfile

gpupeak, driver, client, torch = sys.argv[1:5]
MIB = 1 << 20
SEEDS = [*range(1, 11), 20]  # the pool of 20 gives memory back


def record(log, case, number, metric="device.peak_bytes", host="off", **changes):
    environment = dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on", FAKE_CUDA_MEMORY=str(80 << 30), PYTHONUNBUFFERED="1", **changes)
    subprocess.run([gpupeak, "run", "-q", "--host", host, "-o", log, "--", client, case, str(number), torch], env=environment, check=True,
                   capture_output=True, timeout=100)
    return report(log, "--json")["metrics"][metric]


def report(log, *options):
    return json.loads(subprocess.run([gpupeak, "report", *options, log], check=True, capture_output=True, text=True, timeout=100).stdout)


def whatif(log, *options):
    run = subprocess.run([gpupeak, "whatif", "--json", *options, log], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, (options, run.stderr)
    device = json.loads(run.stdout)["sums"][-1]  # the host's comes last
    whole = device["most_bytes"] if device["most_bytes"] is not None else device["least_bytes"]
    assert sum(row["bytes"] for row in device["holders"]) + device["other_bytes"] == whole, device
    return device


def held(device, truth, where):
    assert device["least_bytes"] <= truth <= device["most_bytes"], (where, device, truth)
    assert device["exact"] == (device["least_bytes"] == device["most_bytes"]), device
    return device["exact"]


def main():
    exact = bounded = 0
    with tempfile.TemporaryDirectory() as folder:
        log, changed = os.path.join(folder, "run.gplog"), os.path.join(folder, "changed.gplog")

        # What the driver hands out: to the byte.
        whole = record(log, "line", 20)
        half = whatif(log, "--scale", "activations=0.5")
        assert half["exact"] and half["peak_bytes"] == record(changed, "line", 10) and half["before"]["peak_bytes"] == whole, half
        by_function = whatif(log, "--scale", "*activations*=0.5")
        assert by_function["peak_bytes"] == half["peak_bytes"], by_function
        assert whatif(log, "--without", "activations", "--scale", "weights=2")["peak_bytes"] == 611 * MIB
        assert whatif(log, "--without", "weights")["peak_bytes"] == whole - 300 * MIB
        bad = subprocess.run([gpupeak, "whatif", "--without", "nobody", log], capture_output=True, text=True)
        assert bad.returncode == 2 and "matches no block" in bad.stderr, bad
        for option in (("--expandable-segments",), ("--arena", "same-as-requested"), ("--no-preallocation",), ("--scale", "a=b")):
            bad = subprocess.run([gpupeak, "whatif", *option, log], capture_output=True, text=True)
            assert bad.returncode == 2 and bad.stderr, (option, bad)

        # And malloc.
        whole = record(log, "host", 20, "host.peak_bytes", "full")
        half = whatif(log, "--scale", "*host_buffer*=0.5")
        assert half["scope"] == "host" and half["exact"] and half["before"]["peak_bytes"] == whole, half
        assert half["peak_bytes"] == record(changed, "host", 10, "host.peak_bytes", "full"), half

        # What there is to be asked for, without being asked.
        for case, number, least in (("line", 20, 2), ("torch", 24, 2)):
            whole = record(log, case, number)
            run = subprocess.run([gpupeak, "whatif", "--json", log], capture_output=True, text=True, check=True)
            lowering = json.loads(run.stdout)["changes"]
            assert len(lowering) >= least, lowering
            for one in lowering:
                (device,) = one["sums"]
                assert device["before"]["peak_bytes"] == whole > (device["most_bytes"] or device["least_bytes"]), device
            # The report says the same of settings, and of them alone; nobody else computes it.
            rows = report(log, "--json")["lowering"]
            settings = [one for one in lowering if isinstance(one["changes"][0], str)]
            assert [row["setting"] for row in rows] == [one["changes"][0] for one in settings], (rows, settings)
            for row, one in zip(rows, settings):
                for field in ("exact", "peak_bytes", "least_bytes", "most_bytes", "time_ns", "scope"):
                    assert row[field] == one["sums"][0][field], (field, row, one)
                assert row["before_bytes"] == whole, row
            shown = subprocess.run([gpupeak, "report", log], capture_output=True, text=True, check=True).stdout
            assert ("WHAT WOULD LOWER IT" in shown) == bool(rows), shown
            if case == "torch":
                (line,) = [line for line in shown.splitlines() if line.endswith("PyTorch with expandable segments")]
                (other,) = [line for line in subprocess.run([gpupeak, "whatif", log], capture_output=True, text=True, check=True).stdout.splitlines()
                            if line.endswith("PyTorch with expandable segments")]
                assert line == other and f"gpupeak whatif {log}" in shown, (line, other)
                assert lowering[0]["changes"] == ["expandable_segments"], lowering
                held(lowering[0]["sums"][0], record(changed, case, number, EXPANDABLE="1"), case)

        # PyTorch's pool, by its rules: programs that nobody wrote.
        for seed in SEEDS:
            whole = record(log, "torch_random", seed, GRADIENTS_TIMES="1")
            same = whatif(log, "--scale", "gradients=1")
            assert same["exact"] and same["peak_bytes"] == whole, (seed, same, whole)
            for options, changes in ((("--scale", "gradients=0.5"), {"GRADIENTS_TIMES": "0.5"}),
                                     (("--without", "gradients"), {"GRADIENTS_TIMES": "0"}),
                                     (("--scale", "gradients=1.5"), {"GRADIENTS_TIMES": "1.5"}),
                                     (("--expandable-segments",), {"GRADIENTS_TIMES": "1", "EXPANDABLE": "1"}),
                                     (("--expandable-segments", "--scale", "gradients=0.5"), {"GRADIENTS_TIMES": "0.5", "EXPANDABLE": "1"})):
                truth = record(changed, "torch_random", seed, **changes)
                device = whatif(log, *options)
                ok = held(device, truth, (seed, options))
                exact += ok
                bounded += not ok
    assert exact >= 25, "it is exact most often"
    print(f"{exact} exact, {bounded} within their bounds")


main()
