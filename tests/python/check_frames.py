"""Runs allocations.py in an interpreter under the preload and compares each call site in the log with what Python
itself said: every file, function and line.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys
import tempfile

from python_log import (HERE, MAX_FRAMES, SKIPPED, Log, add_common_options, environment_of, expected_frames, find_pythons)

CLIENT = os.path.join(HERE, "allocations.py")


def check(options, python):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        expected_path = os.path.join(folder, "expected.json")
        command = [python, CLIENT, expected_path]
        result = subprocess.run(command, env=environment_of(options, folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=250, check=False)
        if result.returncode != 0:
            return [f"{python}: exit code {result.returncode}\n{result.stdout.decode(errors='replace')[-3000:]}"]
        logs = {path: Log(options.tool, path) for path in glob.glob(os.path.join(folder, "*.gplog"))}
        by_pid = {os.path.basename(path).split(".")[0]: (path, log) for path, log in logs.items()}
        counts, cut = collections.Counter(), set()
        with open(expected_path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                entry = json.loads(line)
                path, log = by_pid[str(entry["pid"])]
                counts[entry["case"]] += 1
                frames = expected_frames(entry)
                found = log.python_frames(entry["size"])
                if found != frames and len(problems) < 10:
                    problems.append(f"{entry['case']} ({entry['size']} bytes):\n  Python {frames}\n  log    {found}")
                problems += check_places(log, entry)
                if len(entry["frames"]) > MAX_FRAMES:
                    cut.add(path)
        for path, log in logs.items():
            problems += check_report(options, path, path in cut)
        print(f"{python}: {sum(counts.values())} call sites in {len(counts)} cases compared")
    return problems[:10]


def check_places(log, entry):
    """Python frames lie between native ones: those of the interpreter that run them, and the driver's caller."""
    stack = list(log.stack(entry["size"]))
    if not stack or stack[0][1] is not None or stack[-1][1] is not None and len(entry["frames"]) < 100:
        return [f"{entry['case']}: Python frames are not between native ones"]
    return []


def check_report(options, path, cut):
    """By symbols: what runs a Python frame is the evaluation function. Stacks that were cut are said to be."""
    text = subprocess.run([options.tool, "report", "--json", "--top", "1000", path], stdout=subprocess.PIPE,
                          check=True).stdout
    summary = json.loads(text)
    problems = [f"{path}: {warning}" for warning in summary["quality"]["warnings"]
                if warning["code"] in ("GP040", "GP041")]
    if cut and not any(warning["code"] == "GP023" for warning in summary["quality"]["warnings"]):
        problems.append(f"{path}: not said that a stack was cut")
    seen = 0
    for peak in summary["peaks"]:
        for holder in peak["holders"]:
            stack = holder.get("stack", [])
            # Of functions inlined into each other the outermost.
            physical = [frame for frame, outer in zip(stack, stack[1:] + [{}])
                        if frame.get("language") == "python" or frame["address"] != outer.get("address")]
            for frame, outer in zip(physical, physical[1:]):
                if frame.get("language") != "python" or outer.get("language") == "python":
                    continue
                seen += 1
                name = outer["function"] or ""
                if name and not name.startswith("_PyEval_EvalFrame"):
                    problems.append(f"{frame['function']}:{frame['line']} is said to be run by {name}")
    if seen == 0:
        problems.append(f"{path}: no Python frame in the report's stacks")
    return problems


def main():
    parser = argparse.ArgumentParser()
    add_common_options(parser)
    parser.add_argument("--version", required=True, help="of Python: major.minor")
    options = parser.parse_args()
    pythons = find_pythons(options.version)
    if not pythons:
        print(f"skipped: no Python {options.version} here, on the path or of pyenv; name one in GPUPEAK_TEST_PYTHONS")
        sys.exit(SKIPPED)
    problems = [problem for python in pythons for problem in check(options, python)]
    if problems:
        sys.exit("\n".join(problems))


main()
