#!/usr/bin/env python3
"""gpupeak fit, against what happens: programs are recorded once with plenty of memory, then really run at capacities around what
is said of them.

usage: check_fit.py GPUPEAK DRIVER_FOLDER CLIENT TORCH

"Fits" must succeed, "does not fit" must fail; "may fit" may do either, but must not be said where nothing is idle and the
capacity is more than the margin away.
"""
import json
import os
import subprocess
import sys
import tempfile

gpupeak, driver, client, torch = sys.argv[1:5]
MIB = 1 << 20
BIG = 80 << 30
# case, number, whether pools may have something idle
CASES = [("line", 20, False), ("square", 9, False), ("late_code", 30, False), ("late_code", 3, False), ("odd_sizes", 30, False),
         ("driver_pool", 16, True), ("torch", 24, True), ("torch_expandable", 24, True), ("torch_idle", 5, True),
         ("torch_idle", 1, True), ("threads", 12, False), ("managed", 30, True)]


def environment(memory, others=0):
    return dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on", FAKE_CUDA_MEMORY=str(memory),
                FAKE_CUDA_OTHERS=str(others), PYTHONUNBUFFERED="1")


def record(log, case, number, memory=BIG, options=(), others=0, **more):
    return subprocess.run([gpupeak, "run", "-q", "--host", "off", *options, "-o", log, "--", client, case, str(number), torch],
                          env=dict(environment(memory, others), **more), capture_output=True, timeout=100).returncode


def really(case, number, capacity):
    """With the card as large as that, and with others holding the rest of a larger one."""
    codes = [subprocess.run([client, case, str(number), torch], env=environment(*memory), capture_output=True, timeout=100).returncode
             for memory in ((capacity, 0), (BIG, BIG - capacity))]
    assert codes[0] == codes[1] and codes[0] in (0, 3), (case, number, capacity, codes)
    return codes[0] == 0


def fit(log, *arguments):
    run = subprocess.run([gpupeak, "fit", "--json", *arguments, *([log] if isinstance(log, str) else log)], capture_output=True,
                         text=True, timeout=100)
    assert run.returncode in (0, 1) and not run.stderr, (arguments, run.stderr)
    answer = json.loads(run.stdout)
    asked = answer["capacity_bytes"] is not None or answer["card"] is not None
    assert (run.returncode == 0) == (not asked or answer["verdict"] == "fits"), answer["verdict"]
    return answer


