"""Compares how often blocks of arenas were seen used with the client's own book.

check_pool_uses.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM: of each block, in the order in which they ended, and of those that
are live in the end, the count must be equal; -1: it is not followed, and the log says nothing of it.
"""
import json
import os
import re
import subprocess
import sys
import tempfile


def ns_of(seconds):
    return int(seconds.replace(".", "").replace("+", ""))


def stands_as_in(dump, view, at):
    """What the view of the pools says of each block, against the record of its uses that is the next of its address."""
    then, records, problems, seen = view["at"]["time_ns"], {}, [], set()
    for line in dump.splitlines():
        match = re.match(r"\+([\d.]+) .*(?:arena_free \d+ (0x[0-9a-f]+).* used|used arena \d+ (0x[0-9a-f]+)) count (\d+)"
                         r"(?: first \+([\d.]+) last \+([\d.]+) streams \d(?: idle \+([\d.]+) to \+([\d.]+))?)?", line)
        if match:
            records.setdefault(int(match[2] or match[3], 16), []).append(match)
    for block in (block for pool in view["pools"] for block in pool["blocks"]):
        record = next((r for r in records.get(block["address"], []) if ns_of(r[1]) > then), None)
        if block["use"] == "not_known":
            continue  # not followed
        if record is None:
            problems.append(f"{at}: {block} has no record")
            continue
        first, last, idle_from, idle_to = (ns_of(record[i]) if record[i] else None for i in (5, 6, 7, 8))
        if record[4] == "0":
            use, ns = "never", None
        elif last <= then:
            use, ns = "over", then - last
        elif first > then:
            use, ns = "early", first - then
        elif idle_from is not None and idle_from <= then < idle_to:
            use, ns = "idle", idle_to - idle_from
        else:
            use, ns = "in_use", None
        seen.add(use)
        if block["use"] != use or abs((block["use_ns"] or 0) - (ns or 0)) > 2:
            problems.append(f"{at}: {block['use']} {block['use_ns']} of {block['address']:#x}, {use} {ns} in truth")
    if not seen & {"over", "in_use", "idle"}:
        problems.append(f"{at}: no block with uses, {seen}")
    return problems[:3]


def main():
    preload, driver, gpupeak, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=driver, GPUPEAK_SUMMARY="off", GPUPEAK_OUT=log, GPUPEAK_LAST_USE="1",
                           GPUPEAK_HOST="off", LD_PRELOAD=preload)
        output = subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=True).stdout.decode()
        dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        pools = {at: json.loads(subprocess.run([gpupeak, "pools", "--json", "--at", at, log], stdout=subprocess.PIPE,
                                               check=True).stdout) for at in ("peak", "middle")}
        text = subprocess.run([gpupeak, "pools", log], stdout=subprocess.PIPE, check=True).stdout.decode()
    truth = {what: [(name, int(at, 16), int(count)) for name, at, count in
                    re.findall(rf"^{what} (\S+) (0x[0-9a-f]+) (-?\d+)$", output, re.M)] for what in ("ended", "live")}
    names = dict(re.findall(r" arena (\d+) created \S*?(PyTorch|own)", dump))
    ended, live, driver_blocks, address_of = [], [], [], {}
    for line in dump.splitlines():
        if match := re.search(r" arena_free (\d+) (0x[0-9a-f]+)", line):
            count = re.search(r" used count (\d+)", line)
            ended.append((names.get(match[1], match[1]), int(match[2], 16), int(count[1]) if count else -1))
        elif match := re.search(r" used arena (\d+) (0x[0-9a-f]+) count (\d+)", line):
            live.append((names.get(match[1], match[1]), int(match[2], 16), int(match[3])))
        elif match := re.search(r"device_alloc id (\d+) .*?(0x[0-9a-f]+) bytes", line):
            address_of[match[1]] = int(match[2], 16)
        elif match := re.search(r" used id (\d+) count (\d+)", line):
            driver_blocks.append((address_of[match[1]], int(match[2])))
    problems = []
    if ended != truth["ended"]:
        wrong = [(i, ours, theirs) for i, (ours, theirs) in enumerate(zip(ended, truth["ended"])) if ours != theirs]
        problems.append(f"ended: {len(ended)} in the log, {len(truth['ended'])} in truth; {len(wrong)} differ, first {wrong[:3]}")
    if sorted(live) != sorted(block for block in truth["live"] if block[2] >= 0):
        problems.append(f"live: {sorted(live)[:5]} … in the log, {sorted(truth['live'])[:5]} … in truth")
    theirs = sorted((int(at, 16), int(count)) for at, count in re.findall(r"^driver (0x[0-9a-f]+) (\d+)$", output, re.M))
    if sorted(driver_blocks) != theirs:
        problems.append(f"of the driver: {sorted(driver_blocks)} in the log, {theirs} in truth")
    left_out = re.search(r"^left_out (\d+)$", output, re.M)[1]
    if not re.search(rf" uses_end left_out {left_out} unread 0$", dump, re.M):
        problems.append(f"left out in truth: {left_out}; {re.findall(r' uses_end .*', dump)}")
    if len(ended) < 1000 or not any(count > 3 for *_, count in ended) or int(left_out) < 100:
        problems.append(f"too little was tried: {len(ended)} blocks, {left_out} left out")
    for at, view in pools.items():
        problems += stands_as_in(dump, view, at)
    if not re.search(r"^  [A-Z ] +[\d.]+ \w+ +\d+  (last|first|none for|not seen|in use)", text, re.M):
        problems.append(f"pools says nothing of uses: {text[:400]}")
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(ended)} ended and {len(live)} live blocks as the program knows them, {left_out} left out")


if __name__ == "__main__":
    main()
