"""Compares the uses of blocks that a log has with the client's own book of them.

check_uses.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM: how often each block was seen used must be equal, and when for the
first and the last time must lie between what the clock said right before and right after the call.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

# Both clocks are read by different instructions, and ticks become nanoseconds by a ratio that is measured.
SLACK_NS = 50_000


def main():
    preload, driver, gpupeak, program = sys.argv[1:]
    problems = []

    def expect(what, ours, truth):
        if ours != truth:
            problems.append(f"{what}: {ours} in the log, {truth} in truth")

    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=driver, GPUPEAK_SUMMARY="off", GPUPEAK_OUT=log, GPUPEAK_LAST_USE="1",
                           LD_PRELOAD=preload)
        alone = subprocess.run([program], env=dict(environment, LD_PRELOAD=""), stdout=subprocess.PIPE, check=True)
        output = subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=True).stdout.decode()
        expect("lines of output", len(output.splitlines()), len(alone.stdout.splitlines()))
        dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        view = json.loads(subprocess.run([gpupeak, "report", "--last-use", "--json", "--full", log], stdout=subprocess.PIPE,
                                         check=True).stdout)
        start_ns = start_of(log)

    address_of, live, freed = {}, {}, []
    for line in dump.splitlines():
        if match := re.search(r"device_alloc id (\d+) .*?(0x[0-9a-f]+) bytes", line):
            address_of[match[1]] = int(match[2], 16)
        elif match := re.search(r" used id (\d+) count (\d+)(?: first \+([\d.]+) last \+([\d.]+) streams (\d))?", line):
            live[match[1]] = match
        elif match := re.search(r"device_free id (\d+)", line):
            if match[1] in live:
                freed.append((address_of[match[1]], int(live.pop(match[1])[2])))
    by_address = {address_of[number]: match for number, match in live.items()}

    truth = re.findall(r"^live (0x[0-9a-f]+) count (\d+) first (\d+) (\d+) last (\d+) (\d+) (.*)$", output, re.M)
    expect("live blocks", len([at for at in by_address]), len(truth))
    for at, count, *times, name in truth:
        match = by_address.get(int(at, 16))
        if match is None:
            problems.append(f"{name}: the log says nothing of it")
            continue
        expect(f"{name}: uses", int(match[2]), int(count))
        if int(count) == 0 or int(match[2]) == 0:
            continue
        for what, seconds, begin, end in (("first", match[3], *times[:2]), ("last", match[4], *times[2:])):
            at_ns = start_ns + int(seconds.replace(".", ""))
            if not int(begin) - SLACK_NS <= at_ns <= int(end) + SLACK_NS:
                problems.append(f"{name}: {what} use at {at_ns}, not within {begin} … {end}")
    expect("an offset inside: streams", by_address[int(next(t[0] for t in truth if t[-1] == "an offset inside"), 16)][5], "2")
    expect("freed blocks", sorted(freed), sorted((int(at, 16), int(count)) for at, count in
                                                 re.findall(r"^freed (0x[0-9a-f]+) count (\d+)$", output, re.M)))
    unread = re.search(r"^unread (\d+)$", output, re.M)[1]
    expect("the end is said", re.findall(r" uses_end left_out (\d+) unread (\d+)$", dump, re.M), [("0", unread)])
    device = view["devices"][0]
    expect("bytes by use", sum(device["bytes"].values()), device["peak_bytes"])
    expect("rows of use", sum(row["bytes"] for row in device["rows"]) + device["bytes"]["idle_in_pools"], device["peak_bytes"])
    never = sum(1 << 20 for *_, count, _, _, _, _, name in [(t[0], t[1], *t[2:6], t[6]) for t in truth] if count == "0")
    expect("never seen used", device["bytes"]["never"], never)
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(truth)} live blocks and {len(freed)} freed ones as the program knows them")


def start_of(log):
    """FileHeader.start_monotonic_ns."""
    with open(log, "rb") as file:
        header = file.read(128)
    return int.from_bytes(header[56:64], "little")


if __name__ == "__main__":
    main()
