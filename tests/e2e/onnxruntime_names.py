#!/usr/bin/env python3
"""The names of a released ONNX Runtime's C API against the table that the library itself hands out.

usage: onnxruntime_names.py LIBGPUPEAK GPUPEAK VERSION WORK_FOLDER NAMES_TABLE_CHECK
Exit code 77: without npm or the network.
"""
import os
import subprocess
import sys

from common import Skipped, expect, run_checks
import npm_package

VERSION, WORK, CHECK = sys.argv[3:6]
RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rules/onnxruntime.toml")


def main():
    place = npm_package.fetch(VERSION, WORK)
    if place is None:
        raise Skipped("no npm or network")
    result = subprocess.run([CHECK, npm_package.library(place), RULES], capture_output=True, text=True, check=False)
    print(result.stdout, end="")
    expect(result.returncode == 0, result.stderr)


run_checks(main)
