"""Runs a client of the simulated driver under the preload; its report's ledger must be the driver's own.

With NVML each row at exit equals the simulated driver's cost of that name, to the byte, and nothing is
unexplained. Without (--nvml off) what was there before the first context cannot be told from the context.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

OTHERS = 100 << 20


def main():
    parser = argparse.ArgumentParser()
    for name in ("preload", "driver", "gpupeak", "program"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--arguments", nargs="*", default=[])
    parser.add_argument("--nvml", default="on")
    parser.add_argument("--ledger", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truth_path, log = os.path.join(folder, "truth.json"), os.path.join(folder, "run.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=options.driver, FAKE_CUDA_LEDGER=truth_path, FAKE_CUDA_COSTS="on",
                           FAKE_CUDA_DEVICES="2", FAKE_CUDA_OTHERS=str(OTHERS), FAKE_NVML=options.nvml,
                           LD_PRELOAD=options.preload, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                           GPUPEAK_LEDGER=options.ledger, GPUPEAK_LEDGER_HZ="1000")
        subprocess.run([options.program, *options.arguments], env=environment, check=True, timeout=100)
        report = json.loads(subprocess.run([options.gpupeak, "report", "--json", log], check=True, capture_output=True,
                                           timeout=100).stdout)
        text = subprocess.run([options.gpupeak, "report", log], check=True, capture_output=True, text=True,
                              timeout=100).stdout
        with open(truth_path, encoding="ascii") as file:
            truth = json.load(file)
    if options.ledger == "off":
        if any(device["ledger"] for device in report["devices"]) or "NVIDIA-SMI" in text:
            sys.exit("readings with GPUPEAK_LEDGER=off")
        return
    problems = [problem for ordinal in (0, 1)
                for problem in check(report["devices"][ordinal], truth["devices"][ordinal], options.nvml == "on")]
    if "NVIDIA-SMI" not in text:
        problems.append("the text report has no ledger")
    if problems:
        sys.exit("\n".join(problems))


def check(device, truth, by_nvml):
    name, ledger = f"device {device['ordinal']}", device["ledger"]
    if ledger["source"] != ("nvml" if by_nvml else "cuMemGetInfo"):
        yield f"{name}: read by {ledger['source']}"
    for when in ("at_peak", "at_exit"):
        view = ledger[when]
        if view["tracked_bytes"] + sum(row["bytes"] for row in view["rows"]) != view["used_bytes"]:
            yield f"{name}: the rows {when} do not add up"
    last = ledger["at_exit"]
    rows = {row["cause"]: row["bytes"] for row in last["rows"]}
    expected = {cause: bytes for cause, bytes in truth["costs"].items() if bytes or cause in rows}
    expected["unexplained"] = 0
    if last["tracked_bytes"] != truth["device_total"]["live"]:
        yield f"{name}: tracked {last['tracked_bytes']}, truly {truth['device_total']['live']}"
    if by_nvml:
        expected["start"] = OTHERS
        if truth["others"] != OTHERS:
            expected["external"] = truth["others"] - OTHERS
        if last["used_bytes"] != truth["in_use"]:
            yield f"{name}: in use {last['used_bytes']}, truly {truth['in_use']}"
    else:
        # The context's own bytes and what was there before are one; other processes cannot be seen.
        expected["start_and_context"] = expected.pop("context") + OTHERS
        expected.pop("context", None)
    for cause, bytes in expected.items():
        if rows.get(cause) != bytes:
            yield f"{name}: {cause} {rows.get(cause)}, truly {bytes}"
    metrics = device["metrics"]
    if metrics["device.driver_used.peak_bytes"] < last["used_bytes"]:
        yield f"{name}: the highest reading is below the last"
    if by_nvml and metrics["device.external_start_bytes"] != OTHERS:
        yield f"{name}: others at start {metrics['device.external_start_bytes']}"


main()
