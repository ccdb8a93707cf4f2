#!/usr/bin/env python3
"""A suite of CUDA programs, unchanged, by themselves and below gpupeak.

usage: suite.py GPUPEAK FOLDER [--cupti RECORDER] [--seconds N] [--jobs N] [--time N [--turns N]] [--logs FOLDER]

FOLDER has a folder for each program, with a Makefile whose `run` starts the program behind $(LAUNCHER), as
HeCBench's have (github.com/zjin-lcf/HeCBench: FOLDER is its src/). What does not compile, or takes more than N
seconds by itself, is left out, and counted. RECORDER: cupti_recorder.cc as a library; each log is then compared
with CUPTI's records of the same run. --time N: as many programs, the longest, are run once more, one after the
other, in turns with and without gpupeak; --turns N: so often, and the medians count. Prints Markdown tables.
Exit code 1: a program's exit code or output differed, or a figure of CUPTI's.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser()
parser.add_argument("gpupeak")
parser.add_argument("folder")
parser.add_argument("--cupti", default="")
parser.add_argument("--seconds", type=float, default=6)
parser.add_argument("--jobs", type=int, default=4)
parser.add_argument("--time", type=int, default=0)
parser.add_argument("--turns", type=int, default=1)
parser.add_argument("--build-only", action="store_true")
parser.add_argument("--most", type=float, default=500, help="seconds for all")
parser.add_argument("--logs", default="", help="keep logs and screens there")
options = parser.parse_args()
options.gpupeak = os.path.abspath(options.gpupeak)  # each program is started in a folder of its own
BEGAN = time.monotonic()
LARGE = 0.05  # of the peak: a buffer that a person asks about


def left():
    return options.most - (time.monotonic() - BEGAN)


def make(program, target, seconds, *variables):
    """Exit code (None: no time), output, error, seconds."""
    folder = os.path.join(options.folder, program)
    begin = time.monotonic()
    process = subprocess.Popen(["make", "-s", "-C", folder, target, "ARCH=sm_90", *variables], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, "", "", time.monotonic() - begin
    return process.returncode, out, err, time.monotonic() - begin


def build(program):
    marker = os.path.join(options.folder, program, ".built")
    if not os.path.exists(marker):
        target = re.search(r"^run\s*:\s*(.*)", open(os.path.join(options.folder, program, "Makefile"), encoding="utf-8", errors="replace").read(), re.M)
        # `run` depends on the program: with a launcher that does nothing it is only built
        code = make(program, "run", 150, "LAUNCHER=true")[0] if target else 1
        with open(marker, "w", encoding="utf-8") as file:
            file.write(str(code))
    with open(marker, encoding="utf-8") as file:
        return file.read() == "0"


def words(text):
    """What does not change from run to run: all but the numbers, and what make says of itself."""
    lines = [line for line in text.splitlines() if not line.startswith("make")]
    return re.sub(r"[-+]?(\d[\d.,]*(e[-+]?\d+)?|inf|nan)", "#", "\n".join(lines), flags=re.I).split()


Result = collections.namedtuple("Result", "program code same_code same_output cupti report seconds")


def unexplained(report):
    """Of each device's figure of nvidia-smi, in bytes; None: no reading."""
    found = []
    for device in report.get("devices", []):
        for row in ((device.get("ledger") or {}).get("at_peak") or {}).get("rows", []):
            if row["cause"] == "unexplained" and row["bytes"] is not None:
                found.append(abs(row["bytes"]))
    return max(found) if found else None


def device_rows(report):
    """The rows of the largest device's peak."""
    peaks = [peak for peak in report["peaks"] if re.fullmatch(r"device:\d+", peak["scope"])]
    return max(peaks, key=lambda peak: peak["bytes"]) if peaks else None


def run(program, work):
    native = make(program, "run", options.seconds)
    if native[0] is None:
        return None
    log = os.path.join(work, f"{program}.gplog")
    recorder = f"CUDA_INJECTION64_PATH={options.cupti} CUPTI_RECORDER_OUT={work}/{program}.cupti " if options.cupti else ""
    ours = make(program, "run", 6 * options.seconds + 20, f"LAUNCHER=env {recorder}{options.gpupeak} run -o {log} --")
    cupti = None
    report = None
    if os.path.exists(log):
        done = subprocess.run([options.gpupeak, "report", "--json", log], capture_output=True, text=True)
        report = json.loads(done.stdout) if done.returncode == 0 else None
        records = glob.glob(f"{work}/{program}.cupti.*")
        if report and len(records) == 1:
            done = subprocess.run([sys.executable, os.path.join(HERE, "compare.py"), options.gpupeak, program, log, records[0]], capture_output=True, text=True)
            cupti = done.stdout if done.returncode else ""
    if options.logs:
        os.makedirs(options.logs, exist_ok=True)
        with open(os.path.join(options.logs, f"{program}.screen"), "w", encoding="utf-8") as file:
            begins = ours[2].rfind("gpupeak: peak")
            file.write(ours[2][max(begins, 0):] if begins >= 0 else ours[2][-3000:])
        if os.path.exists(log):
            shutil.copy(log, options.logs)
    same = words(native[1]) == words(ours[1])
    if not same and native[0] == ours[0]:  # a program may print what differs from run to run, or with the machine's load
        again = [words(make(program, "run", options.seconds)[1]) for _ in range(4)]
        same = True if words(ours[1]) in again else None if any(other != words(native[1]) for other in again) else False
    return Result(program, native[0], native[0] == ours[0], same, cupti, report, native[3])


