#!/usr/bin/env python3
"""What grows with each step, against the ledgers of the simulated driver and of the stand-in for PyTorch.

usage: check_growth.py PRELOAD GPUPEAK DRIVER_FOLDER CLIENT TORCH

Where steps keep memory: one row, of the right phase and site, with the bytes by which the ledger grew between just these
two steps. Where they do not (nothing kept, kept once, given back now and then, a cache that fills, another amount each
time): no row.
"""
import json
import os
import subprocess
import sys
import tempfile

preload, gpupeak, driver, client, torch = sys.argv[1:6]
# case, steps: the site's function and whether each step keeps the same; None: nothing is said
CASES = [("steady", 7, "keep"), ("steady", 100, "keep"), ("steady", 1000, "keep"), ("steady", 3, None),
         ("once_then_steady", 100, "keep"), ("nothing", 100, None), ("only_once", 100, None), ("emptied", 100, None),
         ("filled", 100, None), ("replaced", 100, None), ("torch_steady", 100, "append"), ("host_steady", 100, "remember")]

with tempfile.TemporaryDirectory() as folder:
    for case, steps, site in CASES:
        log, truth = os.path.join(folder, "run.gplog"), os.path.join(folder, "truth")
        subprocess.run([client, case, str(steps), truth, torch], check=True, timeout=100,
                       env=dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off"))
        report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True).stdout)
        ledger = [[int(n) for n in line.split()] for line in open(truth)]
        side = "host" if case.startswith("host") else "device"
        rows = [row for row in report["growth"] if row["side"] == side or site is None]
        if site is None:
            assert not rows, (case, rows)
            print(f"{case}, {steps} steps: nothing")
            continue
        assert len(rows) == 1, (case, rows)
        row = rows[0]
        assert row["phase"] == "step" and site in row["site"] and row["same_each_time"], (case, row)
        assert row["last"] == steps and row["first"] <= 4, (case, row)
        assert row["steps"] == row["last"] - row["first"] and row["steps"] * row["bytes_each"] == row["grown_bytes"], (case, row)
        if side == "device":
            column = 1 if case.startswith("torch") else 0
            grown = ledger[row["last"] - 1][column] - ledger[row["first"] - 1][column]
            assert row["grown_bytes"] == grown, (case, row, grown)
        else:
            assert row["bytes_each"] == 100000, row
        for verb in ("report", "phases"):
            text = subprocess.run([gpupeak, verb, log], check=True, capture_output=True, text=True).stdout
            assert "GROWTH" in text and f"at each step, {row['steps']}" in text.replace(" ", " "), text
        print(f"{case}, {steps} steps: {row['text']}")
