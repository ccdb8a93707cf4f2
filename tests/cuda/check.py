"""Runs a client of the simulated driver with and without the preload, and compares.

The program must behave the same, and the counters page of its log must hold what the simulated driver's own
ledger says: live and peak bytes of each device and kind, exactly. With --unordered (several threads at once)
the order of the calls is not the same for both, so that peaks are bounded only: a tool that takes a free
down before the call and an allocation up after it can see no more than the driver did. How much a trim of
the graphs' reserve lets go is known only after the call, so of a device's total that reserve is left open.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from counters import read as read_counters

# enum gpupeak_kind, and the ledger's names
KINDS = {16: "linear", 17: "pool_used", 18: "vmm", 19: "array", 20: "graph_reserved", 21: "managed", 22: "imported", 23: "addresses"}
PEAK_LINE = "expected device peak: "


def run(command, options, folder, preload):
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = options.driver
    ledger = os.path.join(folder, "with.json" if preload else "without.json")
    environment["FAKE_CUDA_LEDGER"] = ledger
    if preload:
        environment["LD_PRELOAD"] = options.preload
        environment["GPUPEAK_OUT"] = os.path.join(folder, "%p.gplog")
        environment["GPUPEAK_SUMMARY"] = "off"
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100,
                            check=False)
    return result, ledger


def text_of(result, options):
    """What the program printed; of one that prints times only the line with its own peak."""
    lines = result.stdout.decode().splitlines()
    return [line for line in lines if line.startswith(PEAK_LINE)] if options.expected_peak else lines


class Comparison:
    def __init__(self, unordered):
        self.unordered = unordered
        self.problems = []
        self.compared = 0

    def equal(self, what, ours, truth):
        self.compared += 1
        if ours != truth:
            self.problems.append(f"{what}: gpupeak {ours:,}, driver {truth:,}")

    def gauge(self, what, ours, truth, left_open=0):
        """`left_open`: bytes that a peak may be above the driver's where the calls run at once."""
        live, peak = ours
        self.equal(f"{what} live", live, truth["live"])
        if not self.unordered:
            self.equal(f"{what} peak", peak, truth["peak"])
        elif not truth["live"] <= peak <= truth["peak"] + left_open:
            self.problems.append(f"{what} peak: gpupeak {peak:,} is not within {truth['live']:,} … "
                                 f"{truth['peak']:,} + {left_open:,}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True, help="libgpupeak.so")
    parser.add_argument("--driver", required=True, help="the folder of the simulated libcuda.so.1")
    parser.add_argument("--unordered", action="store_true", help="calls run at once: peaks are bounded only")
    parser.add_argument("--unmatched", type=int, default=0, help="frees of pointers never seen")
    parser.add_argument("--expected-peak", action="store_true",
                        help=f"the program prints its own peak of device 0, as '{PEAK_LINE}N bytes'")
    parser.add_argument("--gpupeak", help="the command: what it replays of the log must be the same")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    options.command = [part for part in options.command if part != "--"]

    with tempfile.TemporaryDirectory() as folder:
        alone, _ = run(options.command, options, folder, preload=False)
        if alone.returncode != 0:
            raise SystemExit(f"without the preload: exit code {alone.returncode}\n{alone.stderr.decode()}")
        hooked, ledger_path = run(options.command, options, folder, preload=True)
        comparison = Comparison(options.unordered)
        for what, ours, theirs in (("exit code", hooked.returncode, alone.returncode),
                                   ("standard output", text_of(hooked, options), text_of(alone, options)),
                                   ("standard error", hooked.stderr, alone.stderr)):
            if ours != theirs:
                comparison.problems.append(f"{what}: {ours!r} with the preload, {theirs!r} without")

        paths = [path for path in glob.glob(os.path.join(folder, "*.gplog")) if read_counters(path)["device_events"] > 0]
        logs = [read_counters(path) for path in paths]
        if len(logs) != 1 or not os.path.exists(ledger_path):
            comparison.problems.append(f"{len(logs)} logs with device events, one expected; in the folder: "
                                       f"{sorted(os.listdir(folder))}")
        else:
            compare(logs[0], ledger_path, options, comparison)
            if options.gpupeak:
                compare_replayed(paths[0], logs[0], options, comparison)
            if options.expected_peak:
                expected = int(text_of(hooked, options)[0].removeprefix(PEAK_LINE).split()[0])
                comparison.equal("peak as the program knows it", logs[0]["devices"][0]["total"][1], expected)
        if comparison.problems:
            sys.exit("\n".join(comparison.problems))
        print(f"{comparison.compared} figures equal")


def compare_replayed(path, page, options, comparison):
    """Of a log that has long reached its limit: no event of the device is left out."""
    summary = json.loads(subprocess.run([options.gpupeak, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout)
    codes = [warning["code"] for warning in summary["quality"]["warnings"]]
    comparison.equal("warnings of the limit", codes.count("GP033"), 1)
    comparison.equal("warnings of what is missing", codes.count("GP004") + codes.count("GP030"), 0)
    comparison.equal("device events", summary["quality"]["device_events"], page["device_events"])
    for device in summary["devices"]:
        live, peak = page["devices"][device["ordinal"]]["total"]
        comparison.equal(f"replayed peak of device {device['ordinal']}", device["metrics"]["device.peak_bytes"], peak)
        comparison.equal(f"replayed live bytes of device {device['ordinal']}", device["metrics"]["device.live_bytes"], live)


def compare(page, ledger_path, options, comparison):
    with open(ledger_path, encoding="ascii") as file:
        ledger = json.load(file)
    comparison.equal("frees of unknown pointers", page["unmatched_frees"], options.unmatched)
    comparison.equal("dropped events", page["dropped_events"], 0)
    # The driver allocates while it answers the tool's own questions.
    comparison.equal("allocator calls inside a hook", page["reentrant_calls"], 0)
    host = ledger["host"]
    # One gauge for all host memory of the driver's.
    comparison.gauge("pinned", page["pinned"], host["host_total"])
    comparison.gauge("registered", page["registered"], host["registered"])
    comparison.gauge("managed", page["managed"], host["managed"])
    for ordinal, truth in enumerate(ledger["devices"]):
        ours = page["devices"][ordinal]
        comparison.gauge(f"device {ordinal} total", ours["total"], truth["device_total"],
                         left_open=truth["graph_reserved"]["peak"])
        for kind, name in KINDS.items():
            comparison.gauge(f"device {ordinal} {name}", ours["kinds"][kind], truth[name])


main()
