#!/usr/bin/env python3
"""In real programs' logs, the memory that pools had reserved is the sum of what the requests made them take.

usage: causes.py LIBGPUPEAK GPUPEAK LOG…
"""
import json
import subprocess
import sys

from common import GPUPEAK, expect, run_checks


def main():
    logs = sys.argv[3:]
    expect(len(logs) >= 10, logs)
    on_devices = in_advance = in_holes = driver_pools = 0
    for log in logs:
        done = subprocess.run([GPUPEAK, "report", "--json", "--top", "3", log], capture_output=True, text=True, check=True)
        summary = json.loads(done.stdout)
        for pools in summary["driver_pools"]:
            causes = sum(cause["bytes"] for cause in pools["causes"]) + pools["other_cause_bytes"]
            reserved = summary["devices"][pools["device"]]["metrics"]["device.kind.pool.reserved_peak_bytes"]
            expect(causes == pools["reserved_peak_bytes"] == reserved, f"{log}: {pools}")
            expect(pools["in_use_bytes"] <= reserved and pools["growths"], f"{log}: {pools}")
            driver_pools += 1
        for pool in summary["arenas"]:
            where = f"{log}: {pool['name']}"
            causes = sum(cause["bytes"] for cause in pool["causes"]) + pool["other_cause_bytes"]
            expect(causes == pool["reserved_peak_bytes"], f"{where}: causes {causes}, reserved {pool['reserved_peak_bytes']}")
            expect(sum(growth["bytes"] for growth in pool["growths"]) <= causes, f"{where}: it grew to more than it was")
            largest = pool["at_largest"]
            held = sum(part["bytes"] for part in largest["parts"]) + largest["other_bytes"]
            expect(held == largest["in_use_bytes"] <= largest["reserved_bytes"] == causes, f"{where}: {largest}")
            if pool.get("device") is None:
                continue
            on_devices += 1
            peak = pool["at_device_peak"]
            expect(0 <= peak["never_used_bytes"] <= peak["idle_bytes"], f"{where}: {peak}")
            expect(peak["idle_in_holes_bytes"] + peak["idle_for_graphs_bytes"] <= peak["idle_bytes"], f"{where}: {peak}")
            in_holes += peak["idle_in_holes_bytes"] > 0
            in_advance += any(cause["largest_asked_bytes"] < cause["largest_bytes"] for cause in pool["causes"])
    expect(on_devices >= 5 and in_advance >= 2, f"{on_devices} pools, {in_advance} took more than was asked for")
    expect(in_holes >= 3 and driver_pools >= 1, f"{in_holes} with holes, {driver_pools} of the driver's")


run_checks(main)