def is_used(role):
    return any(role.get(name) for name in ("copied_in", "copied_out", "copied_to", "copied_from", "filled", "textures", "kernels", "passed_on"))


def role_shares(peak):
    """Bytes at the peak with a role, with a kernel's name; and whether each large row is one buffer told apart."""
    has_role = has_kernel = 0
    apart = True
    seen = set()
    for row in peak["holders"]:
        role = row.get("role") or {}
        if is_used(role):
            has_role += row["bytes"] - role.get("unused_bytes", 0)
        if role.get("kernels"):
            has_kernel += row["bytes"] - role.get("unused_bytes", 0)
        if row["bytes"] < LARGE * peak["bytes"]:
            continue
        for part in role.get("alike") or [dict(row, role=role)]:
            uses = tuple((kernel["name"], tuple(kernel["arguments"])) for kernel in part["role"].get("kernels", ()))
            signature = (part["bytes"], part["count"], row["site"], bool(part["role"].get("copied_in")), bool(part["role"].get("copied_out")), uses)
            is_large = part["bytes"] >= LARGE * peak["bytes"]
            apart = apart and (not is_large or signature not in seen and (part["count"] == 1 or part["bytes"] < 2 * LARGE * peak["bytes"]))
            seen.add(signature)
    return has_role, has_kernel, apart


def main():
    programs = sorted(name for name in os.listdir(options.folder) if name.endswith("-cuda") and os.path.exists(os.path.join(options.folder, name, "Makefile")))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        built = [program for program, good in zip(programs, pool.map(build, programs)) if good]
    print(f"{len(built)} of {len(programs)} compiled after {time.monotonic() - BEGAN:.0f} s", flush=True)
    if options.build_only:
        return 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def one(program):
            return run(program, work) if left() > 6 * options.seconds else "late"
        results = list(pool.map(one, built))
    late = results.count("late")
    done = [result for result in results if result and result != "late"]
    bad = [r for r in done if not r.same_code or r.same_output is False]
    wrong = [r for r in done if r.cupti]
    for r in bad:
        print(f"DIFFERS {r.program}: exit code {r.code} {'same' if r.same_code else 'differs'}, output {r.same_output}")
    for r in wrong:
        print(f"CUPTI DIFFERS {r.program}\n{r.cupti}")
    reports = [r for r in done if r.report]
    with_device = [(r, device_rows(r.report)) for r in reports]
    with_device = [(r, peak) for r, peak in with_device if peak and peak["bytes"]]
    total = sum(peak["bytes"] for _, peak in with_device)
    shares = [(r, peak, role_shares(peak)) for r, peak in with_device]
    ledger = [unexplained(r.report) for r in reports]
    ledger = [value for value in ledger if value is not None]
    print("| what | of | figure |\n|---|---|---|")
    print(f"| ended within {options.seconds:g} s by themselves | {len(built) - late} | {len(done)} |")
    print(f"| same exit code | {len(done)} | {sum(r.same_code for r in done)} |")
    comparable = [r for r in done if r.code == 0 and r.same_output is not None]
    print(f"| same output, but for numbers | {len(comparable)} | {sum(bool(r.same_output) for r in comparable)} |")
    print(f"| peak of each kind equal to CUPTI's | {sum(r.cupti is not None for r in done)} | {sum(r.cupti == '' for r in done)} |")
    print(f"| ledger: 2 MiB or less unexplained | {len(ledger)} | {sum(value <= 2 << 20 for value in ledger)} |")
    if total:
        print(f"| bytes of the peak with a role | {total} | {100 * sum(s[0] for _, _, s in shares) / total:.1f} % |")
        print(f"| bytes with a kernel's name | {total} | {100 * sum(s[1] for _, _, s in shares) / total:.1f} % |")
        print(f"| programs with each buffer of 5 % told apart | {len(shares)} | {sum(s[2] for _, _, s in shares)} |")
    for r, peak, share in shares:
        if share[0] < 0.95 * peak["bytes"] or not share[2]:
            print(f"  {r.program}: {100 * share[0] / peak['bytes']:.0f} % with a role, told apart {share[2]}: " +
                  "; ".join(f"{row['site']} {row['bytes'] >> 20} MiB ×{row['count']}" for row in peak["holders"][:4]))
    timed = sorted((r for r in done if r.code == 0), key=lambda r: r.seconds)[-options.time:] if options.time else []
    took = collections.defaultdict(lambda: ([], []))  # of a program: alone, below gpupeak
    for number, r in [(turn + number, r) for turn in range(options.turns) for number, r in enumerate(timed)]:
        if left() < 4 * r.seconds + 5:
            continue
        with tempfile.TemporaryDirectory() as cache:
            launcher = [f"LAUNCHER=env XDG_CACHE_HOME={cache} {options.gpupeak} run -o {cache}/x.gplog --"]
            for way in (0, 1) if number % 2 else (1, 0):
                took[r.program][way].append(make(r.program, "run", 60, *(launcher if way else []))[3])
    alone, ours = (sum(statistics.median(ways[way]) for ways in took.values()) for way in (0, 1))
    for program, ways in sorted(took.items()) if options.turns > 1 else []:
        before, more = statistics.median(ways[0]), statistics.median(ways[1]) - statistics.median(ways[0])
        print(f"| {program}, {len(ways[1])} turns | {1000 * before:.0f} ms alone | {1000 * more:+.0f} ms |")
    if took:
        print(f"| sums of time, alone and below gpupeak | {len(took)} programs | {alone:.1f} s, {ours:.1f} s: {ours / alone:.3f} |")
    return 1 if bad or wrong else 0


sys.exit(main())
