#!/usr/bin/env python3
"""Rules asked of the log of a program that says nothing itself: Python's own functions as phases and tags.

usage: rules.py LIBGPUPEAK GPUPEAK
"""
import json
import os
import subprocess
import sys
import tempfile

from common import Failed, GPUPEAK, environment, expect, expect_phases_add_up

PYTHON = "/usr/bin/python3"


def gpupeak(*arguments):
    return subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def summary(*arguments):
    done = gpupeak("report", "--json", *arguments)
    expect(done.returncode == 0, f"{arguments} gives {done.returncode}: {done.stderr.decode()}")
    result = json.loads(done.stdout)
    expect_phases_add_up(result)
    return result


def main():
    exported = subprocess.run(["nm", "-D", PYTHON], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    if b" T PyRun_SimpleStringFlags" not in exported:
        print(f"{PYTHON} does not export its functions")
        return 77
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

        listed = gpupeak("rules").stdout.decode()
        for line in listed.splitlines():
            name = line.split()[0]
            printed = gpupeak("rules", name)
            expect(printed.returncode == 0 and b"[[tag]]" in printed.stdout, f"rules {name} prints {printed.stdout[:80]}")
            expect(gpupeak("tags", "--rules", name, log).returncode == 0, f"the set {name} cannot be used")
        expect("onnxruntime" in listed and gpupeak("rules", "nonesuch").returncode == 2, "rules that are not there")
    return 0


try:
    sys.exit(main())
except Failed as failure:
    print(failure)
    sys.exit(1)
