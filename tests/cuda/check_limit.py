"""A program with a limit gets what a card of that size gives: each call's answer, how much is free, what NVML says.

usage: check_limit.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

preload, driver, gpupeak, program = sys.argv[1:]
GiB = 1 << 30
COMMON = dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_DEVICES="2", FAKE_NVML="on", GPUPEAK_SUMMARY="off")


def run(arguments, **variables):
    environment = dict(COMMON, **variables)
    ended = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 0, (arguments, variables, ended)
    assert ended.stderr == "", ended.stderr
    return ended.stdout


def compare(arguments, small, limit, log, **more):
    """The program on a card of `small`, and on one of 80 GiB with the limit."""
    truth = run(arguments, FAKE_CUDA_MEMORY=small, **more).splitlines()
    limited = run(arguments, FAKE_CUDA_MEMORY="80GiB", LD_PRELOAD=preload, GPUPEAK_LIMIT=limit, GPUPEAK_OUT=log, **more).splitlines()
    for number, (expected, found) in enumerate(zip(truth, limited, strict=True)):
        assert expected == found, (arguments, limit, number, truth[number - 3:number + 1], limited[number - 3:number + 1])
    return truth


def report(log):
    return json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)


with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    for seed in range(1, 7):
        truth = compare([str(seed)], "3GiB", "3GiB", log, FAKE_CUDA_COSTS="on", FAKE_CUDA_OTHERS="200MiB")
        refused = [line for line in truth if line.endswith(": 2")]
        assert len(refused) > 20, (seed, refused)
        assert not any("wrote" in line for line in truth)
        told = report(log)
        assert len(told["oom"]) == len(refused), (len(told["oom"]), len(refused))
        device = told["devices"][0]
        assert device["total_bytes"] == 3 * GiB, device
        assert device["limit"] == {"bytes": 3 * GiB, "real_bytes": 80 * GiB, "card": None}, device["limit"]
        assert all(oom["refused_by_run_limit"] for oom in told["oom"])
        # What was hidden is in no reading.
        assert max(bytes for _, bytes in device["ledger"]["readings"]) <= 3 * GiB
        assert device["ledger"]["at_peak"]["used_bytes"] <= 3 * GiB, device["ledger"]["at_peak"]
    # Without what the driver takes for itself; without NVML's figures of our own; each device its own.
    compare(["7"], "2GiB", "2GiB", log)
    compare(["8"], "2GiB", "2GiB", log, GPUPEAK_LEDGER="off")
    compare(["9", "1"], "2GiB", "0=5GiB,1=2GiB", log)
    compare(["10", "1"], "80GiB", "0=5GiB", log)
    compare(["11", "1"], "2GiB", "0=5GiB,2GiB", log)
    # Whether it records or not.
    compare(["12"], "2GiB", "2GiB", "/no/such/folder/log", GPUPEAK_QUIET="1", FAKE_CUDA_COSTS="on")
    # A card cannot look larger than it is.
    truth = run(["13"], FAKE_CUDA_MEMORY="2GiB")
    assert run(["13"], FAKE_CUDA_MEMORY="2GiB", LD_PRELOAD=preload, GPUPEAK_LIMIT="24GiB", GPUPEAK_OUT=log) == truth
    told = report(log)
    assert told["devices"][0]["limit"] is None, told["devices"][0]
    assert any(warning["code"] == "GP054" for warning in told["quality"]["warnings"]), told["quality"]
    compare(["threads"], "2GiB", "2GiB", log)
    run(["far"], FAKE_CUDA_MEMORY="80GiB", LD_PRELOAD=preload, GPUPEAK_LIMIT="40GiB", GPUPEAK_OUT=log)
    run(["rest"], FAKE_CUDA_MEMORY="80GiB", LD_PRELOAD=preload, GPUPEAK_LIMIT="4GiB", GPUPEAK_OUT=log)

    # The command: what it says, and what it does not understand.
    def command(*words):
        return subprocess.run([gpupeak, "run", "-o", log, *words, "--", program, "1"], env=dict(COMMON, FAKE_CUDA_MEMORY="80GiB"),
                              capture_output=True, text=True, check=False, timeout=100)

    ended = command("--limit", "3GiB")
    assert ended.returncode == 0, ended
    assert "run as on a card of 3.00 GiB: GPU 0 (Simulated GPU, number 0) has 80.0 GiB" in ended.stderr, ended.stderr
    assert "refused by the limit of this run (--limit, 3.00 GiB), not by the card" in subprocess.run(
        [gpupeak, "report", log], capture_output=True, text=True, check=True).stdout
    assert command("--gpu", "t4").returncode == 0
    told = report(log)["devices"][0]
    assert told["limit"]["card"] == "T4" and told["limit"]["bytes"] == told["total_bytes"] == round(14.56 * GiB), told
    assert command("--gpu", "0=A10G,1=T4").returncode == 0
    assert report(log)["devices"][0]["limit"]["card"] == "A10", report(log)["devices"][0]
    for wrong, why in ((("--limit", "0"), "no card has 0 bytes"), (("--limit", "0=3GiB,x=4"), "'x=4' is not a GPU's number"),
                       (("--limit", "3 cards"), "3 cards"), (("--gpu", "T44"), "T4"), (("--gpu", "T4", "--limit", "3GiB"), "--limit")):
        ended = command(*wrong)
        assert ended.returncode == 2 and why in ended.stderr and ended.stdout == "", ended
    ended = subprocess.run([program, "far"], env=dict(COMMON, LD_PRELOAD=preload, GPUPEAK_LIMIT="0=3cards", GPUPEAK_OUT=log),
                           capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 0 and "GPUPEAK_LIMIT=0=3cards is not a size" in ended.stderr, ended
