"""One check a format: what its reader finds equals what the report says."""
import csv
import decimal
import gzip
import json
import os
import pickle
import pickletools
import re
import shutil
import subprocess
from collections import Counter, defaultdict

from common import Skipped, expect

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"  # Debian: libdevel-nytprof-perl
PPROF_PROTO = "/usr/share/gocode/src/github.com/google/pprof/proto"  # Debian: golang-github-google-pprof-dev


def need(program):
    if shutil.which(program) is None:
        raise Skipped(f"no {program} here")


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, **options).stdout


def same(found, wanted, what):
    expect(found == wanted, f"{what}: {found}, the report says {wanted}")


# ---- massif

def massif_tree_sums(lines, scope):
    """No child exceeds its parent; returns the root's bytes."""
    def node(at):
        indent, children, size = re.match(r"( *)n(\d+): (\d+) ", lines[at]).groups()
        below, at = 0, at + 1
        for _ in range(int(children)):
            expect(len(re.match(" *", lines[at]).group()) == len(indent) + 1, f"{scope}: indentation of {lines[at]!r}")
            child, at = node(at)
            below += child
        expect(below <= int(size), f"{scope}: the children of {lines[at - 1]!r} sum to {below}")
        return int(size), at
    return node(0)[0]


def massif(log, _work):
    need("ms_print")
    for scope in log.scopes():
        out = log.export("massif", scope)
        with open(out, encoding="utf-8") as file:
            snapshots = [s.splitlines() for s in file.read().split("#-----------\nsnapshot=")[1:]]
        sizes = [int(next(line for line in s if line.startswith("mem_heap_B=")).split("=")[1]) for s in snapshots]
        times = [int(next(line for line in s if line.startswith("time=")).split("=")[1]) for s in snapshots]
        same(max(sizes), log.peak(scope), f"massif, largest snapshot of {scope}")
        same(sizes[-1], log.live(scope), f"massif, last snapshot of {scope}")
        expect(times == sorted(times), "massif: time runs backwards")
        for snapshot, size in zip(snapshots, sizes):
            trees = [i for i, line in enumerate(snapshot) if line.startswith("heap_tree=")]
            if not snapshot[trees[0]].endswith("empty"):
                same(massif_tree_sums(snapshot[trees[0] + 1:], scope), size, f"massif, tree of {scope}")
        printed = run("ms_print", out).decode()
        number = int(re.search(r"(\d+) \(peak\)", printed).group(1))
        row = next(line.split() for line in printed.splitlines() if re.match(rf" +{number} +\d", line))
        same(int(row[2].replace(",", "")), log.peak(scope), f"ms_print, peak of {scope}")


# ---- heaptrack

def heaptrack(log, _work):
    need("heaptrack_print")
    for scope in log.scopes():
        out = log.export("heaptrack", scope)
        wanted = {"peak": log.peak(scope), "leaked": log.live(scope)}
        for cost, wanted_bytes in wanted.items():
            flame = out + ".flame"
            text = run("heaptrack_print", "--disable-embedded-suppressions", "--disable-builtin-suppressions", out,
                       "-F", flame, "--flamegraph-cost-type", cost).decode()
            with open(flame, encoding="utf-8") as file:
                found = sum(int(line.rsplit(" ", 1)[1]) for line in file)
            same(found, wanted_bytes, f"heaptrack_print, {cost} of {scope}")
        if scope == "host/heap":
            calls = int(re.search(r"calls to allocation functions: (\d+)", text).group(1))
            same(calls, log.summary["metrics"]["host.kind.heap.alloc_count"], "heaptrack_print, calls")


# ---- pprof

def blocks(text, name):
    """The top-level messages `name { … }` of protoc's text, as lists of lines."""
    return [block.splitlines() for block in re.findall(rf"^{name} {{\n(.*?)^}}", text, re.S | re.M)]


def numbers(lines, field):
    return [int(line.split(": ")[1]) for line in lines if line.startswith(f"  {field}: ")]


