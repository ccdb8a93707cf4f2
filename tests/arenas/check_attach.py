#!/usr/bin/env python3
"""Frameworks' pools of a program that ran already: what they hand out since `gpupeak attach` is what their own ledgers say.

usage: check_attach.py PRELOAD GPUPEAK DRIVER_FOLDER CLIENT KIND LIBRARY      (KIND: torch, ort, ort_host or xla)
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from attach_common import expect_nothing_leads_into_library  # noqa: E402
from common import GPUPEAK, Program, Skipped, environment, expect, expect_consistent, gpupeak, report, run_case  # noqa: E402

DRIVER, CLIENT, KIND, LIBRARY = sys.argv[3:7]
NAME = {"torch": "PyTorch", "ort": "ONNX Runtime", "ort_host": "ONNX Runtime", "xla": "XLA"}[KIND]
ON_GPU = KIND != "ort_host"
MIB = 1 << 20


def attach(program, log):
    code, text = gpupeak("attach", "-o", log, program.pid)
    expect(code == 0, text)


def leave(program):
    code, text = gpupeak("detach", program.pid)
    expect(code == 0 and "hold something else" not in text, text)
    expect_nothing_leads_into_library(program.pid)


def pool_of(log):
    summary = report(log)
    expect_consistent(summary)
    wrong = [w for w in summary["quality"]["warnings"] if w["code"] in ("GP027", "GP030", "GP045", "GP046", "GP047", "GP049")]
    expect(not wrong, f"{wrong}")
    view = subprocess.run([GPUPEAK, "pools", log, "--at", "end", "--json"], check=True, capture_output=True, text=True)
    found = [p for p in json.loads(view.stdout)["pools"] if p["name"] == NAME]
    expect(len(found) == 1, f"{[p['name'] for p in json.loads(view.stdout)['pools']]}")
    return summary, found[0]


class Client(Program):
    def __init__(self, folder, *options):
        super().__init__("", [CLIENT, KIND, LIBRARY, *options], {**environment(folder, False), "LD_LIBRARY_PATH": DRIVER})

    def ledger(self, line):
        """What its allocator has in use and reserved after it has done so."""
        in_use, reserved = self.tell(line).split()
        return int(in_use), int(reserved)


def loaded_later(folder):
    """The library comes after the attach: then all of its pool is known."""
    program = Client(folder, "later")
    log = os.path.join(folder, "later.gplog")
    attach(program, log)
    tell = program.ledger
    tell("open")
    most = tell(f"give 10 {2 * MIB}")
    tell("free 3")
    leave(program)
    _, pool = pool_of(log)
    expect("from_before" not in pool and pool["checks"] > 0 and pool["contradictions"] == 0, f"{pool}")
    peak = pool["peak"]
    expect((peak["in_use_bytes"], peak["reserved_bytes"]) == most, f"{peak}: {NAME} had {most}")
    tell("free 7")
    program.end()


def all_given_back(folder):
    """Nothing is in use at the attach, and the pool still has its memory: what it hands out of that contradicts nothing."""
    program = Client(folder)
    log = os.path.join(folder, "empty.gplog")
    tell = program.ledger
    tell(f"give 4 {MIB}")
    before = tell("free 4")
    attach(program, log)
    tell(f"give 1 {16 * MIB}")  # for which it takes more
    most = tell(f"give 2 {MIB}")
    leave(program)
    _, pool = pool_of(log)
    expect(before[0] == 0 and pool["checks"] > 0 and pool["contradictions"] == 0, f"{before} before: {pool}")
    expect(pool["peak"]["in_use_bytes"] == most[0], f"peak {pool['peak']}: {NAME} had {most}")
    tell("free 3")
    program.end()


def main(folder):
    if os.uname().machine != "x86_64":
        raise Skipped("x86-64 alone")
    loaded_later(folder)
    all_given_back(folder)
    program = Client(folder)
    tell = program.ledger
    before = tell(f"give 10 {MIB}")
    for number in range(3):
        log = os.path.join(folder, f"{number}.gplog")
        attach(program, log)
        tell("ask")
        tell("free 2")  # of before
        left = tell("now")
        most = tell(f"give 20 {2 * MIB}")
        tell("free 12")
        kept = tell("now")
        leave(program)
        tell("free 8")
        summary, pool = pool_of(log)
        expect(pool["checks"] > 0 and pool["contradictions"] == 0, f"{pool}")
        expect(pool["peak"]["in_use_bytes"] == most[0] - left[0], f"peak {pool['peak']}: {NAME} had {left}, then {most}")
        expect(pool["in_use_bytes"] == kept[0] - left[0], f"{pool['in_use_bytes']} in use: {NAME} had {left}, in the end {kept}")
        expect(pool["from_before"]["in_use_bytes"] == left[0], f"{pool['from_before']} from before: {NAME} had {left}")
        expect(pool["idle_bytes"] is None and pool["reserved_bytes"] is None, "what it has from before is not known")
        expect(pool.get("device") == (0 if ON_GPU else None), f"{pool.get('device')}")
        if number == 0 and ON_GPU:
            grown = summary["metrics"]["device.growth_peak_bytes"]
            expect(grown == most[1] - before[1], f"{grown}: {NAME} took {before}, then {most}")
    program.end()


run_case(main)
