#!/usr/bin/env python3
"""gpupeak sweep on programs whose need is a function of a number: the largest number that it says fits, against the one that is
found by really running them at that capacity; and how it stops, goes on and leaves out.

usage: check_sweep.py GPUPEAK DRIVER_FOLDER CLIENT TORCH
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

gpupeak, driver, client, torch = sys.argv[1:5]
MIB = 1 << 20
STEP = 4
# case, capacities in MiB, whether it is smooth
CASES = [("line", (1300, 2500, 4000), True), ("square", (2000, 3001, 9000), True), ("late_code", (3000, 5000), True),
         ("odd_sizes", (2000, 4000), True), ("threads", (1500, 3000), True), ("noisy", (1500, 3000), False),
         ("driver_pool", (2000, 4000), False), ("torch", (1200, 2000), False), ("torch_idle", (3800, 6000), False)]


def environment(memory=80 << 30):
    return dict(os.environ, LD_LIBRARY_PATH=driver, FAKE_CUDA_COSTS="on", FAKE_CUDA_MEMORY=str(memory))


def sweep(folder, *arguments, memory=80 << 30, command=None, code=0):
    run = subprocess.run([gpupeak, "sweep", "--json", "--out", folder, *arguments, "--", *(command or [client, "{case}", "{n}", torch])],
                         env=environment(memory), capture_output=True, text=True, timeout=200)
    assert run.returncode == code, (arguments, run.returncode, run.stderr)
    return json.loads(run.stdout) if run.stdout else run.stderr


def truth(case, capacity):
    """The largest multiple of the step that runs there; every smaller one does, too."""
    largest = 0
    for n in range(STEP, 1000, STEP):
        code = subprocess.run([client, case, str(n), torch], env=environment(capacity), capture_output=True, timeout=100).returncode
        assert code in (0, 3), (case, n, code)
        if code == 3:
            return largest
        largest = n
    raise AssertionError(case)


def statuses(report):
    return [run["status"] for run in report["runs"]]


with tempfile.TemporaryDirectory() as top:
    # What is predicted, from six runs with plenty of memory.
    for case, capacities, smooth in CASES:
        for capacity in capacities:
            report = sweep(os.path.join(top, case), "-P", f"n={STEP}:{6 * STEP}:{STEP}", "--capacity", f"{capacity}MiB",
                           command=[client, case, "{n}", torch])
            group = report["groups"][0]
            real = truth(case, capacity * MIB)
            largest = group["largest"] or 0
            print(f"{case} at {capacity} MiB: {largest} said, {real} found; may up to {group['may_fit']}")
            assert largest <= real, (case, capacity, largest, real)
            assert not smooth or largest >= real - STEP, (case, capacity, largest, real)
            # What may fit by the lower bound is no less than what does.
            assert (group["may_fit"] or largest) >= largest, group
        assert all(run["from_before"] for run in report["runs"]), report["runs"]

    # A pool that gives much back: the runs that check a prediction are judged by the simulation, and lead to the largest value.
    for capacity in (1900, 2300, 3100):
        folder = os.path.join(top, "torch_train")
        predicted = sweep(folder, "-P", f"n={STEP}:{4 * STEP}:{STEP}", "--capacity", f"{capacity}MiB",
                          command=[client, "torch_train", "{n}", torch])["groups"][0]["largest"]
        group = sweep(folder, "-P", f"n={STEP}:{4 * STEP}:{STEP}", "--verify", "--capacity", f"{capacity}MiB",
                      command=[client, "torch_train", "{n}", torch])["groups"][0]
        real = truth("torch_train", capacity * MIB)
        print(f"torch_train at {capacity} MiB: {predicted} said, {group['largest']} checked, {real} found")
        assert real - 2 * STEP <= predicted <= real, (capacity, predicted, real)
        assert group["was_run"] and real - STEP <= group["largest"] <= real, (capacity, group, real)

    # On a card of that size: stops where memory runs out, checks the value and the next one.
    for case, capacity in (("line", 3000), ("square", 3000), ("torch", 1500)):
        folder = os.path.join(top, "verify-" + case)
        report = sweep(folder, "-P", f"n={STEP}:{5 * STEP}:{STEP}", "--verify", memory=capacity * MIB, command=[client, case, "{n}", torch])
        group = report["groups"][0]
        assert group["was_run"] and group["next_was_run"], group
        real = truth(case, capacity * MIB)
        assert real - STEP <= group["largest"] <= real or case == "torch" and group["largest"] <= real, (case, group, real)
        print(f"{case} on {capacity} MiB: {group['largest']} checked, {real} found")
    folder = os.path.join(top, "stop")
    report = sweep(folder, "-P", "n=8,40,16,80,24,400", memory=2000 * MIB, command=[client, "line", "{n}"])
    assert statuses(report) == ["done", "out_of_memory", "done", "not_run", "done", "not_run"], statuses(report)
    assert not os.path.exists(os.path.join(folder, "n=80")) and "n=40" in report["runs"][3]["why"], report["runs"][3]
    assert "CUDA out of memory" in open(report["runs"][1]["output"]).read()
    assert report["runs"][1]["most_bytes"] is None, report["runs"][1]

    # The page: a bar for each run that was measured, as high as its tags; the answer, and nothing from elsewhere.
    page = os.path.join(top, "page.html")
    report = sweep(os.path.join(top, "page"), "-P", "n=4,8,12,400", "--html", page, memory=2000 * MIB, command=[client, "square", "{n}"])
    text = open(page).read()
    assert "n=12 fits (was run)" in text and "out of memory" in text and "src=" not in text and "http://" not in text, text
    drawing = xml.dom.minidom.parseString(re.search(r"<svg.*?</svg>", text, re.S).group(0))
    bars = {}
    for bar in drawing.getElementsByTagName("rect"):
        bars.setdefault(bar.getAttribute("x"), []).append(float(bar.getAttribute("height")))
    assert len(bars) == 3 and all(len(parts) == 2 for parts in bars.values()), bars  # weights and activations
    heights = [sum(bars[x]) for x in sorted(bars, key=float)]
    peaks = [run["peak_bytes"] for run in report["runs"][:3]]
    assert all(abs(h / heights[0] - p / peaks[0]) < 0.01 for h, p in zip(heights, peaks)), (heights, peaks)
    assert len(drawing.getElementsByTagName("circle")) == 3

    # A run that fails otherwise is left out; so is one that adapts.
    report = sweep(os.path.join(top, "fails"), "-P", "n=1:4", command=[client, "fails_at_3", "{n}"])
    assert statuses(report) == ["done", "done", "failed", "done"], statuses(report)
    assert report["runs"][2]["exit_code"] == 5 and report["groups"][0]["most_curve"]["points"] == 3, report
    report = sweep(os.path.join(top, "adapts"), "-P", "n=1:3", command=[client, "adapts", "{n}"], code=1)
    assert statuses(report) == ["refused"] * 3 and report["groups"][0]["largest"] is None, report
    report = sweep(os.path.join(top, "no_gpu"), "-P", "n=1,2", command=[client, "no_gpu", "{n}"], code=1)
    assert statuses(report) == ["failed"] * 2 and report["groups"][0]["capacity"] is None, report

    # Two parameters: a curve for each value of the second. Out of memory holds for what is no smaller.
    report = sweep(os.path.join(top, "two"), "-P", "n=4,8,12,16", "-P", "case=line,square", memory=1400 * MIB)
    assert len(report["runs"]) == 8 and [group["others"]["case"] for group in report["groups"]] == ["line", "square"]
    by_values = {(run["values"]["case"], run["values"]["n"]): run["status"] for run in report["runs"]}
    assert by_values["line", "16"] == "done" and by_values["square", "16"] == "out_of_memory", by_values

    # Programs that a script starts have logs of their own.
    report = sweep(os.path.join(top, "script"), "-P", "n=4,8,12", command=["sh", "-c", f"{client} line {{n}}; exit $?"])
    assert statuses(report) == ["done"] * 3 and "children" in report["runs"][0]["log"], report["runs"][0]
    assert report["groups"][0]["most_curve"]["points"] == 3, report["groups"]

    # Goes on where it was; only with --again from the beginning; never takes another command's runs.
    folder, counter = os.path.join(top, "again"), os.path.join(top, "count")
    command = ["sh", "-c", f"echo {{n}} >>{counter}; exec {client} line {{n}}"]
    sweep(folder, "-P", "n=4,8", command=command)
    sweep(folder, "-P", "n=4,8,12", command=command)
    assert open(counter).read().split() == ["4", "8", "12"]
    sweep(folder, "-P", "n=4,8", "--again", command=command)
    assert open(counter).read().split() == ["4", "8", "12", "4", "8"]
    assert "another command" in sweep(folder, "-P", "n=4,8", command=[client, "line", "{n}"], code=2)

    # Ctrl-C: what was done is shown and kept.
    folder = os.path.join(top, "stopped")
    started = os.path.join(top, "started")
    command = ["sh", "-c", f"{client} line {{n}}; echo {{n}} >>{started}; if [ {{n}} = 12 ] && [ ! -e {top}/go ]; then exec sleep 60; fi"]
    for number, to_group in ((signal.SIGINT, True), (signal.SIGTERM, False)):
        if os.path.exists(started):
            os.remove(started)
        sweeping = subprocess.Popen([gpupeak, "sweep", "--json", "--out", folder, "-P", "n=4:20:4", "--", *command], env=environment(),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not os.path.exists(started) or "12" not in open(started).read():
            time.sleep(0.02)
        (os.killpg if to_group else os.kill)(sweeping.pid, number)
        out, err = sweeping.communicate(timeout=50)
        assert sweeping.returncode == 130, (sweeping.returncode, err)
        report = json.loads(out)
        assert report["interrupted"] and statuses(report) == ["done", "done"], report
        assert not os.path.exists(os.path.join(folder, "n=12", "ended")) and not os.path.exists(os.path.join(folder, "n=16"))
    open(os.path.join(top, "go"), "w").close()
    report = sweep(folder, "-P", "n=4:20:4", command=command)
    assert [run["from_before"] for run in report["runs"]] == [True, True, False, False, False], report["runs"]

    # Hashes where names would be.
    report = sweep(folder, "-P", "n=4:20:4", "--confidential", command=command)
    assert top not in json.dumps(report) and "sleep" not in json.dumps(report) and statuses(report) == ["done"] * 5, report

    # Mistakes, and programs that there are not.
    for arguments, words in ((["-P", "n"], "NAME=VALUE"), (["-P", "n=1", "-P", "n=2"], "twice"), (["-P", "m=1"], "{m}"),
                             (["-P", "n=1", "--gpu", "X9"], "no card"), (["-P", "n=4:1"], "FIRST")):
        assert words in sweep(os.path.join(top, "wrong"), *arguments, command=[client, "line", "{n}"], code=2), arguments
    assert "cannot be run" in sweep(os.path.join(top, "none"), "-P", "n=1", command=[client + "-not", "{n}"], code=127)

    # Text for people: fits a narrow terminal's table, and says what comes of it.
    text = subprocess.run([gpupeak, "sweep", "-q", "--out", os.path.join(top, "square"), "-P", f"n={STEP}:{6 * STEP}:{STEP}", "--gpu", "T4",
                           "--", client, "square", "{n}", torch], env=dict(environment(), COLUMNS="60"), capture_output=True, text=True)
    assert text.returncode == 0 and not text.stderr, text
    for words in ("× n²", "activations", "T4: n=", "fits (predicted)"):
        assert words in text.stdout, (words, text.stdout)
    assert max(map(len, text.stdout.splitlines())) <= 60, text.stdout
print("as it was found by trying, or one step less; never more")
