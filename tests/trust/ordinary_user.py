#!/usr/bin/env python3
"""Runs other tests of this build as a user without rights, in a folder of that user: much goes otherwise for root (files that may not be
written, limits that may not be raised, links that the kernel does not follow).

usage: ordinary_user.py CTEST BUILD_FOLDER REGULAR_EXPRESSION
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

CTEST, BUILD, WANTED = sys.argv[1:4]
USER, SKIPPED = 12345, 77


def tests():
    """(name, command, environment) of each."""
    told = subprocess.run([CTEST, "--test-dir", BUILD, "--show-only=json-v1", "-R", WANTED], capture_output=True, text=True, check=True)
    for test in json.loads(told.stdout)["tests"]:
        properties = {one["name"]: one["value"] for one in test["properties"]}
        yield test["name"], test["command"], dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))


def main():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: who becomes another user needs root and setpriv")
        sys.exit(SKIPPED)
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    known, failed = list(tests()), []
    if subprocess.run([*become, sys.executable, "-c", "import sys; open(sys.argv[1])", known[0][1][-1 if len(known[0][1]) == 1 else 1]],
                      capture_output=True, check=False).returncode != 0:
        print("skipped: the build is not for other users")
        sys.exit(SKIPPED)
    for name, command, environment in known:
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, USER, USER)
            done = subprocess.run([*become, *command], cwd=folder, env=dict(os.environ, HOME=folder, TMPDIR=folder) | environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        print(f"{name}: {'ok' if done.returncode == 0 else 'skipped' if done.returncode == SKIPPED else done.returncode}")
        if done.returncode not in (0, SKIPPED):
            failed.append(name)
            print(done.stdout[-3000:], done.stderr[-3000:])
    print(f"{len(known)} tests as user {USER}, failed: {', '.join(failed) or 'none'}")
    sys.exit(1 if failed or not known else 0)


main()
