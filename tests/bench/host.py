#!/usr/bin/env python3
"""Times the host path: native, gpupeak in its modes, and heaptrack, side by side.

usage: tests/bench/host.py [FOLDER] [--quick] [--client=FOLDER] [--compare=LIBRARY] [TABLE…]

FOLDER: a build folder (build/release), or where one was installed. TABLE: instructions, pairs, deep, programs, where,
memory or logs; all of them if none is named.
--quick: short runs in place of long ones, and without heaptrack's own compression, which takes longest.
--client: the folder with onnxruntime_perf_test and its models; without, the one that the end-to-end tests have brought.
--compare: another libgpupeak.so, in full mode, beside the others.

Prints Markdown tables; every figure is the median of alternating runs on this machine, now. Times are processor time,
which a busy machine changes least; waiting for locks is not in it. Programs have their time by the clock as well.
"""
import glob
import importlib.util
import json
import os
import platform
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUICK = "--quick" in sys.argv
OPTIONS = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
TABLES = ("instructions", "pairs", "deep", "programs", "where", "memory", "logs")
words = [a for a in sys.argv[1:] if not a.startswith("--")]
chosen = [w for w in words if w in TABLES] or TABLES
BUILD = os.path.abspath(next((w for w in words if w not in TABLES), os.path.join(ROOT, "build/release")))


def built(in_build, installed):
    path = os.path.join(BUILD, in_build)
    return path if os.path.exists(path) else os.path.join(BUILD, installed)


PRELOAD = built("preload/libgpupeak.so", "lib/gpupeak/libgpupeak.so")
COMMAND = built("tools/gpupeak", "bin/gpupeak")
HEAPTRACK_PRELOAD = os.environ.get("HEAPTRACK_PRELOAD", "/usr/lib/heaptrack/libheaptrack_preload.so")
PEER = "heaptrack to /dev/null"  # heaptrack's cheapest
MEMUSAGE = "/lib/x86_64-linux-gnu/libmemusage.so"  # glibc's own: totals alone, no stacks, no log
RUNS = 3 if QUICK else 9
GOALS = {  # of `gpupeak full`: processor time and time by the clock, as ratios of native
    "cc1plus -O2": (1.12, 1.2), "python3, PYTHONMALLOC=malloc": (1.3, None), "python3, a second thread idle": (1.3, None), "node": (1.25, None),
    "Flax, three training steps": (None, 1.15),
}


def gpupeak(mode, log):
    return {"LD_PRELOAD": PRELOAD, "GPUPEAK_HOST": mode, "GPUPEAK_OUT": log, "GPUPEAK_QUIET": "1"}


