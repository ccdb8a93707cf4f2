"""Runs a client of the simulated driver under the preload; its report's ledger must be the driver's own.

With NVML's list of processes each row at exit equals the simulated driver's cost of that name, to the byte, and
nothing is unexplained, whatever others do (--moves). Without NVML (--nvml off) what was there before the first context
cannot be told from the context. A list that lies (--lie) is not used, or its host's process numbers are seen through.
Where others move and there is no list, one row has all that is not handed out.
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
    parser.add_argument("--lie", default="")
    parser.add_argument("--moves", default="")
    parser.add_argument("--ends-without-list", action="store_true", help="what others have at the end is not known")
    parser.add_argument("--by-run", action="store_true", help="`gpupeak run` keeps NVML open, and tells of the driver in the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truth_path, log = os.path.join(folder, "truth.json"), os.path.join(folder, "run.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=options.driver, FAKE_CUDA_LEDGER=truth_path, FAKE_CUDA_COSTS="on",
                           FAKE_CUDA_DEVICES="2", FAKE_CUDA_OTHERS=str(OTHERS), FAKE_NVML=options.nvml,
                           LD_PRELOAD=options.preload, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                           GPUPEAK_LEDGER=options.ledger, GPUPEAK_LEDGER_HZ="1000", FAKE_NVML_LIES=options.lie)
        if options.moves:
            # So many readings use up the time that lists may take, and without a list no row is sure.
            environment.update(FAKE_CUDA_MOVES=options.moves, GPUPEAK_LEDGER_HZ="50")
        command = [options.program, *options.arguments]
        if options.by_run:
            environment["FAKE_CUDA_SHARED"] = os.path.join(folder, "figures")
            del environment["LD_PRELOAD"]
            command = [options.gpupeak, "run", "-q", "-o", log, "--", *command]
        subprocess.run(command, env=environment, check=True, timeout=100)
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
    has_list = options.nvml == "on" and options.lie in ("", "host_pids", "dead", "sibling", "wide", "ill", "instance", "fleeting")
    found_late = options.lie == "sibling" or bool(options.moves) and options.lie == "host_pids"
    if options.lie == "stranger" or options.moves and not has_list:
        problems = list(check_unknown(report["devices"][0], truth["devices"][0]))
    elif options.nvml == "on" and not has_list:
        problems = list(check_without_list(report["devices"][0], truth["devices"][0]))
    else:
        problems = [problem for ordinal in (0, 1)
                    for problem in check(report["devices"][ordinal], truth["devices"][ordinal], has_list,
                                         bool(options.moves) or options.ends_without_list, found_late)]
    if has_list and "others" not in text:
        problems.append("the text report does not name the other processes")
    if "NVIDIA-SMI" not in text:
        problems.append("the text report has no ledger")
    if problems:
        sys.exit("\n".join(problems))


def check_without_list(device, truth):
    """NVML tells of the card alone: the rows are differences of its figure, right where nobody else moves."""
    last = device["ledger"]["at_exit"]
    rows = {row["cause"]: row["bytes"] for row in last["rows"]}
    if last["of_process"] or last["others_bytes"] is not None:
        yield f"a list that lies was used: {last}"
    for cause, bytes in {**truth["costs"], "start": OTHERS, "unexplained": 0}.items():
        if rows.get(cause, 0) != bytes:
            yield f"{cause} {rows.get(cause)}, truly {bytes}"


def check_unknown(device, truth):
    """Others have moved, and nobody knows by how much: no row says what cannot be known."""
    last, items = device["ledger"]["at_exit"], device["ledger"]["items"]
    rows = {row["cause"]: row["bytes"] for row in last["rows"]}
    if last["of_process"] or last["others_bytes"] is not None or items:
        yield f"a figure of nobody is used: {last} {items}"
    if rows.keys() - {"rounding", "pool_slack"} != {"others_and_context"}:
        yield f"rows that are differences: {rows}"
    if last["tracked_bytes"] + sum(rows.values()) != last["used_bytes"]:
        yield f"rows do not add up: {last}"
    if device["metrics"]["device.ledger.context_bytes"] is not None:
        yield "the context has a metric"


def check(device, truth, by_nvml, moves, found_late):
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
        if last["used_bytes"] != truth["in_use"] - truth["others"]:
            yield f"{name}: in use {last['used_bytes']}, truly {truth['in_use']}, others {truth['others']}"
        if not last["of_process"] or {"start", "external", "start_and_context"} & rows.keys():
            yield f"{name}: rows of others: {rows}"
        if not moves and last["others_bytes"] != truth["others"]:
            yield f"{name}: others {last['others_bytes']}, truly {truth['others']}"
        if last["others_bytes"] != sum(other["bytes"] for other in last["others"]):
            yield f"{name}: others do not add up: {last}"
    else:
        # The context's own bytes and what was there before are one; other processes cannot be seen.
        expected["start_and_context"] = expected.pop("context") + OTHERS
        expected.pop("context", None)
    if found_late and device["ordinal"] == 0:  # what there is by then is one row
        expected = {"unexplained": 0}
    for cause, bytes in expected.items():
        if rows.get(cause) != bytes:
            yield f"{name}: {cause} {rows.get(cause)}, truly {bytes}"
    metrics = device["metrics"]
    if metrics["device.driver_used.peak_bytes"] < last["used_bytes"]:
        yield f"{name}: the highest reading is below the last"
    if by_nvml and not moves and metrics["device.external_start_bytes"] != OTHERS:
        yield f"{name}: others at start {metrics['device.external_start_bytes']}"


main()
