#!/usr/bin/env python3
"""What people rely on and an earlier revision had: verbs, options, variables, metrics, warnings, keys of JSON.

usage: surface.py REVISION
Lists what neither the files of today name nor `gpupeak` understands by its old name. Exit code 1: there is any. Needs git.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")


def text(revision, *folders):
    names = git("ls-tree", "-r", "--name-only", revision, "--", *folders).split()
    return "".join(git("show", f"{revision}:{name}") for name in names if name.rsplit(".", 1)[-1] in ("cc", "h", "def", "md", "json", "py"))


def main(revision):
    now = text("HEAD", "preload", "collector", "tools", "docs", "rules")
    before = {folder: text(revision, folder) for folder in ("preload", "collector", "tools", "docs")}
    verbs = re.findall(r'\b(?:line\.)?add(?:<\w+>)?\(\s*"([a-z]+)"', before["tools"]) + re.findall(r'\badd_\w+_verb\(line, "(\w+)"', before["tools"])
    had = {
        "verbs": {f'"{verb}"' for verb in verbs},
        "options": set(re.findall(r'"(?:-\w,)?(--[a-z][a-z-]+)["=,]', before["tools"])),
        "variables": set(re.findall(r'"(GPUPEAK_[A-Z_]+)"', before["preload"])),
        "metrics": set(re.findall(r"\b(?:device|host|run|pinned|total)\.[a-z_.]+_(?:bytes|count|ns|seconds)\b", before["docs"])),
        "warnings": set(re.findall(r"\bGP0\d\d\b", before["docs"])),
        "keys of JSON": set(re.findall(r'"([a-z_0-9]+)": *\{', git("show", f"{revision}:docs/summary.schema.json"))),
    }
    gone = {what: sorted(name for name in names if name not in now) for what, names in had.items()}
    for what, names in had.items():
        print(f"{what}: {len(names)}, gone: {', '.join(gone[what]) or 'none'}")
    return any(gone.values())


sys.exit(main(sys.argv[1]))
