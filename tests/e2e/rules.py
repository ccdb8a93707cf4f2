#!/usr/bin/env python3
"""Rules for the log of a program that names no phases itself: Python's own functions become phases and tags.

usage: rules.py LIBGPUPEAK GPUPEAK
"""
import csv
import io
import json
import os
import sqlite3
import subprocess
import tempfile

from common import GPUPEAK, Skipped, environment, expect, expect_phases_add_up, run_checks

PYTHON = "/usr/bin/python3"


def gpupeak(*arguments):
    return subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def summary(*arguments):
    done = gpupeak("report", "--json", *arguments)
    expect(done.returncode == 0, f"{arguments} gives {done.returncode}: {done.stderr.decode()}")
    result = json.loads(done.stdout)
    expect_phases_add_up(result)
    return result


def output_of(*arguments):
    done = gpupeak(*arguments)
    expect(done.returncode == 0, f"{arguments} gives {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


def check_other_verbs(folder, log, asked, held):
    """Every verb that shows a phase or a tag takes the rules and shows the rules' names."""
    for view in (["tree"], ["tree", "--flame"]):
        found = json.loads(output_of(*view, "--json", "--scope", "host/heap", *asked, log))
        expect(found["phase"] == "work", f"{view}: the peak is in phase {found['phase']}")
    bands = {p["name"]: p for p in json.loads(output_of("timeline", "--json", *asked, log))["phases"]}
    expect({"begin", "work"} <= set(bands), f"timeline: {list(bands)}")
    compared = json.loads(output_of("diff", "--side-by-side", "--json", *asked, log, log))
    expect({"begin", "work"} <= {row["phase"] for row in compared["phases"]}, f"compare: {compared['phases']}")

    other = os.path.join(folder, "other.json")
    with open(other, "w") as file:
        file.write(output_of("report", "--json", "--by", "tag", *asked, log))
    # A JSON report holds the rules with which it was made.
    for asked_of_log, equal in ((asked, True), (["--rules", "none"], False)):
        text = output_of("diff", "--by", "tag", *asked_of_log, log, other)
        expect(("[new]" not in text and "PHASES" not in text) == equal, f"diff with {asked_of_log}: {text}")

    limit = gpupeak("check", "--max", "host.peak_bytes@phase:work=1KiB", *asked, log)
    expect(limit.returncode == 1 and b"phase:work" in limit.stdout, f"check: {limit.stdout.decode()}{limit.stderr.decode()}")

    slices = [e for e in json.loads(output_of("export", "chrome", *asked, log))["traceEvents"] if e.get("cat") == "phase"]
    for name in ("begin", "work"):
        times = [e["ts"] * 1000 for e in slices if e.get("name") == name]
        expect(len(times) == 1 and abs(times[0] - bands[name]["begin_ns"]) < 1000, f"chrome: {name} begins at {times}")
    depth = 0
    for event in slices:
        depth += {"B": 1, "E": -1}[event["ph"]]
        expect(depth >= 0, "chrome: an end without a begin")
    database = os.path.join(folder, "log.sqlite")
    output_of("export", "sqlite", "-o", database, *asked, log)
    ranges = dict((text, (start, end)) for start, end, text in
                  sqlite3.connect(database).execute("SELECT start, end, text FROM NVTX_EVENTS"))
    expect(ranges["work"] == (bands["work"]["begin_ns"], bands["work"]["end_ns"]), f"sqlite: work is {ranges['work']}")
    rows = dict(csv.reader(io.StringIO(output_of("export", "mxnet-csv", "--scope", "host/heap", *asked, log))))
    expect(float(rows["work"]) * 2**20 == held["work"], f"mxnet-csv: {rows}")
    expect(sum(float(mib) for mib in rows.values()) * 2**20 == sum(held.values()), f"mxnet-csv does not add up: {rows}")

    page = os.path.join(folder, "page.html")
    done = gpupeak("report", "--html", page, *asked, log)
    if b"built without the page" not in done.stderr:
        expect(done.returncode == 0, f"report --html gives {done.returncode}: {done.stderr.decode()}")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        expect('"work"' in text, "the page has no phase of the rules")
        expect('"tag":{"rows"' in text, "the page has no table by tag")


def main():
    exported = subprocess.run(["nm", "-D", PYTHON], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    if b" T PyRun_SimpleStringFlags" not in exported:
        raise Skipped(f"{PYTHON} does not export its functions")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "python.gplog")
        command = [PYTHON, "-S", "-c", "import json, decimal; x = [bytes(5000) for i in range(1000)]; import argparse"]
        done = subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", *command], env=environment(folder, False), check=False)
        expect(done.returncode == 0, f"python gives {done.returncode}")

        plain = summary(log)
        expect(all(p["source"] != "rule" for p in plain["phases"]), "phases of rules that nobody asked for")
        begin, work = "begin=python3*!Py_InitializeFromConfig", "work=python3*!PyRun_SimpleStringFlags"
        asked = summary("--rules", "none", "--phase", begin, "--phase", work, log)
        phases = {p["name"]: p for p in asked["phases"] if p["source"] == "rule"}
        expect(list(phases) == ["begin", "work"], f"phases {list(phases)}")
        expect(all(p["count"] == 1 for p in phases.values()), f"phases {phases}")
        expect(phases["begin"]["end_ns"] <= phases["work"]["begin_ns"], "the program begins before Python has begun")
        expect(phases["work"]["metrics"]["host.peak_bytes"] > 5_000_000, f"the list is not in {phases['work']}")
        for metric in ("host.peak_bytes", "host.live_bytes", "host.kind.heap.alloc_count"):
            expect(plain["metrics"][metric] == asked["metrics"][metric], f"rules change {metric}")

        tagged = summary("--rules", "none", "--by", "tag", "--tag", work, log)
        peak = next(p for p in tagged["peaks"] if p["scope"] == "host/heap")
        held = {h["site"]: h["bytes"] for h in peak["holders"]}
        expect(set(held) == {"work", "Others"}, f"tags {held}")
        expect(held["work"] > 5_000_000, f"the list is not of the program: {held}")

        rules = os.path.join(folder, "my.toml")
        with open(rules, "w") as file:
            file.write('[[tag]]\nname = "work"\nmodule = "python3*"\nfunction = "PyRun_SimpleStringFlags"\n')
        by_file = json.loads(gpupeak("tags", "--json", "--scope", "host/heap", "--rules", rules, log).stdout)
        expect({t["name"]: t["bytes"] for t in by_file["tags"]} == held, f"the file says {by_file['tags']}, the option {held}")

        hidden = gpupeak("tags", "--confidential", "--json", "--scope", "host/heap", "--rules", rules, log).stdout.decode()
        expect(sorted(t["bytes"] for t in json.loads(hidden)["tags"]) == sorted(held.values()), "hashed names match no rules")
        expect("PyRun" not in hidden and "work" not in hidden, f"a name is shown: {hidden[:400]}")

        for wrong in (["--rules", os.path.join(folder, "nonesuch.toml")], ["--phase", "nonsense"], ["--tag", "=f"]):
            refused = gpupeak("report", *wrong, log)
            expect(refused.returncode == 2 and refused.stderr and not refused.stdout, f"{wrong} gives {refused.returncode}")
        with open(rules, "a") as file:
            file.write("[[tag]]\nfunktion = 3\n")
        refused = gpupeak("tags", "--rules", rules, log)
        expect(refused.returncode == 2 and b"my.toml:6: no such key" in refused.stderr, refused.stderr.decode())

        check_other_verbs(folder, log, ["--rules", "none", "--phase", begin, "--phase", work, "--tag", work], held)

        listed = gpupeak("rules").stdout.decode()
        for line in listed.splitlines():
            name = line.split()[0]
            printed = gpupeak("rules", name)
            table = b"[[plumbing]]" if name in ("titles", "languages") else b"[[tag]]"
            expect(printed.returncode == 0 and table in printed.stdout, f"rules {name} prints {printed.stdout[:80]}")
            expect(gpupeak("tags", "--rules", name, log).returncode == 0, f"the set {name} cannot be used")
        expect("onnxruntime" in listed and gpupeak("rules", "nonesuch").returncode == 2, "rules that are not there")


run_checks(main)