def ways(folder):
    """(name, environment, command prefix) of every way to run a program."""
    log = os.path.join(folder, "bench.gplog")
    result = [
        ("native", {}, []),
        ("gpupeak full", gpupeak("full", log), []),
        ("gpupeak auto", gpupeak("auto", log + ".auto"), []),
        ("gpupeak sampled", gpupeak("sampled", log + ".sampled"), []),
        ("gpupeak counters", gpupeak("counters", log + ".counters"), []),
    ]
    if "compare" in OPTIONS:
        result.insert(2, ("gpupeak full, compared", dict(gpupeak("full", log), LD_PRELOAD=OPTIONS["compare"]), []))
    if shutil.which("heaptrack") and not QUICK:
        result.append(("heaptrack", {}, ["heaptrack", "-o", os.path.join(folder, "heaptrack")]))
    if os.path.exists(HEAPTRACK_PRELOAD):
        raw = {"LD_PRELOAD": HEAPTRACK_PRELOAD, "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}
        result.append((PEER, raw, []))
    if os.path.exists(MEMUSAGE):
        result.append(("memusage", {"LD_PRELOAD": MEMUSAGE}, []))
    return result


def run(prefix, environment, command, cwd):
    """Seconds of the program and its children, of the processor and by the clock, and what it printed."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    # The last run's log would be taken away at this one's expense.
    for log in glob.glob(os.path.join(cwd, "bench.gplog*")) + glob.glob(os.path.join(cwd, "heaptrack.*")):
        os.remove(log)
    start, began = used(), time.perf_counter()
    done = subprocess.run(prefix + command, env=dict(os.environ, **environment), cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return (used() - start, time.perf_counter() - began), done


def beside_peer(native, full, peer):
    """What gpupeak adds as a share of what heaptrack adds."""
    return f"{(full - native) / (peer - native):.2f}" if peer is not None else "–"


def bench_program(folder, name):
    """A micro benchmark; made here where only an installation is at hand."""
    program = os.path.join(BUILD, "tests/bench/bench_" + name)
    if not os.path.exists(program):
        program = os.path.join(folder, name)
        if not os.path.exists(program):
            subprocess.run(["g++", "-std=c++20", "-O2", "-fno-optimize-sibling-calls", "-pthread", "-o", program,
                            os.path.join(ROOT, f"tests/bench/{name}.cc")], check=True)
    return program


def pairs_program(folder):
    return bench_program(folder, "malloc_pairs")


def printed_ns(done):
    """heaptrack's own lines go to the same stream."""
    return float(next(line for line in done.stdout.decode().split() if line.replace(".", "", 1).isdigit()))


def deep_loops(folder):
    """As eager PyTorch allocates: thousands of deep stacks, one after the other, in the same order again and again."""
    program = bench_program(folder, "deep_loop")
    shapes = {"own": "all frames differ", "mixed": "one of four functions in each frame", "outer": "the 16 outermost differ"}
    rounds = "50" if QUICK else "300"
    runs = RUNS
    print("\nnanoseconds of processor time a malloc+free pair in a loop over 2,000 stacks of 60 frames, the 60 calls included, "
          f"median of {runs}\nalternating runs; in brackets: added, median and quartiles of the rounds' differences\n")
    print("| | " + " | ".join(shapes.values()) + " |")
    print("|---|" + "---|" * len(shapes))
    table = {name: [] for name, _, _ in ways(folder)}
    for shape in shapes:
        times = {name: [] for name in table}
        for _ in range(runs):
            for name, environment, prefix in ways(folder):
                # heaptrack is so slow that it has fewer rounds; it knows no stacks by heart
                count = "50" if "heaptrack" in name else rounds
                times[name].append(printed_ns(run(prefix, environment, [program, "2000", "60", count, shape], folder)[1]))
        for name, values in times.items():
            cell = f"{statistics.median(values):.0f}"
            if name != "native":
                low, middle, high = statistics.quantiles([v - n for v, n in zip(values, times["native"])], n=4)
                cell += f" ({middle:+.0f}; {low:+.0f} to {high:+.0f})"
            table[name].append(cell)
    for name, cells in table.items():
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def pair_times(folder):
    program = pairs_program(folder)
    pairs = "200000" if QUICK else "1000000"
    shapes = [(8, 1), (30, 1), (8, 2), (30, 2)]
    print(f"\nnanoseconds of processor time a malloc+free pair, median of {RUNS} alternating runs (in brackets: added)\n")
    print("| | " + " | ".join(f"depth {d}, {t} thread{'s' * (t > 1)}" for d, t in shapes) + " |")
    print("|---|" + "---|" * len(shapes))
    table = {name: [] for name, _, _ in ways(folder)}
    for depth, threads in shapes:
        times = {name: [] for name in table}
        for _ in range(RUNS):
            for name, environment, prefix in ways(folder):
                _, done = run(prefix, environment, [program, str(depth), str(threads), pairs], folder)
                times[name].append(printed_ns(done))
        for name in table:
            table[name].append(statistics.median(times[name]))
    for name, values in table.items():
        cells = [f"{v:.0f}" if name == "native" else f"{v:.0f} ({v - n:+.0f})"
                 for v, n in zip(values, table["native"])]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    shares = [beside_peer(*values) for values in
              zip(table["native"], table["gpupeak full"], table.get(PEER, [None] * len(shapes)))]
    print("| added by gpupeak full, of what heaptrack adds | " + " | ".join(shares) + " |", flush=True)


def programs(folder):
    """Real programs: (name, command, environment)."""
    source = os.path.join(folder, "heavy.cc")
    with open(source, "w") as out:
        out.write("#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n"
                  "#include <string>\nint main() { std::map<std::string, std::function<int()>> m;\n"
                  "std::regex r(\"a+\"); return std::regex_match(\"aa\", r) ? 0 : int(m.size()); }\n")
    found = []
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, check=False)
    cc1plus = compiler.stdout.decode().strip()
    if os.path.exists(cc1plus):
        found.append(("cc1plus -O2", [cc1plus, "-quiet", "-O2", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", source,
                                      "-o", "/dev/null"], {}))
    work = "import json; print(len(json.dumps([{'k': i, 'v': [str(i)] * 5} for i in range(60000)])))"
    found.append(("python3, PYTHONMALLOC=malloc", [sys.executable, "-c", work], {"PYTHONMALLOC": "malloc"}))
    threaded = ("import threading; done = threading.Event(); idle = threading.Thread(target=done.wait); idle.start(); " + work +
                "; done.set(); idle.join()")
    found.append(("python3, a second thread idle", [sys.executable, "-c", threaded], {"PYTHONMALLOC": "malloc"}))
    if shutil.which("sqlite3"):
        sql = ("with recursive c(x) as (select 1 union all select x+1 from c where x<200000) "
               "select count(distinct 'k' || (x * 7919 % 100003)) from c;")
        found.append(("sqlite3", [shutil.which("sqlite3"), ":memory:", sql], {}))
    xml = "/usr/share/mime/packages/freedesktop.org.xml"
    if shutil.which("xmllint") and os.path.exists(xml):
        found.append(("xmllint, 10 files", [shutil.which("xmllint"), "--noout"] + [xml] * 10, {}))
    if shutil.which("node"):
        script = "let s = 0; for (let i = 0; i < 3e5; i++) s += JSON.stringify({a: i}).length; console.log(s)"
        found.append(("node", [shutil.which("node"), "-e", script], {}))
    if importlib.util.find_spec("flax"):
        found.append(("Flax, three training steps", [sys.executable, os.path.join(ROOT, "tests/gpu/flax_train.py")], {}))
    client = OPTIONS.get("client", os.path.join(BUILD, "clients/onnxruntime"))
    model = os.path.join(client, "models/light_resnet50.onnx")
    if os.path.exists(model):
        found.append(("onnxruntime_perf_test -e cpu, ResNet-50",
                      [os.path.join(client, "onnxruntime_perf_test"), "-e", "cpu", "-r", "20", "-I", "-m", "times", model], {}))
    return found


