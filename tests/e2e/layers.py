#!/usr/bin/env python3
"""The example with layers on the simulated driver: its two views, its CSV and its phases equal the figures that it prints.

usage: layers.py LIBGPUPEAK GPUPEAK LAYERS DRIVER_FOLDER
"""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, report, run_checks

layers, driver = sys.argv[3:5]
rules = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/layers.toml")


def gpupeak(*arguments):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"{arguments} gives {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()


def expected(output):
    found = {"tag": {}, "layer": {}}
    for line in output.splitlines():
        _, view, rest = line.split(" ", 2)
        name, figure = rest.rsplit(" ", 1)
        found[view][name] = int(figure)
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "layers.gplog")
        env = environment(folder, False)
        env["LD_LIBRARY_PATH"] = driver
        done = subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", layers], env=env, stdout=subprocess.PIPE, check=False)
        expect(done.returncode == 0, f"the example gives {done.returncode}")
        truth = expected(done.stdout.decode())

        tags = json.loads(gpupeak("tags", "--json", "--rules", rules, log))
        expect({t["name"]: t["bytes"] for t in tags["tags"]} == truth["tag"], f"tags {tags['tags']}, expected {truth['tag']}")
        expect({t["name"]: t["bytes"] for t in tags["layers"]} == truth["layer"],
               f"layers {tags['layers']}, expected {truth['layer']}")
        expect(tags["bytes"] == sum(truth["tag"].values()) == sum(truth["layer"].values()), "the views do not add up")
        expect(sum(e["bytes"] for e in tags["entries"]) + tags["other_bytes"] == tags["bytes"], "entries do not add up")
        expect(tags["rules"] == {"sets": ["layers"], "automatic": False}, f"rules {tags['rules']}")

        rows = dict(csv.reader(io.StringIO(gpupeak("tags", "--csv", "--rules", rules, log))))
        rows.pop("Untrackable", None)
        expect({name: float(mib) * 2**20 for name, mib in rows.items()} == truth["tag"], f"CSV {rows}")

        text = gpupeak("tags", "--rules", rules, log)
        for word in ("by layer", "by data structure", "Optimizer state", "TOP ENTRIES"):
            expect(word in text, f"'{word}' is missing in\n{text}")
        by_tag = gpupeak("report", "--by", "tag", "--rules", rules, log)
        expect("Optimizer state" in by_tag, by_tag)
        untagged = json.loads(gpupeak("tags", "--json", "--rules", "none", log))
        expect([t["name"] for t in untagged["tags"]] == ["Others"], f"without rules: {untagged['tags']}")

        # The same with options in place of the rule file, and the steps as phases of a rule.
        asked = json.loads(gpupeak("tags", "--json", "--rules", "none", "--tag", "W=layers!layers::allocate_w*", log))
        found = {t["name"]: t["bytes"] for t in asked["tags"]}
        expect(found["W"] == truth["tag"]["Weights"] + truth["tag"]["Workspace"], f"one rule: {found}")

        summary = report(log)
        live = summary["metrics"]["device.live_bytes"]
        outermost = [p for p in summary["phases"] if p["depth"] == 0]
        held = sum(p["metrics"]["device.live_at_exit_bytes"] for p in outermost)
        expect(held + summary["metrics"]["device.outside_phases.live_bytes"] == live, f"phases hold {held}, live is {live}")
        step = next(p for p in summary["phases"] if p["name"] == "step")
        expect(step["count"] == 20 and len(step["instances"]) == 1, f"steps are not folded: {step['instances']}")
        build = next(p for p in summary["phases"] if p["name"] == "build")
        model = truth["tag"]["Weights"] * 4
        expect(build["metrics"]["device.kept_bytes"] == model, f"build keeps {build['metrics']}, the model has {model}")
        expect("step[1..20]" in gpupeak("phases", log), "the table of phases lacks step[1..20]")
        table = list(csv.DictReader(io.StringIO(gpupeak("phases", "--csv", log))))
        row = next(r for r in table if r["phase"] == "step")
        expect(row["last"] == "20" and int(row["device.peak_bytes"]) == tags["bytes"], f"CSV row {row}")
        print(text)


run_checks(main)
