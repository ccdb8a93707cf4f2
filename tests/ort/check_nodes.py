#!/usr/bin/env python3
"""Nodes of ONNX Runtime's profile as phases, against a library that writes such profiles.

usage: check_nodes.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, expect, expect_nothing_dropped, report, run_checks

CASE, PROGRAM = sys.argv[3:5]
MODEL = "/models/own_operators.onnx" if CASE == "own_operators" else "/models/plain.onnx"
CONV, RELU = "conv 1 (Conv)", "relu (Relu)"


def run(folder, *arguments, options=(), **variables):
    log = os.path.join(folder, "a.gplog")
    command = [PROGRAM, MODEL, *arguments]
    native = subprocess.run(command, cwd=folder, env=environment(folder, False) | variables, capture_output=True, check=False)
    for left in glob.glob(os.path.join(folder, "own_*.json")):
        os.remove(left)
    ours = subprocess.run([GPUPEAK, "run", "-q", "-o", log, *options, "--", *command], cwd=folder,
                          env=environment(folder, False) | variables, capture_output=True, check=False)
    expect(ours.stdout == native.stdout and ours.stderr == native.stderr, f"{ours} differs from {native}")
    summary = report(log)
    expect_nothing_dropped(summary)
    return log, summary


def nodes_of(summary):
    return {p["name"]: p for p in summary["phases"] if p["source"] == "node"}


def said(summary):
    return [w["message"] for w in summary["quality"]["warnings"] if w["code"] == "GP051"]


def expect_nodes(summary):
    nodes = nodes_of(summary)
    expect(list(nodes) == [CONV, RELU], f"nodes {list(nodes)}")
    runs = [p for p in summary["phases"] if p["name"] == "run"]
    expect(len(runs) == 1 and runs[0]["count"] == 3, f"runs {runs}")
    for name, size, kept in ((CONV, 3_000_000, 3_000_000), (RELU, 3_000_000, 0)):
        node = nodes[name]
        expect(node["parent"] == "run" and node["count"] == 3 and node["depth"] == runs[0]["depth"] + 1, f"{node}")
        expect(node["session"] == 1, f"{node}")
        metrics = node["metrics"]
        expect(metrics["host.kept_bytes"] == kept or abs(metrics["host.kept_bytes"] - kept) < 4096, f"{name}: {metrics}")
        expect(node["biggest_new_host_site"]["bytes"] == size, f"{node}")
    # "flat" took less than the microsecond in which times are counted.
    expect(any("shorter than the clocks are joined" in text for text in said(summary)), f"{said(summary)}")


def check_own(folder):
    """The program's own profile, in its own folder and under its own name."""
    log, summary = run(folder, "own")
    expect_nodes(summary)
    expect(len(glob.glob(os.path.join(folder, "own_*.json"))) == 1, "the program's profile is not where it wants it")
    for view in ("phases", "report"):
        text = subprocess.run([GPUPEAK, view, log], stdout=subprocess.PIPE, check=True, text=True).stdout
        expect(CONV in text, text)
    return log


def check_asked_for(folder):
    log, summary = run(folder, options=["--ort-nodes"])
    expect_nodes(summary)
    expect(len(glob.glob(log + ".ort-1_*.json")) == 1, f"{os.listdir(folder)}")


def check_both(folder):
    """A program that turns its profile on itself gets its own file, --ort-nodes or not."""
    log, summary = run(folder, "own", options=["--ort-nodes"])
    expect_nodes(summary)
    expect(len(glob.glob(os.path.join(folder, "own_*.json"))) == 1 and not glob.glob(log + ".ort-*"), f"{os.listdir(folder)}")


def check_own_operators(folder):
    """A copy of the options cannot make this session: the program's own can, without nodes."""
    _, summary = run(folder, options=["--ort-nodes"])
    expect(nodes_of(summary) == {} and said(summary) == [], f"{nodes_of(summary)} {said(summary)}")
    expect({"create_session", "run", "release_session"} <= {p["name"] for p in summary["phases"]}, "its calls are phases")


def check_killed(folder):
    _, summary = run(folder, "-", "kill", options=["--ort-nodes"])
    expect(nodes_of(summary) == {}, f"{nodes_of(summary)}")
    expect(len(said(summary)) == 1 and "is empty or cannot be read" in said(summary)[0], f"{said(summary)}")


def check_threads(folder):
    """Sessions that are made at once: the files that we asked for say whose they are."""
    _, summary = run(folder, "-", "threads", options=["--ort-nodes"])
    runs = {p["session"] for p in summary["phases"] if p["name"] == "run"}
    expect(runs == set(range(1, 41)), f"runs of sessions {runs}")
    nodes = [p for p in summary["phases"] if p["source"] == "node"]
    expect(all(p["parent"] == "run" and p["name"] in (CONV, RELU) and p["count"] == 1 for p in nodes), f"{nodes}")
    expect(len({p["session"] for p in nodes}) == 40, f"{len(nodes)} nodes: {said(summary)}")
    expect(not any("could not be told from others" in text for text in said(summary)), f"{said(summary)}")


def check_shifted(folder):
    """Somebody sets the clock in the middle: no name is better than a wrong one."""
    _, summary = run(folder, "own", FAKE_CLOCK="shifted")
    nodes = nodes_of(summary)
    expect(list(nodes) == [CONV] and nodes[CONV]["count"] == 1, f"{nodes}")
    expect(any("5 of 6 node runs" in text for text in said(summary)), f"{said(summary)}")


def check_damaged(folder):
    """What is left of a profile is used; a missing one costs the nodes alone."""
    log = check_own(folder)
    path = glob.glob(os.path.join(folder, "own_*.json"))[0]
    with open(path, "rb") as file:
        whole = file.read()

    def with_content(content):
        with open(path, "wb") as file:
            file.write(content)
        summary = report(log)
        expect({p["name"] for p in summary["phases"]} >= {"create_session", "run", "release_session"}, "phases are lost")
        return nodes_of(summary), said(summary)

    nodes, texts = with_content(whole[:len(whole) // 2])
    expect(nodes and nodes[CONV]["count"] < 3 and any("cut off" in text for text in texts), f"{nodes} {texts}")
    nodes, texts = with_content(whole.replace(b'"ts" :', b'"ts" :x', 1))
    expect(nodes[RELU]["count"] == 3 and any("make no sense" in text for text in texts), f"{nodes} {texts}")
    nodes, texts = with_content(os.urandom(100_000))
    expect(nodes == {} and texts, f"{nodes} {texts}")
    nodes, texts = with_content(whole.replace(b'"pid" :', b'"pid" :9'))
    expect(nodes == {} and any("another process" in text for text in texts), f"{nodes} {texts}")
    nodes, texts = with_content(whole.replace(b'"ts" :', b'"ts" :99999999999'))
    expect(nodes == {} and texts, f"{nodes} {texts}")
    with_content(whole)
    os.makedirs(os.path.join(folder, "away"))
    moved = [shutil.move(file, os.path.join(folder, "away")) for file in (log, path)]
    expect_nodes(report(moved[0]))
    os.remove(moved[1])
    summary = report(moved[0])
    expect(nodes_of(summary) == {} and len(said(summary)) == 1, f"{said(summary)}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"check_{CASE}"](folder)


run_checks(main)