def ratio(ours, native):
    """Median and quartiles of the rounds' ratios."""
    low, middle, high = statistics.quantiles([o / n for o, n in zip(ours, native)], n=4)
    return f"{middle:.2f}× ({low:.2f} to {high:.2f})"


def program_times(folder):
    names = [name for name, _, _ in ways(folder)]
    print(f"\nreal programs: ratios to native of the same round, medians of {RUNS} alternating rounds and their quartiles\n")
    print("| program | time | native s | " + " | ".join(names[1:]) + " | goal |")
    print("|---|---|---|" + "---|" * len(names))
    for program, command, extra in programs(folder):
        times = {name: [] for name in names}
        died = set()
        for _ in range(RUNS):
            for name, environment, prefix in ways(folder):
                seconds, done = run(prefix, dict(extra, **environment), command, folder)
                times[name].append(seconds)
                if done.returncode < 0 or done.returncode >= 128:
                    died.add(name)
        for i, clock in enumerate(("processor's", "by the clock")):
            column = {name: [seconds[i] for seconds in values] for name, values in times.items()}
            native = column.pop("native")
            cells = ["died" if name in died else ratio(values, native) for name, values in column.items()]
            goal = GOALS.get(program, (None, None))[i]
            print(f"| {program} | {clock} | {statistics.median(native):.2f} | " + " | ".join(cells) +
                  f" | {f'{goal}×' if goal else ''} |", flush=True)


def shares(folder):
    """Where the time goes that full recording adds: the library's share of the programs' own time."""
    sampler = os.path.join(folder, "libsampler.so")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", sampler, os.path.join(ROOT, "tests/bench/sampler.c")], check=True)
    for program, command, extra in programs(folder):
        print(f"\n{program}\n", flush=True)
        subprocess.run([sys.executable, os.path.join(ROOT, "tests/bench/where.py"), sampler, PRELOAD, "--top=10", "--runs=9",
                        "--way=full", "--", *command], env=dict(os.environ, **extra), check=False)


