#!/usr/bin/env python3
"""gpupeak fit's simulation of frameworks' pools, against runs that are really held at a capacity.

usage: check_held.py GPUPEAK DRIVER_FOLDER CLIENT torch|arena LIBRARY

Random trainings over the stand-in for PyTorch's allocator, which gives idle segments back and asks again; or inferences over that for
ONNX Runtime's arena, which asks for less. Recorded with plenty of memory; with what it is said to fail it must, with all else it must
run: also where more would fail.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

gpupeak, driver, client, pool, library = sys.argv[1:6]
RANDOM = f"{pool}_random"
MIB = 1 << 20
BIG = 80 << 30
STEP, MARGIN = 2 * MIB, 64 * MIB


def environment(memory):
    return dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on", FAKE_CUDA_MEMORY=str(memory))


def runs(case, number, capacity):
    code = subprocess.run([client, case, str(number), library], env=environment(capacity), capture_output=True, timeout=100).returncode
    assert code in (0, 3), (case, number, capacity, code)
    return code == 0


def fit(folder, case, number, *arguments):
    log = os.path.join(folder, f"{case}{number}.gplog")
    if not os.path.exists(log):
        subprocess.run([gpupeak, "run", "-q", "--host", "off", "-o", log, "--", client, case, str(number), library],
                       env=environment(BIG), check=True, capture_output=True, timeout=100)
    run = subprocess.run([gpupeak, "fit", "--json", *arguments, log], capture_output=True, text=True, timeout=100)
    answer = json.loads(run.stdout)
    assert run.returncode == (0 if answer["verdict"] in (None, "fits") else 1), run
    return answer


held = below = between = careful = 0
with tempfile.TemporaryDirectory() as folder:
    for number in range(1, 25):
        device = fit(folder, RANDOM, number)["devices"][0]
        least, enough, most = device["least_bytes"], device["enough_bytes"], device["most_bytes"]
        assert device["no_simulation"] is None and device["pool_repeated"] == device["pool_requests"] > 40, device
        assert least <= enough <= most, device
        below += enough < most
        fails = device["fails"]
        assert fails[0][0] == 0 and fails[0][1] >= least and fails[-1][1] == enough, fails
        # Each border, and what lies between.
        edges = [edge for begin, end in fails for edge in (begin - 1, begin, end - 1, end)]
        capacities = {*random.Random(number).sample(edges, min(len(edges), 8)), most, *range(least, most, max(STEP, (most - least) // 4))}
        for capacity in sorted(c for c in capacities if least <= c <= most):
            said = not any(begin <= capacity < end for begin, end in fails)
            really = runs(RANDOM, number, capacity)
            assert really or not said, (number, "goes well", capacity / MIB, enough / MIB, most / MIB)
            careful += really and not said
            held += 1
        # From the capacity down to the margin nothing may fail.
        wide = [end + MARGIN for (_, end), (begin, _) in zip(fails, fails[1:]) if end + MARGIN < begin]
        asked = [(least - 1, "does_not_fit"), (enough + MARGIN - 1, "may_fit"), (enough + MARGIN, "fits")]
        asked += [pair for capacity in wide[:2] for pair in ((capacity, "fits"), (capacity - 1, "may_fit"))]
        for capacity, verdict in asked:
            assert fit(folder, RANDOM, number, "--capacity", str(capacity))["verdict"] == verdict, (number, capacity, fails)
        assert all(runs(RANDOM, number, capacity) for capacity in wide), (number, wide)
        between += len(wide)
    # What is tried both ways may go well one way.
    assert careful <= held // 20, (careful, held)
    assert below >= (10 if pool == "torch" else 2) and (between >= 2 or pool == "arena"), (below, between)
    text = subprocess.run([gpupeak, "fit", os.path.join(folder, f"{RANDOM}8.gplog")], capture_output=True, text=True).stdout
    assert "enough" in text and "simulation" in text, text

    for capacity, words in ((fails[-1][1] - 1, "the simulated run fails with that"), (fails[-1][1], "goes well with that, and fails with less")):
        log = os.path.join(folder, f"{RANDOM}{number}.gplog")
        text = subprocess.run([gpupeak, "fit", "--capacity", str(capacity), log], capture_output=True, text=True).stdout
        assert words in " ".join(text.split()), text

    # What the simulation does not know it does not judge: the bounds are as without it.
    for case, why in (("torch_streams", "lies elsewhere"), ("torch_expandable", "grow in place")) if pool == "torch" else ():
        device = fit(folder, case, 24)["devices"][0]
        assert device["enough_bytes"] is None and device["fails"] == [] and why in device["no_simulation"], device
        assert fit(folder, case, 24, "--capacity", str(device["most_bytes"] + 64 * MIB))["verdict"] == "fits"
        assert fit(folder, case, 24, "--capacity", str(device["most_bytes"] + 64 * MIB - 1))["verdict"] == "may_fit"
        text = subprocess.run([gpupeak, "fit", os.path.join(folder, f"{case}24.gplog")], capture_output=True, text=True).stdout
        assert "is not known" in text and "enough" not in text, text
    if pool == "arena":
        device = fit(folder, "arena_twice", 24)["devices"][0]
        assert device["enough_bytes"] is None and device["pool_requests"] == 0 and device["least_bytes"] < device["most_bytes"], device
    # Of two processes one may fill what the other gives back.
    logs = [os.path.join(folder, f"{RANDOM}{number}.gplog") for number in (8, 9)]
    both = json.loads(subprocess.run([gpupeak, "fit", "--json", *logs], capture_output=True, text=True).stdout)["devices"][0]
    alone = [fit(folder, RANDOM, number)["devices"][0] for number in (8, 9)]
    assert both["enough_bytes"] is None and both["most_bytes"] == sum(one["most_bytes"] for one in alone), both
print(f"{held} held runs agree; {below} of 24 programs need less than they had; {between} fit below what is always enough")
