#!/usr/bin/env python3
"""Adds peak memory to what hyperfine exported: each command is run once more, under gpupeak.

    hyperfine --export-json bench.json 'sort a.txt' 'sort b.txt'
    hyperfine_memory.py bench.json > bench_with_memory.json
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile


NAMES = ("device.peak_bytes", "host.peak_bytes", "host.rss.peak_bytes")


def measure(command, folder, number):
    """Bytes by name; null for a line that only a shell understands: its figures would be the shell's."""
    if re.search(r"[|&;<>()$`*?~#\n]", re.sub(r"'[^']*'", "", command)):
        print(f"not measured, since it needs a shell: {command}", file=sys.stderr)
        return dict.fromkeys(NAMES)
    log = os.path.join(folder, f"{number}.gplog")
    # What it ends with is hyperfine's affair.
    subprocess.run(["gpupeak", "run", "-q", "-o", log, "--", *shlex.split(command)], stdout=subprocess.DEVNULL, check=False)
    line = subprocess.run(["gpupeak", "metrics", "--format", "jsonl", log], stdout=subprocess.PIPE, check=True).stdout
    return {name: json.loads(line)["metrics"][name] for name in NAMES}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        export = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        for number, result in enumerate(export["results"]):
            result["memory"] = measure(result["command"], folder, number)
    json.dump(export, sys.stdout, indent=2)


main()