def pprof(log, _work):
    need("protoc")
    if not os.path.isdir(PPROF_PROTO):
        raise Skipped(f"no {PPROF_PROTO}")
    for scope in log.scopes():
        with gzip.open(log.export("pprof", scope)) as file:
            text = run("protoc", "--decode=perftools.profiles.Profile", f"--proto_path={PPROF_PROTO}",
                       f"{PPROF_PROTO}/profile.proto", input=file.read()).decode()
        strings = [json.loads('"' + re.sub(r"\\([0-7]{3})", lambda m: f"\\u{int(m.group(1), 8):04x}", s).replace("\\'", "'")
                              + '"') for s in re.findall(r'^string_table: "(.*)"$', text, re.M)]
        expect(strings[0] == "", "pprof: the first string is not empty")
        types = [strings[numbers(block, "type")[0]] for block in blocks(text, "sample_type")]
        same(types, ["peak_space", "peak_objects", "leaked_space", "alloc_space"], "pprof, sample types")
        samples = blocks(text, "sample")
        sums = [sum(column) for column in zip(*(numbers(sample, "value") for sample in samples))]
        same(sums[0], log.peak(scope), f"pprof, peak_space of {scope}")
        same(sums[2], log.live(scope), f"pprof, leaked_space of {scope}")
        if log.allocated(scope) is not None:
            same(sums[3], log.allocated(scope), f"pprof, alloc_space of {scope}")
        functions = {numbers(b, "id")[0]: strings[numbers(b, "name")[0]] for b in blocks(text, "function")}
        locations = {numbers(b, "id")[0]: [functions[int(n)] for n in re.findall(r"function_id: (\d+)", "\n".join(b))]
                     for b in blocks(text, "location")}
        mappings = {numbers(b, "id")[0] for b in blocks(text, "mapping")}
        expect(all(numbers(b, "mapping_id")[0] in mappings for b in blocks(text, "location") if numbers(b, "mapping_id")),
               "pprof: a location without its mapping")
        stacks = Counter()
        for sample in samples:
            frames = [name for location in numbers(sample, "location_id") for name in locations[location]]
            stacks[";".join(name.replace(";", ":") for name in reversed(frames)) or "(no stack)"] += numbers(sample, "value")[0]
        # Two writers, one truth: leaf first here, root first there.
        same({stack: size for stack, size in stacks.items() if size}, folded_stacks(log.export("folded", scope)),
             f"pprof, stacks of {scope}")


# ---- folded stacks, speedscope

def folded_stacks(path):
    stacks = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            stack, size = line.rstrip("\n").rsplit(" ", 1)
            stacks[stack] += int(size)
    return stacks


def flamegraph_total(path):
    """What flamegraph.pl's outermost frame says; None where it is not installed."""
    script = shutil.which("flamegraph.pl") or FLAMEGRAPH
    if not os.path.exists(script):
        return None
    svg = run("perl", script, "--countname", "bytes", path).decode()
    return int(re.search(r"<title>all \(([\d,]+) bytes, 100%\)", svg)[1].replace(",", ""))


def folded(log, _work):
    for scope in log.scopes():
        out = log.export("folded", scope)
        same(sum(folded_stacks(out).values()), log.peak(scope), f"folded, peak of {scope}")
        drawn = flamegraph_total(out)
        if drawn is None:
            print("not drawn: no flamegraph.pl")
        else:
            same(drawn, log.peak(scope), f"flamegraph.pl, peak of {scope}")
    if log.devices and log.path.endswith("1.gplog"):  # the benchmark, which has debug information
        roots = {stack.split(";")[0] for stack in folded_stacks(log.export("folded", log.devices[0]))}
        same(roots, {"_start"}, "folded, outermost calls")


