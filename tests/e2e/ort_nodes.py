"""ONNX Runtime's nodes as phases, compared with the profile that they come from."""
import collections
import glob
import json
import os
import re

from common import expect

SUFFIX = "_kernel_time"
SHORT_US = 1  # shorter runs of nodes have no phase


def runs_of_nodes(path):
    """How often each node ran, by the name of its phase, and how often a run was too short for a phase."""
    with open(path) as file:
        events = json.load(file)
    counts = collections.Counter()
    short = 0
    for event in events:
        if event["cat"] != "Node" or not event["name"].endswith(SUFFIX):
            continue
        if event["dur"] <= SHORT_US:
            short += 1
        else:
            counts[f"{event['name'][:-len(SUFFIX)]} ({event['args']['op_name']})"] += 1
    return counts, short


def expect_memory_as_in_profile(dump, folder, pattern):
    """For each node, profiles of 1.29 and later give the arena's bytes in use after it, and how many of these had been requested. The log
    has both figures for each block, so this pair must occur in it at some time. `dump`: the text of a log with one arena."""
    live, now, states = {}, (0, 0), {(0, 0)}
    for line in dump.splitlines():
        if match := re.search(r" arena_alloc \d+ (0x[0-9a-f]+) bytes (\d+) .* asked (\d+)$", line):
            live[match[1]] = int(match[2]), int(match[3])
            now = now[0] + int(match[2]), now[1] + int(match[3])
        elif (match := re.search(r" arena_free \d+ (0x[0-9a-f]+)", line)) and match[1] in live:
            size, asked = live.pop(match[1])
            now = now[0] - size, now[1] - asked
        states.add(now)
    told = set()
    for path in glob.glob(os.path.join(folder, pattern)):
        with open(path) as file:
            told |= {(int(e["args"]["mem_bytes_in_use"]), int(e["args"]["mem_bytes_requested_in_use"])) for e in json.load(file)
                     if e["cat"] == "Node" and "mem_bytes_requested_in_use" in e["args"]}
    expect(told <= states, f"in use and requested, by the profile alone: {sorted(told - states)[:5]}, of {len(told)}")
    padded = sum(in_use > requested for in_use, requested in told)
    print(f"in use and requested: {len(told)} pairs as in the profile, {padded} with padding")
    return len(told)


def kernel_of(site):
    """The class of the innermost Compute in a site's title, such as Pool; None if there is none. If the kernel was called through the
    thread pool, that one's frames come first in the title."""
    for frame in site.split(" ← "):
        compute = re.match(r"(?:[\w:]*::)?(\w+)(?:<.*>)?::Compute\b", frame)
        if compute is not None:
            return compute.group(1)
    return None


def expect_as_in_profile(summary, folder, pattern):
    paths = glob.glob(os.path.join(folder, pattern))
    expect(len(paths) == 1, f"{pattern}: {paths}")
    truth, short = runs_of_nodes(paths[0])
    nodes = {p["name"]: p for p in summary["phases"] if p["source"] == "node"}
    expect({name: node["count"] for name, node in nodes.items()} == dict(truth),
           f"{len(nodes)} nodes, in the profile {len(truth)}, short {short}: {summary['quality']['warnings']}")
    expect(all(node["parent"] == "run" for node in nodes.values()), "a node that is not below run")
    # A site in a kernel's function belongs to a node of that operator.
    named = 0
    for name, node in nodes.items():
        site = node["biggest_new_host_site"]
        kernel = kernel_of(site["site"]) if site else None
        if kernel is None:
            continue
        named += 1
        operator = name[name.rindex("(") + 1:-1].removeprefix("Global").lower()
        kernel = kernel.removeprefix("Nchwc").lower()
        expect(operator in kernel or kernel in operator, f"{name} allocates in {site['site']}")
    print(f"{sum(truth.values())} runs of {len(nodes)} nodes below run, {named} with a kernel's own site; {short} too short")
