#!/usr/bin/env python3
"""Prints a Markdown row of the ledger of a run, for each device that was used.

usage: ledger.py REPORT_JSON NAME [IN_USE]

Exit code 1 if more than 1 % of what was in use is unexplained, at the peak or at exit, or if the rows do not add up
to the byte. IN_USE: what the program's own last cudaMemGetInfo said; then one of the readings is the same: the process's,
and what the card has beside it.
"""
import json
import sys

report, name = json.load(open(sys.argv[1], encoding="utf-8")), sys.argv[2]
in_use = int(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else None
good = True
read = [device["ledger"] for device in report["devices"] if device["ledger"]]
if not read:
    # A process that only counts devices has no context, and nothing to explain.
    good = report["metrics"]["device.alloc_count"] == 0
    print(f"| {name} | {'no context' if good else '**no readings**'} | | | | | |")


def of_card(ledger):
    """What the card had in use at each reading."""
    beside = ledger["at_peak"]["card_used_bytes"] - ledger["at_peak"]["used_bytes"]
    return [used + beside for _, used in ledger["readings"]] + [ledger["at_exit"]["card_used_bytes"]]


if in_use is not None and not any(abs(card - in_use) <= in_use // 1000 for ledger in read for card in of_card(ledger)):
    good = False
    print(f"| {name} | **no reading is cudaMemGetInfo's {in_use:,}** | | | | | |")
for device in report["devices"]:
    if not device["ledger"]:
        continue
    cells = []
    for when in ("at_peak", "at_exit"):
        view = device["ledger"][when]
        rows = {row["cause"]: row["bytes"] for row in view["rows"]}
        adds_up = view["tracked_bytes"] + sum(rows.values()) == view["used_bytes"]
        unexplained = rows["unexplained"]
        share = abs(unexplained) / max(view["used_bytes"], 1)
        small = share <= 0.01
        good = good and adds_up and small
        cells += [f"{view['used_bytes']:,}", f"{view['tracked_bytes']:,}",
                  f"{unexplained:,} ({share:.2%}){'' if small else ' **OVER 1 %**'}{'' if adds_up else ' **DOES NOT ADD UP**'}"]
    print(f"| {name} | " + " | ".join(cells) + " |")
sys.exit(0 if good else 1)