held = said = 0
verdicts = {}
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "run.gplog")
    for case, number, may_be_idle in CASES:
        assert record(log, case, number) == 0, case
        device = fit(log)["devices"][0]
        least, most = device["least_bytes"], device["most_bytes"]
        assert device["no_most"] == [] and device["no_least"] == [], device
        assert 0 < least <= most, (case, least, most)
        if case == "managed":
            (left_out,) = device["left_out"]
            assert left_out["kind"] == "managed" and left_out["bytes"] == number * 10 * MIB, left_out
            assert sum(row["bytes"] for row in left_out["holders"]) + left_out["other_bytes"] == left_out["bytes"], left_out
            assert "managed" in left_out["holders"][0]["site"], left_out
            shown = subprocess.run([gpupeak, "fit", log], capture_output=True, text=True, check=True).stdout
            assert "300 MiB of managed memory is left out" in shown and "managed fit_client.cc:" in shown, shown
        else:
            assert device["left_out"] == [], device
        most = device["enough_bytes"] or most
        if not may_be_idle:
            assert most - least <= 2 * MIB, (case, number, least, most)
        margin = fit(log, "--capacity", str(most))["devices"][0]["answer"]["margin_bytes"]
        edges = {least - MIB, least - 1, least, least + 2 * MIB, (least + most) // 2, most, most + margin - 1, most + margin,
                 most + margin + 2 * MIB}
        for capacity in sorted(edges):
            answer = fit(log, "--capacity", str(capacity))
            verdict = answer["verdict"]
            works = really(case, number, capacity)
            assert verdict in ("fits", "may_fit", "does_not_fit"), answer
            assert verdict != "fits" or works, (case, number, capacity, "fits", least, most)
            assert verdict != "does_not_fit" or not works, (case, number, capacity, "does not fit", least, most)
            if capacity >= most + margin:
                assert verdict == "fits", (case, capacity)
            if capacity < least:
                assert verdict == "does_not_fit", (case, capacity)
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            held += 1
        print(f"{case} {number}: {least / MIB:.1f} to {most / MIB:.1f} MiB")

        # What other processes hold on the recording machine is no part of it.
        assert record(log, case, number, others=10 << 30) == 0
        with_others = fit(log)["devices"][0]
        assert (with_others["least_bytes"], with_others["enough_bytes"] or with_others["most_bytes"]) == (least, most), (case, with_others)

    # What must not be called a fit, and why.
    def refused(why, verdict, key="no_most"):
        answer = fit(log, "--capacity", "70GiB")
        assert answer["verdict"] == verdict != "fits", (why, answer["verdict"])
        assert any(why in text for text in answer["devices"][0][key]), (why, answer["devices"][0])
        text = subprocess.run([gpupeak, "fit", "--capacity", "70GiB", log], capture_output=True, text=True)
        assert text.returncode == 1 and "no upper bound: " in text.stdout and "fits," not in text.stdout, text.stdout
        return answer["devices"][0]

    assert record(log, "killed", 10) == 128 + 9
    refused("SIGKILL", "may_fit")
    assert record(log, "fails", 10) == 7
    refused("exit code 7", "may_fit")
    assert record(log, "line", 20, memory=900 * MIB) == 3
    device = refused("refused", "may_fit")
    # What it asked for last it needs: of the card that it ran on it is known that it does not fit.
    assert device["refused_bytes"] > 900 * MIB, device
    assert fit(log, "--capacity", str(900 * MIB))["verdict"] == "does_not_fit"
    assert not really("line", 20, device["refused_bytes"] - MIB)
    assert record(log, "adapts", 20) == 0
    refused("refused", "may_fit")
    assert record(log, "line", 20, GPUPEAK_LEDGER="off") == 0
    device = refused("was not asked", "may_fit")
    assert device["beyond_bytes"] is None and device["most_bytes"] is None, device
    assert device["held_bytes"] == (300 + 740 + 11 + 1) * MIB, device
    assert fit(log, "--capacity", "1GiB")["verdict"] == "does_not_fit"
    # Without NVML there is no reading before the first context: what others hold cannot be told apart.
    assert record(log, "line", 20, FAKE_NVML="off") == 0
    answer = fit(log, "--capacity", "70GiB")
    assert answer["verdict"] == "fits" and any("other processes" in note for note in answer["devices"][0]["notes"]), answer
    # A damaged log bounds nothing.
    assert record(log, "torch", 24) == 0
    whole = open(log, "rb").read()
    with open(log, "wb") as file:
        file.write(whole[:len(whole) - 1000])
    answer = fit(log, "--capacity", "70GiB")
    assert answer["verdict"] == "unknown", answer
    refused("GP003", "unknown")
    refused("GP003", "unknown", "no_least")
    # A log of a wrapper.
    assert record(log, "no_gpu", 1) == 0
    answer = fit(log, "--capacity", "70GiB")
    assert answer["verdict"] == "unknown" and answer["devices"] == [], answer

    # What a child needs is in a log of its own, and a part of the run's need, whether it is given as well or not.
    both = os.path.join(folder, "both.gplog")
    subprocess.run([gpupeak, "run", "-q", "--host", "off", "-o", both, "--", "sh", "-c", f"{client} line 100; exec {client} line 4"],
                   env=environment(BIG), check=True, capture_output=True)
    of_child = [os.path.join(folder, "both.children", name) for name in os.listdir(os.path.join(folder, "both.children"))]
    started = json.loads(subprocess.run([gpupeak, "report", "--json", both], capture_output=True, check=True).stdout)["whole_run"]["processes"][-1]
    assert len(of_child) == 1 and started["started"], (of_child, started)
    alone, together = fit(started["log"])["devices"][0], fit(both)["devices"][0]
    assert together["least_bytes"] > 3 * alone["least_bytes"], (alone, together)
    given = fit([both, *of_child])["devices"][0]
    assert given["least_bytes"] == together["least_bytes"] and given["most_bytes"] == together["most_bytes"], (given, together)

    # Several processes on one GPU: no less than the largest, no more than all of them.
    logs = [os.path.join(folder, f"rank{i}.gplog") for i in (0, 1)]
    one, other = [fit(path)["devices"][0] for path in logs if record(path, "line", 20 if path == logs[0] else 10) == 0]
    both = fit(logs)["devices"]
    assert len(both) == 1 and both[0]["logs"] == [0, 1], both
    assert both[0]["least_bytes"] == one["least_bytes"] and both[0]["most_bytes"] == one["most_bytes"] + other["most_bytes"]

    # Cards: a small one, a large one, one that nobody knows.
    assert fit(logs[0], "--gpu", "h200")["verdict"] == "fits"
    assert fit(logs[0], "--gpu", "RTX4090")["card"]["name"] == "RTX 4090"
    assert record(log, "line", 1000) == 0
    assert fit(log, "--gpu", "T4")["verdict"] == "does_not_fit"
    table = fit(log)["devices"][0]["cards"]
    assert [card["answer"]["verdict"] for card in table][0] == "does_not_fit" and len(table) > 15, table
    assert all(card["source"] and card["least_usable_bytes"] <= card["most_usable_bytes"] for card in table)
    for wrong in (["--gpu", "RTX 4900"], ["--capacity", "0"], ["--capacity", "many"], ["--gpu", "T4", "--capacity", "1GiB"]):
        run = subprocess.run([gpupeak, "fit", *wrong, log], capture_output=True, text=True)
        assert run.returncode == 2 and run.stderr and not run.stdout, (wrong, run)
    run = subprocess.run([gpupeak, "fit", log + ".none"], capture_output=True, text=True)
    assert run.returncode == 3, run
    # Text: what it says of slack, and the width.
    assert record(log, "torch_idle", 5) == 0
    for width in (60, 100):
        text = subprocess.run([gpupeak, "fit", log], capture_output=True, text=True,
                              env=dict(os.environ, COLUMNS=str(width))).stdout
        assert "idle in PyTorch's pool" in text and "expandable_segments" in text, text
        assert max(map(len, text.splitlines())) <= width, text
print(f"{held} runs held at a capacity agree: {verdicts}")
assert held >= 90 and min(verdicts.values()) >= 20, verdicts
