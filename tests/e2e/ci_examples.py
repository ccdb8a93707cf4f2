"""The examples of continuous integration, run for real: the workflow's own steps in a project that has what they name, the
CTest module in a project that includes it, the pytest file by pytest. Each passes, and fails once the benchmark needs more.

usage: ci_examples.py LIBGPUPEAK GPUPEAK workflow|ctest|pytest CMAKE
Exit code 77: what reads the example is not here.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, environment, expect, run_checks

CASE, CMAKE = sys.argv[3:5]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/ci")
MIB = 1 << 20

BENCHMARK = """#include <cstdlib>
#include <cstring>
int main() { void* p = malloc(BYTES); memset(p, 1, BYTES); const int last = static_cast<char*>(p)[BYTES - 1]; free(p); return last - 1; }
"""
PROJECT = """cmake_minimum_required(VERSION 3.20)
project(bench CXX)
enable_testing()
add_executable(my_benchmark bench.cc)
target_compile_definitions(my_benchmark PRIVATE BYTES=${MEBIBYTES}*1048576)
"""
PRESETS = """{"version": 3, "configurePresets": [{"name": "release", "generator": "Unix Makefiles",
  "binaryDir": "${sourceDir}/build/release", "cacheVariables": {"MEBIBYTES": "$env{MEBIBYTES}"}}],
  "buildPresets": [{"name": "release", "configurePreset": "release"}]}"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def ci_environment(folder, **more):
    path = os.path.dirname(GPUPEAK) + ":" + os.path.dirname(CMAKE) + ":" + os.environ["PATH"]
    # The project's generator is not a part of the example, and a machine with ninja need not have make.
    generator = {"CMAKE_GENERATOR": "Ninja"} if shutil.which("ninja") else {}
    return {**environment(folder, False), **generator, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def sh(command, folder, code=0, **more):
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=ci_environment(folder, **more),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    expect((done.returncode == 0) == (code == 0), f"{command} gives {done.returncode}: {done.stdout.decode()[-3000:]}")
    return done.stdout.decode()


def make_project(folder, more=""):
    write(folder, "bench.cc", BENCHMARK)
    write(folder, "CMakeLists.txt", PROJECT + more)
    write(folder, "CMakePresets.json", PRESETS)


def workflow(folder):
    try:
        import yaml
    except ImportError:
        raise Skipped("no PyYAML here") from None
    with open(os.path.join(EXAMPLES, "github-workflow.yml"), encoding="utf-8") as file:
        data = yaml.safe_load(file)
    expect(data[True] == ["pull_request"], f"on: {data[True]}")  # YAML 1.1 reads `on` as true
    (job,) = data["jobs"].values()
    expect(job["runs-on"], "the job runs on nothing")
    steps = job["steps"]
    for step in steps:
        expect(("run" in step) != ("uses" in step), f"a step runs or uses: {step}")
        expect("uses" not in step or step["uses"].startswith("actions/"), f"an action of others: {step}")
    make_project(folder)
    # The gate is on device memory, but this program has none: host memory takes its place, with the same commands.
    commands = [step["run"].replace("device.peak_bytes", "host.peak_bytes") for step in steps if "run" in step]
    expect(len(commands) == 3, f"build, run, compare: {commands}")
    summary = os.path.join(folder, "summary.md")
    sh(commands[0], folder, MEBIBYTES="20")
    sh(commands[1], folder)
    os.makedirs(os.path.join(folder, "benchmarks"))
    with open(os.path.join(EXAMPLES, "github-workflow.yml"), encoding="utf-8") as file:
        renew = next(line.strip("# \n") for line in file if "gpupeak report --json" in line)
    sh(renew, folder)  # the command in the comment at its head
    sh(commands[2], folder, GITHUB_STEP_SUMMARY=summary)
    sh(commands[0], folder, MEBIBYTES="30")
    sh(commands[1], folder)
    said = sh(commands[2], folder, code=1, GITHUB_STEP_SUMMARY=summary)
    expect("FAIL  host.peak_bytes went from" in said and "+10.0 MiB" in said, said)
    with open(summary, encoding="utf-8") as file:
        text = file.read()
    expect(text.count("### ") == 2 and "❌" in text, text)
    (uploads,) = [step["with"]["path"].split() for step in steps if "upload-artifact" in step.get("uses", "")]
    expect(all(os.path.exists(os.path.join(folder, name)) for name in uploads), f"{uploads} are not all there")


def ctest(folder):
    make_project(folder, f"include({EXAMPLES}/ctest.cmake)\n"
                 "gpupeak_add_test(NAME bench.peak MAX host.peak_bytes=25MiB host.kind.heap.alloc_count=1000 COMMAND my_benchmark)\n")
    test = "ctest --test-dir build/release --output-on-failure"
    build = "cmake --preset release && cmake --build --preset release"
    sh(build, folder, MEBIBYTES="20")
    said = sh(test, folder)
    expect("bench.peak.run" in said and "100% tests passed" in said, said)
    sh(build, folder, MEBIBYTES="30")
    said = sh(test, folder, code=1)
    expect("FAIL  host.peak_bytes is 30." in said, said)


def pytest(folder):
    if subprocess.run([sys.executable, "-c", "import pytest"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no pytest here")
    example = shutil.copy(os.path.join(EXAMPLES, "test_peak_memory.py"), folder)
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider {example}"
    expect("1 passed" in sh(command, folder), "pytest did not run it")
    with open(example, encoding="utf-8") as file:
        text = file.read()
    expect("50_000_000" in text, "the example has another size")
    write(folder, os.path.basename(example), text.replace("50_000_000", "150_000_000"))
    expect("over the limit of 100 MiB" in sh(command, folder, code=1), "pytest does not show why")


def main():
    with tempfile.TemporaryDirectory() as work:
        {"workflow": workflow, "ctest": ctest, "pytest": pytest}[CASE](work)


run_checks(main)
