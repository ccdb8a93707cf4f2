#!/usr/bin/env python3
"""Real programs under the preload: same output, same exit code, and a log that adds up.

usage: real_programs.py LIBGPUPEAK GPUPEAK NAME
Exit code 77: the program is not on this machine.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from common import Skipped, environment, expect, expect_nothing_dropped, logs, report, run_checks

SOURCE = """#include <algorithm>
#include <map>
#include <string>
#include <vector>
int main() { std::map<std::string, std::vector<int>> m; m["a"].push_back(1); return (int)m.size() - 1; }
"""

SOURCES = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
EXIT_CODES = {"bash": 3, "python3": 4, "node": 5, "perl": 6}  # 0 elsewhere: a program that fails shows nothing
PROGRAMS = {
    "bash": ["bash", "-c", "x=0; for i in $(seq 200); do x=$((x+i)); done; echo $x | tr 0-9 a-j; exit 3"],
    "python3": ["/usr/bin/python3", "-c", "import json, sys; print(len(json.dumps(list(range(50000))))); sys.exit(4)"],
    "node": ["node", "-e", "let a=[];for(let i=0;i<1e5;i++)a.push({i});console.log(JSON.stringify(a).length);process.exit(5)"],
    "g++": ["g++", "-O1", "-o", "program", "source.cc"],
    "git": ["sh", "-c", "git init -q r && cd r && echo a > f && git add f && git -c user.name=a -c user.email=a@b "
            "commit -q -m c --date 2020-01-01T00:00:00Z && git log --format=%s"],
    "sqlite3": ["sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<20000) "
                "select sum(x), count(distinct x % 977) from c;"],
    "curl": ["curl", "--version"],
    "perl": ["perl", "-e", "my %h; $h{$_}=$_ x 10 for 1..50000; print scalar(keys %h), qq(\\n); exit 6"],
    "rustc": ["rustc", "--version"],
    "cargo": ["cargo", "--version"],
    "tar": ["sh", "-c", f"tar cf - {SOURCES}/docs {SOURCES}/collector {SOURCES}/preload 2>/dev/null | wc -c"],
    "chromium": ["sh", "-c", "echo '<h1>hello</h1><script>document.title=1+1</script>' > page.html; chromium --headless "
                 "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
                 "--disable-component-update --disable-sync --user-data-dir=profile --dump-dom page.html 2>/dev/null"],
    "sort": ["sh", "-c", "seq 100000 | sort -r | head -3"],
}


def run(name, folder, preload):
    work = os.path.join(folder, "with" if preload else "without")
    os.mkdir(work)
    with open(os.path.join(work, "source.cc"), "w") as file:
        file.write(SOURCE)
    command = PROGRAMS[name]
    return subprocess.run(command, cwd=work, env=environment(folder, preload, GPUPEAK_CHILDREN="all"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          check=False)


def main():
    name = sys.argv[3]
    if shutil.which(PROGRAMS[name][0]) is None or shutil.which(name) is None and name not in ("python3",):
        raise Skipped(f"no {name} here")
    with tempfile.TemporaryDirectory() as folder:
        native, preloaded = run(name, folder, False), run(name, folder, True)
        for what in ("returncode", "stdout", "stderr"):
            a, b = getattr(native, what), getattr(preloaded, what)
            expect(a == b, f"{what} differs: {a[-300:] if what != 'returncode' else a!r} without, "
                           f"{b[-300:] if what != 'returncode' else b!r} with the preload")
        expect(native.returncode == EXIT_CODES.get(name, 0) and (native.stdout or name == "g++"),
               f"{name} did not do its work: exit {native.returncode}, {native.stdout[-300:]}{native.stderr[-300:]}")
        found = logs(folder)
        expect(found, "no log was written")
        for log in found:
            expect_nothing_dropped(report(log))
        print(f"{name}: exit {native.returncode}, {len(found)} logs")


run_checks(main)
