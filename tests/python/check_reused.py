"""Runs reused_code.py under the preload, which reads each stack both ways, in place and by copies: none may differ, and each
call site in the log is what Python itself said.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

from python_log import HERE, SKIPPED, Log, add_common_options, counters_of, environment_of, expected_frames, find_pythons


def check(options, python, verify):
    with tempfile.TemporaryDirectory() as folder:
        expected_path = os.path.join(folder, "expected.json")
        environment = dict(environment_of(options, folder), GPUPEAK_HOST="off", GPUPEAK_VERIFY_STACKS=str(verify))
        done = subprocess.run([python, os.path.join(HERE, "reused_code.py"), expected_path], env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        if done.returncode != 0:
            return f"{python}: exit code {done.returncode}\n{done.stdout[-3000:]}"
        reused = int(done.stdout)
        (path,) = glob.glob(os.path.join(folder, "*.gplog"))
        log, count = Log(options.tool, path), 0
        with open(expected_path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                frames, found = expected_frames(entry), log.python_frames(entry["size"])
                count += 1
                if found != frames:
                    return f"{entry['case']} ({entry['size']} bytes):\n  Python {frames}\n  log    {found}"
        counters = counters_of(path)
    print(f"{python}: {count} call sites, {reused} code objects where another one had lain; read both ways: "
          f"{counters['verified_stacks']} the same, {counters['wrong_stacks']} not")
    if reused < 300:
        return "addresses did not come again: this tests nothing"
    if counters["wrong_stacks"] != 0 or verify and counters["verified_stacks"] < 2.5 * count:  # those of native frames count too
        return "read in place and read by copies do not agree, or were not both read"
    return None


def main():
    parser = argparse.ArgumentParser()
    add_common_options(parser)
    parser.add_argument("--version", required=True, help="of Python: major.minor")
    options = parser.parse_args()
    pythons = find_pythons(options.version)
    if not pythons:
        print(f"skipped: no Python {options.version} here")
        sys.exit(SKIPPED)
    problems = [problem for python in pythons for verify in (1, 0) if (problem := check(options, python, verify))]
    if problems:
        sys.exit("\n".join(problems))


main()
