#!/usr/bin/env python3
"""How much of a program's anonymous memory the host peak explains.

usage: coverage.py LIBGPUPEAK GPUPEAK NAME
The truth is the kernel's: the largest RssAnon of the same run, polled each millisecond, less what the preload has
for itself. The host peak (heap + anonymous mappings) must come within 10 %. Memory asked for and never touched makes
it larger; thread stacks, relocated data and pages of the allocator's own make it smaller.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

from common import Skipped, environment, expect, expect_nothing_dropped, logs, report, run_checks

PROGRAMS = {
    "cc1plus": ["cc1plus", "-quiet", "-O2", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", "heavy.cc", "-o", "/dev/null"],
    "python3": ["/usr/bin/python3", "-c", "a = [{'k': i, 'v': [str(i)] * 5} for i in range(300000)]; print(len(a))"],
    "node": ["node", "--max-semi-space-size=1", "-e",
             "let a=[];for(let i=0;i<1e6;i++)a.push({x:i,s:'k'+i});console.log(a.length)"],
}
HEAVY = "#include <functional>\n#include <map>\n#include <regex>\nint main() { return std::regex_match(\"aa\", std::regex(\"a+\")) ? 0 : 1; }\n"


def rss_anon(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main():
    name = sys.argv[3]
    command = list(PROGRAMS[name])
    if name == "cc1plus":
        if shutil.which("g++") is None:
            raise Skipped("no g++ here")
        command[0] = subprocess.run(["g++", "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    program = shutil.which(command[0])
    if program is None:
        raise Skipped(f"no {name} here")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "heavy.cc"), "w") as file:
            file.write(HEAVY)
        process = subprocess.Popen(command, cwd=folder, env=environment(folder, True), stdout=subprocess.DEVNULL)
        truth = 0
        while process.poll() is None:
            truth = max(truth, rss_anon(process.pid))
            time.sleep(0.001)
        summary = report(logs(folder)[0])
        expect_nothing_dropped(summary)
        metrics = summary["metrics"]
        mib = lambda value: f"{(value or 0) / 2**20:.1f}"
        peak = metrics["host.peak_bytes"]
        truth -= metrics["tool.self_bytes"]
        print(f"{name}: host peak {mib(peak)} MiB (heap {mib(metrics['host.kind.heap.peak_bytes'])}, anonymous mappings "
              f"{mib(metrics['host.kind.mmap_anon.peak_bytes'])}); RssAnon less the preload's own {mib(truth)} MiB; "
              f"ratio {peak / truth:.3f}")
        expect(0.9 <= peak / truth <= 1.1, "not within 10 %")


run_checks(main)
