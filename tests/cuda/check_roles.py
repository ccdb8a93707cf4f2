"""Compares what the log says that blocks are used for with the client's own book of them.

check_roles.py PRELOAD DRIVER_FOLDER GPUPEAK PROGRAM: every role of every block, none more and none less, with its count; by
default, with --last-use, and not at all where that is switched off. Then the roles of the rows at the peak.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile


def book_of(output):
    books, book = {}, None
    for line in output.splitlines():
        if match := re.match(r"block (0x[0-9a-f]+)$", line):
            book = books.setdefault(int(match[1], 16), {})
        elif match := re.match(r"role (\d+) (.*)$", line):
            book[match[2]] = int(match[1])
    return books


def roles_in(dump):
    """As the program's book; of a kernel's places only whether they are there."""
    address_of, kernels, seen = {}, {}, {}
    for line in dump.splitlines():
        if match := re.search(r" device_alloc id (\d+) .*?(0x[0-9a-f]+) bytes", line):
            address_of[match[1]] = int(match[2], 16)
        elif match := re.search(r" kernel (\d+) stack \d+ name (.*)$", line):
            kernels[match[1]] = match[2]
        elif match := re.search(r" role id (\d+) (.*) count (\d+)$", line):
            seen[match[1], match[2]] = int(match[3])
    books = collections.defaultdict(dict)
    for (block, role), count in seen.items():
        book = books[address_of[block]]
        if match := re.match(r"kernel (\d+) argument (.*)$", role):
            name = kernels[match[1]]
            book[name] = book.get(name, 0) + count
            book[f"{name} {match[2]}"] = True
        else:
            book[role] = count
    return books


def main():
    preload, driver, gpupeak, program = sys.argv[1:]
    problems = []

    def expect(what, ours, truth):
        if ours != truth:
            problems.append(f"{what}: {ours}, {truth} in truth")

    def run(folder, uses):
        log = os.path.join(folder, "log.gplog")
        environment = dict(os.environ, LD_LIBRARY_PATH=driver, GPUPEAK_SUMMARY="off", GPUPEAK_OUT=log, LD_PRELOAD=preload, **uses)
        output = subprocess.run([program], env=environment, stdout=subprocess.PIPE, check=True).stdout.decode()
        dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, check=True).stdout.decode()
        report = json.loads(subprocess.run([gpupeak, "report", "--json", log], stdout=subprocess.PIPE, check=True).stdout)
        return output, dump, report

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for uses in {}, {"GPUPEAK_LAST_USE": "1"}:
            output, dump, report = run(folder, uses)
            truth = book_of(output)
            for at, book in truth.items():
                is_place = re.compile(r".* (\d+( inside)?|\?)$")
                expect(f"{uses} block {at:#x}", roles_in(dump).get(at, {}),
                       {role: True if is_place.match(role) else count for role, count in book.items()})
            expect(f"{uses} blocks with roles", set(roles_in(dump)) - set(truth), set())
            rows = [row["role"] for peak in report["peaks"] if peak["scope"] == "device:0" for row in peak["holders"]]
        output, dump, report = run(folder, {"GPUPEAK_LAST_USE": "off"})
        expect("switched off", re.findall(r" (?:role|kernel|used) id .*", dump), [])
        expect("rows without roles", [row for peak in report["peaks"] for row in peak["holders"] if "role" in row], [])

    for name in "copied_in", "copied_out", "copied_to", "copied_from", "filled":
        # What lies in pinned or managed memory, and on the second device, is in no row of the first device.
        if not 0 < sum(row[name] for row in rows) <= sum(book.get(name, 0) for book in truth.values()):
            problems.append(f"{name} of rows: {sum(row[name] for row in rows)}")
    expect("textures", sum(row["textures"] for row in rows), 3)
    expect("addresses copied", sum(row["addresses_copied"] for row in rows), 2)
    expect("passed on", any(row["passed_on"] for row in rows), True)
    kernels = {(kernel["name"], kernel["access"], tuple(kernel["arguments"])) for row in rows for kernel in row["kernels"]}
    expect("kernels", kernels,
           {("scale_takes_8_8(float const*, float*)", "read", (0,)), ("scale_takes_8_8(float const*, float*)", "written", (1,)),
            ("count_takes_8_8(int const*, unsigned long, int)", "read", (0,)), ("plain_takes_8_8_24", "given", (0, 2)),
            ("plain_takes_8_8_24", "given", ())})
    expect("all launches were looked at", [row["launches_sampled"] for row in rows if row["launches_sampled"]], [])
    expect("first use is known", [row for row in rows if row["kernels"] and row["first_use_ns"] is None], [])
    expect("never seen used", sum(row["unused_bytes"] for row in rows), 1 << 20)
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(truth)} blocks with {sum(map(len, truth.values()))} roles as the program knows them")


if __name__ == "__main__":
    main()
