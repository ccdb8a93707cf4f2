#!/usr/bin/env python3
"""The phases that a program had without any option: prints a Markdown row for each row of `gpupeak phases`.

usage: phases.py GPUPEAK NAME LOG SOURCE PHASE[=COUNT]…

Exit code 1 if a PHASE of SOURCE (ort, nvtx …) is missing or came another number of times, if the phases' allocations that
are live in the end and those outside of all phases are not what is live at exit, on the device and on the host, or if
the device events of the log leave anything else.
"""
import json
import re
import subprocess
import sys

gpupeak, name, log, source = sys.argv[1:5]
wanted = dict((text.split("=") + [None])[:2] for text in sys.argv[5:])

# Reserved addresses and imported memory are in no sum; managed memory has one of its own.
NOT_SUMMED = {"device.vmm_va", "device.imported", "device.managed"}
wrong = []


def live_of_events():
    """Bytes of device memory that the log's allocations leave, added up from its text form."""
    blocks, live, dump = {}, 0, subprocess.Popen([gpupeak, "export", "events", log], stdout=subprocess.PIPE, text=True, errors="replace")
    for line in dump.stdout:
        if " device_alloc " in line:
            block, kind, size = re.search(r"device_alloc id (\d+) kind (\S+) .* bytes (\d+) ", line).groups()
            blocks[block] = int(size) if kind.startswith("device.") and kind not in NOT_SUMMED else 0
            live += blocks[block]
        elif " device_free " in line:
            live -= blocks[re.search(r"device_free id (\d+)", line)[1]]
        elif " device_revive " in line:
            live += blocks[re.search(r"device_revive id (\d+)", line)[1]]
    if dump.wait() != 0:
        sys.exit(f"gpupeak export events {log} failed")
    return live


done = subprocess.run([gpupeak, "report", "--json", log], stdout=subprocess.PIPE, check=True)
summary = json.loads(done.stdout)
found = {}
for phase in summary["phases"]:
    if phase["source"] == source:
        found[phase["name"]] = found.get(phase["name"], 0) + phase["count"]
for phase, count in wanted.items():
    if phase not in found or (count is not None and found[phase] != int(count)):
        wrong.append(f"{source} phase {phase}: {found.get(phase, 0)} times")

cells = []
for side in ("device", "host"):
    live = summary["metrics"][side + ".live_bytes"]
    held = sum(p["metrics"][side + ".live_at_exit_bytes"] or 0 for p in summary["phases"] if p["depth"] == 0)
    outside = summary["metrics"][side + ".outside_phases.live_bytes"]
    if None in (live, outside) or held + outside != live:
        wrong.append(f"{side}: phases hold {held}, outside of them {outside}, live at exit {live}")
    cells.append(f"{held:,} + {outside:,} outside = {live:,} live at exit")
live = live_of_events()
if live != summary["metrics"]["device.live_bytes"]:
    wrong.append(f"the events leave {live} on the device")


def mib(figure):
    return "–" if figure is None else f"{figure / 2**20:,.1f}"


for phase in summary["phases"]:
    if phase["name"] not in wanted:
        continue
    for part in phase["instances"]:
        number = f"[{part['first']}{'' if part['last'] == part['first'] else '..' + str(part['last'])}]" if phase["count"] > 1 else ""
        sides = [" / ".join(mib(part[side] and part[side][figure]) for figure in
                            ("start_bytes", "peak_bytes", "end_bytes", "kept_bytes")) for side in ("device", "host")]
        print(f"| {name} | {phase['name']}{number} | {part['open_ns'] / 1e6:,.1f} | {sides[0]} | {sides[1]} |")
verdict = "**" + "; ".join(wrong) + "**" if wrong else "adds up"
print(f"| {name} | all outermost phases | {verdict} | {cells[0]} | {cells[1]} |")
sys.exit(1 if wrong else 0)
