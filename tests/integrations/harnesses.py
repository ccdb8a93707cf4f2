"""The snippets of examples/harnesses, each in its harness: hyperfine's export, pytest-benchmark's JSON, Catch2's listener, asv's functions (asv
itself has no package). The sizes are known.

usage: harnesses.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER SOURCE hyperfine|pytest_benchmark|asv|catch2 [CATCH2_PROGRAM]
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402

DRIVER, SOURCE, CASE = sys.argv[3:6]
EXAMPLES = os.path.join(SOURCE, "examples/harnesses")
MIB = 1 << 20


def run(command, folder, **more):
    env = {**environment(folder, False), "PYTHONPATH": os.path.join(SOURCE, "tools/python"), "LD_LIBRARY_PATH": DRIVER, "GPUPEAK_COMMAND": GPUPEAK,
           "PATH": os.path.dirname(GPUPEAK) + ":" + os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
    return done


def hyperfine(folder):
    if shutil.which("hyperfine") is None:
        raise Skipped("no hyperfine (Debian: hyperfine)")
    commands = [f"{sys.executable} -c 'bytearray({size} << 20)'" for size in (20, 60)] + ["true && true"]
    run(["hyperfine", "--runs", "2", "--warmup", "0", "--export-json", "bench.json", *commands], folder)
    joined = json.loads(run([sys.executable, os.path.join(EXAMPLES, "hyperfine_memory.py"), "bench.json"], folder).stdout)
    peaks = [result["memory"]["host.peak_bytes"] for result in joined["results"]]
    expect(peaks.pop() is None, "a line for a shell has the shell's figures")
    expect(39 * MIB < peaks[1] - peaks[0] < 41 * MIB and all("mean" in result for result in joined["results"]), f"{joined}")


def pytest_benchmark(folder):
    if importlib.util.find_spec("pytest_benchmark") is None:
        raise Skipped("no pytest-benchmark (Debian: python3-pytest-benchmark)")
    shutil.copy(os.path.join(EXAMPLES, "benchmark_memory.py"), os.path.join(folder, "conftest.py"))
    with open(os.path.join(folder, "test_it.py"), "w", encoding="utf-8") as file:
        file.write("def work():\n    data = bytearray(30 << 20)  # freed at its end: a result the harness would keep\n"
                   "def test_it(benchmark, memory):\n    benchmark.pedantic(work, rounds=3)\n")
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--benchmark-json", "bench.json"]
    for command, recorded in ((pytest, False), ([GPUPEAK, "run", "-q", "-o", "x.gplog", "--", *pytest], True)):
        run(command, folder)
        with open(os.path.join(folder, "bench.json"), encoding="utf-8") as file:
            (entry,) = json.load(file)["benchmarks"]
        added = entry["extra_info"].get("host.heap added_bytes")
        expect((30 * MIB <= added < 32 * MIB) if recorded else added is None, f"{entry['extra_info']}")


def asv(folder):
    text = """
import json, sys
sys.path.insert(0, sys.argv[1])
from asv_memory import peak_of
def work():
    data = bytearray(30 << 20)
print(json.dumps([peak_of(work, "host.heap"), peak_of(work, "host.heap", own=False), peak_of(work, "device:0")]))
"""
    own, whole, device = json.loads(run([GPUPEAK, "run", "-q", "-o", "x.gplog", "--", sys.executable, "-c", text, EXAMPLES], folder).stdout)
    expect(30 * MIB <= own < 31 * MIB and whole > own and device == 0, f"{own} {whole} {device}")
    expect(run([sys.executable, "-c", text, EXAMPLES], folder).stdout == "[NaN, NaN, NaN]\n", "a figure without a recording")


def catch2(folder):
    program = sys.argv[6]
    done = run([program, "--reporter", "compact"], folder)
    expect("peak of" not in done.stderr, done.stderr)
    done = run([GPUPEAK, "run", "-q", "-o", "x.gplog", "--", program, "--reporter", "compact"], folder)
    found = [line for line in done.stderr.splitlines() if line.startswith("allocates: peak of host.heap: ")]
    expect(len(found) == 1 and 20 * MIB <= int(found[0].split()[-2]) < 22 * MIB, done.stderr)
    phases = json.loads(run([GPUPEAK, "report", "--json", "x.gplog"], folder).stdout)["phases"]
    expect({"allocates", "allocates little"} <= {phase["name"] for phase in phases}, f"{[p['name'] for p in phases]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"hyperfine": hyperfine, "pytest_benchmark": pytest_benchmark, "asv": asv, "catch2": catch2}[CASE](folder)


run_checks(main)