def instructions(folder):
    """What does not depend on the machine's load. Of a run's end and beginning nothing is left: two lengths are compared."""
    if not shutil.which("valgrind"):
        return
    lengths = (20000, 70000)
    program = pairs_program(folder)
    print("\nInstructions a malloc+free pair by callgrind, one thread (in brackets: added)\n")
    print("| | depth 8 | depth 30 |\n|---|---|---|")
    native = {}
    for name, environment, prefix in ways(folder):
        if prefix or "heaptrack" in name:
            continue
        cells = []
        for depth in (8, 30):
            counts = []
            for pairs in lengths:
                done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(depth), "1",
                                       str(pairs)], env=dict(os.environ, **environment), cwd=folder,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
                counts.append(int(done.stderr.decode().split("Collected :")[1].split()[0]))
            value = (counts[1] - counts[0]) / (lengths[1] - lengths[0])
            native.setdefault(depth, value)
            cells.append(f"{value:.0f} ({value - native[depth]:+.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def stack_nodes(log):
    """Definitions of stack nodes in a log; docs/log-format.md."""
    with open(log, "rb") as file:
        data = file.read()
    (cookie,) = struct.unpack_from("<Q", data, 16)
    nodes = 0
    (offset,) = struct.unpack_from("<Q", data, 32)  # chunks_offset
    while offset + 64 <= len(data):
        magic, size, check, kind = struct.unpack_from("<IIQI", data, offset)
        if magic != 0x4b4e4843 or check != cookie ^ offset:
            offset += 4096
            continue
        at, end = offset + 64, min(offset + size, len(data))
        while kind == 2 and at < end and data[at] != 0:
            nodes += data[at] == 0xc1
            at += 1
            length = shift = 0
            while True:
                length |= (data[at] & 0x7f) << shift
                shift += 7
                at += 1
                if data[at - 1] < 0x80:
                    break
            at += length
        offset += size
    return nodes


def memory_growth(folder):
    if not os.path.exists("/usr/bin/time"):
        return
    print("\nResident memory of the program, largest of a run\n")
    print("| program | native MiB | gpupeak full MiB | stack nodes | growth beyond 2 MiB, bytes a node |")
    print("|---|---|---|---|---|")
    log = os.path.join(folder, "memory.gplog")
    for program, command, extra in programs(folder):
        peaks = []
        for environment in ({}, gpupeak("full", log)):
            # A child of this interpreter would be charged with its memory; the variables are not for `time` itself.
            variables = [f"{name}={value}" for name, value in dict(extra, **environment).items()]
            largest = os.path.join(folder, "largest")
            subprocess.run(["/usr/bin/time", "-f", "%M", "-o", largest, "env", *variables, *command], cwd=folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            with open(largest) as kib:
                peaks.append(int(kib.read().split()[-1]) / 1024)
        nodes = stack_nodes(log)
        beyond = (peaks[1] - peaks[0] - 2) * 2**20 / max(nodes, 1)
        print(f"| {program} | {peaks[0]:.1f} | {peaks[1]:.1f} | {nodes} | {max(beyond, 0):.0f} |", flush=True)


def log_figures(folder):
    print("\nlogs of full runs: size, and the time and memory that `gpupeak report --json` takes\n")
    print("| program | events | bytes an event | million events a second | report's peak RSS MiB |")
    print("|---|---|---|---|---|")
    log = os.path.join(folder, "figures.gplog")
    rows = programs(folder) + [("5 million pairs, depth 8", [pairs_program(folder), "8", "1", "5000000"], {})]
    for program, command, extra in rows:
        run([], dict(extra, **gpupeak("full", log)), command, folder)
        if not os.path.exists(log):
            continue
        bytes_written = os.path.getsize(log)
        report = os.path.join(folder, "report.json")
        measured = subprocess.run(
            [sys.executable, "-c",
             "import os,resource,subprocess,sys,time\n"
             "s=time.perf_counter(); subprocess.run(sys.argv[1:],check=True)\n"
             "print(time.perf_counter()-s, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
             COMMAND, "report", "--json", "-o", report, log],
            stdout=subprocess.PIPE, check=True)
        seconds, rss_kib = (float(v) for v in measured.stdout.decode().split())
        with open(report) as summary:
            events = json.load(summary)["quality"]["events"]
        print(f"| {program} | {events} | {bytes_written / events:.2f} | {events / seconds / 1e6:.1f} | "
              f"{rss_kib / 1024:.0f} |", flush=True)
        os.unlink(log)


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = ""
        with open("/proc/cpuinfo") as cpus:
            model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), "")
        print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} × {model}, Linux {platform.release()}")
        tables = dict(zip(TABLES, (instructions, pair_times, deep_loops, program_times, shares, memory_growth, log_figures)))
        for table in TABLES:
            if table in chosen:
                tables[table](folder)


main()