def speedscope_schema(work):
    """Of the npm package, fetched once; None without npm."""
    place = os.path.join(work, "speedscope")
    schema = os.path.join(place, "package/dist/release/file-format-schema.json")
    if not os.path.exists(schema):
        if shutil.which("npm") is None:
            return None
        os.makedirs(place, exist_ok=True)
        done = subprocess.run("npm pack --silent speedscope@1.25.0 && tar xzf speedscope-1.25.0.tgz", shell=True, cwd=place,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
        if done.returncode != 0 or not os.path.exists(schema):
            return None
    with open(schema, encoding="utf-8") as file:
        return json.load(file)


def speedscope(log, work):
    schema = speedscope_schema(work)
    for scope in log.scopes():
        with open(log.export("speedscope", scope), encoding="utf-8") as file:
            data = json.load(file)
        if schema is not None:
            if scope == log.scopes()[0]:  # the form is that of every scope
                import jsonschema
                jsonschema.validate(data, schema)
        else:
            print("not checked against speedscope's schema: no npm")
        peak, leaks, allocated = data["profiles"]
        for profile, wanted in ((peak, log.peak(scope)), (leaks, log.live(scope)), (allocated, log.allocated(scope))):
            expect(len(profile["samples"]) == len(profile["weights"]), "speedscope: samples and weights differ in number")
            same(sum(profile["weights"]), profile["endValue"], "speedscope, end")
            if wanted is not None:
                same(profile["endValue"], wanted, f"speedscope, {profile['name']}")
        stacks = Counter()
        for stack, weight in zip(peak["samples"], peak["weights"]):
            stacks[";".join(data["shared"]["frames"][i]["name"].replace(";", ":") for i in stack)] += weight
        # Those below a ten-thousandth are one, which says so.
        folded = folded_stacks(log.export("folded", scope))
        small = next((stack for stack in stacks if stack.endswith("smaller stacks, each below 0.01 %")), None)
        if small is not None:
            expect("stacks below 0.01 % together" in peak["name"], f"speedscope, {scope}: what is left out is not said: {peak['name']}")
            rest = stacks.pop(small)
            expect(all(weight <= folded[stack] for stack, weight in stacks.items()), f"speedscope, {scope}: a stack holds too much")
            same(rest + sum(stacks.values()), sum(folded.values()), f"speedscope, {scope}: with the smaller stacks")
            continue
        same(stacks, folded, f"speedscope, stacks of {scope}")


# ---- Chrome

def chrome(log, _work):
    with open(log.export("chrome"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    largest, open_phases, blocks_now, sums, largest_sums = defaultdict(int), defaultdict(list), {}, Counter(), Counter()
    last = {}
    for event in events:
        kind, track = event["ph"], event["tid"]
        if kind == "C":
            largest[event["name"]] = max(largest[event["name"]], event["args"]["bytes"])
            last[event["name"]] = event["args"]["bytes"]
        elif kind == "B":
            open_phases[track].append(event["name"])
        elif kind == "E":
            expect(open_phases[track], f"chrome: an end without a begin on {track}")
            open_phases[track].pop()
        elif kind == "b" and event["cat"] == "block":
            expect(event["id"] not in blocks_now, f"chrome: block {event['id']} begins twice")
            args = event["args"]
            counted = args["kind"] in ("device.linear", "device.pool", "device.vmm", "device.array", "device.graph")
            blocks_now[event["id"]] = (args["device"], args["bytes"] if counted else 0)
            sums[args["device"]] += blocks_now[event["id"]][1]
            largest_sums[args["device"]] = max(largest_sums[args["device"]], sums[args["device"]])
        elif kind == "e" and event["cat"] == "block":
            device, size = blocks_now.pop(event["id"])
            sums[device] -= size
        else:
            expect(kind == "M", f"chrome: an event of kind {kind}")
    expect(not any(open_phases.values()), f"chrome: phases left open: {dict(open_phases)}")
    for scope, peak in log.peaks.items():
        same(largest[scope], peak["bytes"], f"chrome, counter {scope}")
    for scope in log.devices:
        same(largest_sums[int(scope.split(":")[1])], log.peak(scope), f"chrome, blocks of {scope}")
        same(last[scope], log.live(scope), f"chrome, end of {scope}")
    for scope in log.scopes():
        with open(log.export("chrome", scope), encoding="utf-8") as file:
            counters = {e["name"] for e in json.load(file)["traceEvents"] if e["ph"] == "C"}
        same(counters, {scope}, "chrome, counters of one scope")


# ---- PyTorch

# What the page memory_viz can read (torch/utils/viz/MemoryViz.js).
VIZ_OPCODES = {"PROTO", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "LONG1",
               "TUPLE2", "NEWTRUE", "NEWFALSE", "LONG_BINPUT", "LONG_BINGET"}


def check_torch_segment(segment):
    """All that torch/cuda/_memory_viz.py reads of one, and what it asserts."""
    at, used = segment["address"], 0
    for block in segment["blocks"]:
        same(block["address"], at, "torch-snapshot, where a block begins")
        active = block["state"] == "active_allocated"
        expect(active or block["state"] == "inactive", f"torch-snapshot: state {block['state']}")
        same(block["requested_size"], block["size"] if active else 0, "torch-snapshot, requested size")
        expect(isinstance(block["frames"], list), "torch-snapshot: frames of a block")
        at += block["size"]
        used += block["size"] if active else 0
    same(at - segment["address"], segment["total_size"], "torch-snapshot, blocks of a segment")
    for name in ("allocated_size", "active_size", "requested_size"):
        same(segment[name], used, f"torch-snapshot, {name}")
    expect(segment["segment_type"] in ("small", "large") and segment["stream"] == 0, "torch-snapshot: a segment's type")
    expect(isinstance(segment["is_expandable"], bool), "torch-snapshot: is_expandable")


def torch_snapshot(log, _work):
    if not log.devices:
        return  # there is nothing that it could hold: it is refused
    out = log.export("torch-snapshot")
    with open(out, "rb") as file:
        used = {code.name for code, _, _ in pickletools.genops(file)}
    expect(used <= VIZ_OPCODES, f"torch-snapshot: memory_viz cannot read {used - VIZ_OPCODES}")
    with open(out, "rb") as file:
        snapshot = pickle.load(file)
    for scope in log.devices:
        device = int(scope.split(":")[1])
        live, reserved, peak = {}, {}, 0
        for event in snapshot["device_traces"][device]:
            expect(all("name" in f and "filename" in f and "line" in f for f in event["frames"]), "torch-snapshot: frames")
            action = event["action"]
            if action == "oom":
                expect(event["device_free"] >= 0 and event["size"] > 0, "torch-snapshot: oom")
                continue
            place = event["addr"]
            if action in ("segment_alloc", "segment_map"):
                expect(place not in reserved, f"torch-snapshot: {place:#x} is reserved twice")
                reserved[place] = event["size"]
                peak = max(peak, sum(reserved.values()))
            elif action == "alloc":
                expect(place not in live, f"torch-snapshot: {place:#x} is given twice")
                live[place] = event["size"]
            elif action == "free_completed":
                same(live.pop(place), event["size"], "torch-snapshot, size of a freed block")
            elif action in ("segment_free", "segment_unmap"):
                same(reserved.pop(place), event["size"], "torch-snapshot, size of a freed segment")
        same(peak, log.peak(scope), f"torch-snapshot, peak of {scope}")
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        same(sum(s["total_size"] for s in segments), log.live(scope), f"torch-snapshot, segments of {scope}")
        same(sum(s["total_size"] for s in segments), sum(reserved.values()), "torch-snapshot, segments and trace")
        active = {b["address"]: b["size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}
        same(active, live, "torch-snapshot, blocks and trace")
        for segment in segments:
            check_torch_segment(segment)


# ---- tables

def mxnet_csv(log, _work):
    for scope in log.scopes():
        with open(log.export("mxnet-csv", scope), newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        expect(all(len(row) == 2 for row in rows), f"mxnet-csv: {rows[:3]}")
        same(sum(decimal.Decimal(mib) for _, mib in rows) * 2**20, log.peak(scope), f"mxnet-csv, peak of {scope}")


def plain_csv(log, _work):
    for scope in log.scopes():
        with open(log.export("csv", scope), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        same(sum(int(row["peak_bytes"]) for row in rows), log.peak(scope), f"csv, peak of {scope}")
        same(sum(int(row["leaked_bytes"]) for row in rows), log.live(scope), f"csv, leaks of {scope}")
        if log.allocated(scope) is not None:
            same(sum(int(row["alloc_bytes"]) for row in rows), log.allocated(scope), f"csv, allocations of {scope}")
        if scope == "host/heap":
            same(sum(int(row["alloc_count"]) for row in rows), log.summary["metrics"]["host.kind.heap.alloc_count"],
                 "csv, calls")


CHECKS = {"massif": massif, "heaptrack": heaptrack, "pprof": pprof, "folded": folded, "speedscope": speedscope,
          "chrome": chrome, "torch-snapshot": torch_snapshot, "mxnet-csv": mxnet_csv, "csv": plain_csv}
