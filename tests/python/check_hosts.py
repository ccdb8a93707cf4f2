"""Programs around an interpreter, or what looks like one: they must behave as without the preload, and what the log
says of Python must be true, or be said to be missing.
"""
import argparse
import glob
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

from python_log import (HERE, SKIPPED, Log, add_common_options, counters_of, environment_of, expected_frames, find_pythons)

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
KNOWN_VERSIONS = ("030911f0", "030a0df0", "030b02f0", "030c01f0")
PUBLISHING_VERSIONS = ("030d00f0", "030e00f0")
# Why Python frames are off: versions that are not known, and builds of known ones.
NOT_READ = (("030f00f0", "loop", "version is not known"), ("03080ff0", "loop", "version is not known"),
            ("030c00a1", "loop", "is no release"), ("0", "loop", "version cannot be told"),
            ("030d00f0", "free_threaded", "free-threaded"), ("030e00f0", "free_threaded", "free-threaded"))
STRUCTURES = ("null", "wild", "edge", "zero", "loop", "frames", "codes", "entries")
FALSE_PROGRAMS = ([(version, structure, "") for version in KNOWN_VERSIONS for structure in STRUCTURES] +
                  [(version, structure, "published offsets") for version in PUBLISHING_VERSIONS
                   for structure in ("loop", "offsets")] + list(NOT_READ))


class Problem(Exception):
    pass


def run_both(options, command, folder, environment=None):
    """With and without the preload; the logs' paths and the output."""
    results = []
    for preload in (False, True):
        variables = environment_of(options, folder, preload)
        variables.update(environment or {})
        results.append(subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      timeout=120, check=False))
    alone, hooked = results
    if (alone.returncode, alone.stdout) != (hooked.returncode, hooked.stdout):
        raise Problem(f"{command}: exit code {hooked.returncode}, {hooked.stdout!r} with the preload; "
                      f"{alone.returncode}, {alone.stdout!r} without")
    if hooked.returncode == SKIPPED:
        sys.exit(SKIPPED)
    if hooked.returncode != 0:
        raise Problem(f"{command}: exit code {hooked.returncode}, {hooked.stdout!r}")
    return glob.glob(os.path.join(folder, "*.gplog"))


def summary_of(options, path):
    text = subprocess.run([options.tool, "report", "--json", path], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text)


def warnings_of(options, path):
    return {warning["code"]: warning["message"] for warning in summary_of(options, path)["quality"]["warnings"]}


def false_runtime(options):
    """Nothing found in such a program may be taken for Python, and each allocation is counted all the same."""
    for version, structure, reason in FALSE_PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            (path,) = run_both(options, [options.program, version, structure], folder)
            log = Log(options.tool, path)
            if sorted(log.sites) != [i * 1000 for i in range(1, 21)]:
                raise Problem(f"{version} {structure}: allocations {sorted(log.sites)}")
            if log.frames:
                raise Problem(f"{version} {structure}: Python frames {log.frames}")
            warnings = warnings_of(options, path)
            if "GP040" not in warnings or reason not in warnings["GP040"]:
                raise Problem(f"{version} {structure}: not said that there are no Python frames, or why: {warnings}")
    print(f"{len(FALSE_PROGRAMS)} false interpreters")


def stand_in(options):
    """Of an interpreter whose frames the program writes itself: whatever word has changed, each stack is what stands there."""
    for version in ("030b02f0", "030c01f0"):
        for verify in "01":
            with tempfile.TemporaryDirectory() as folder:
                variables = dict(environment_of(options, folder), GPUPEAK_HOST="off", GPUPEAK_VERIFY_STACKS=verify)
                said = subprocess.run([options.program, version], env=variables, stdout=subprocess.PIPE, check=True, timeout=60,
                                      text=True).stdout
                (path,) = glob.glob(os.path.join(folder, "*.gplog"))
                log = Log(options.tool, path)
                for line in said.splitlines():
                    size, what, frames = re.fullmatch(r"(\d+) (.*?):((?: \S+)*)", line).groups()
                    expected = [[file, function, int(number)] for file, function, number in re.findall(r" (\S+)!(\S+):(\d+)", frames)]
                    if log.python_frames(int(size)) != expected:
                        raise Problem(f"{version}, {what} ({size} bytes): {log.python_frames(int(size))}, not {expected}")
                counters = counters_of(path)
                if counters["wrong_stacks"] != 0 or (verify == "1") != (counters["verified_stacks"] > 0):
                    raise Problem(f"{version}: {counters['wrong_stacks']} stacks wrong, {counters['verified_stacks']} right")
            print(f"{version}, verify {verify}: {len(said.splitlines())} stacks")


def library_of(python):
    """The shared library of an interpreter's version, or None."""
    code = ("import sysconfig as s, os; g = s.get_config_var; "
            "print(os.path.join(g('LIBDIR'), g('INSTSONAME') or '')); "
            "print(os.path.join(g('LIBDIR'), g('MULTIARCH') or '', 'libpython%s.so.1.0' % g('LDVERSION')))")
    lines = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    return next((line for line in lines if ".so" in line and os.path.exists(line)), None)


def embedded(options):
    compared = 0
    for version in VERSIONS:
        for python in find_pythons(version):
            library = library_of(python)
            if library is None:
                continue
            prefix = subprocess.run([python, "-c", "import sys; print(sys.base_prefix)"], stdout=subprocess.PIPE,
                                    check=True).stdout.decode().strip()
            with tempfile.TemporaryDirectory() as folder:
                expected = os.path.join(folder, "expected.json")
                variables = environment_of(options, folder)
                variables["PYTHONHOME"] = prefix
                open(expected, "w", encoding="ascii").close()
                command = [options.program, library, expected, os.path.join(HERE, "embedded.py")]
                result = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        timeout=120, check=False)
                if result.returncode != 0 or result.stdout != b"done\n":
                    raise Problem(f"{library}: exit code {result.returncode}, {result.stdout!r}")
                (path,) = glob.glob(os.path.join(folder, "*.gplog"))
                log = Log(options.tool, path)
                check_embedded(log, expected, version, library)
                compared += 1
    if compared == 0:
        print("skipped: no interpreter here has a shared library")
        sys.exit(SKIPPED)
    print(f"{compared} embedded interpreters")


def check_embedded(log, expected, version, library):
    for size in range(101, 107):
        if log.python_frames(size):
            raise Problem(f"{library}: {size} bytes, allocated outside of Python, have {log.python_frames(size)}")
    cases = set()
    with open(expected, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            cases.add(entry["case"])
            frames, found = expected_frames(entry), log.python_frames(entry["size"])
            if entry["case"] == "subinterpreter":
                # The log also has those that called it, which Python does not show.
                frames = [] if version == "3.9" else frames + [["<string>", "<module>", 1]]
            if found != frames:
                raise Problem(f"{library}, {entry['case']}:\n  Python {frames}\n  log    {found}")
    if cases != {"embedded", "called back", "subinterpreter", "adopted thread"}:
        raise Problem(f"{library}: only {cases}")


def finalise(options):
    """Threads' states are freed under them while they allocate."""
    count = 0
    for version in VERSIONS:
        for python in find_pythons(version):
            for i in range(3):
                with tempfile.TemporaryDirectory() as folder:
                    command = [python, os.path.join(HERE, "finalise.py"), options.program, str(0.01 + 0.026 * i)]
                    (path,) = run_both(options, command, folder)
                    if "GP040" in warnings_of(options, path):
                        raise Problem(f"{python}: {warnings_of(options, path)}")
                    if not any("recurse" in frame for frame in Log(options.tool, path).frames.values()):
                        raise Problem(f"{python}: no Python frames")
                    count += 1
    print(f"{count} interpreters ended")
    if count == 0:
        sys.exit(SKIPPED)


def forbidden(options):
    """Where the kernel may not copy, and where Python frames are not wanted."""
    for variables, message in (({}, "process_vm_writev"), ({"GPUPEAK_PYTHON": "off"}, None)):
        with tempfile.TemporaryDirectory() as folder:
            command = [options.program, "/usr/bin/python3", os.path.join(HERE, "allocations.py"),
                       os.path.join(folder, "expected.json")]
            logs = run_both(options, command, folder, variables)
            for path in logs:
                warnings = warnings_of(options, path)
                if message is None and ("GP040" in warnings or "GP041" in warnings):
                    raise Problem(f"switched off, but {warnings}")
                if message is not None and Log(options.tool, path).sites and message not in warnings.get("GP040", ""):
                    raise Problem(f"{message} is not in {warnings}")
                if Log(options.tool, path).frames:
                    raise Problem("Python frames nevertheless")
            if not logs:
                raise Problem("no log")


def lines(options):
    """Each instruction's line, of the interpreters' own libraries."""
    count = 0
    for version in VERSIONS:
        for python in find_pythons(version):
            with subprocess.Popen([python, os.path.join(HERE, "line_tables.py")], stdout=subprocess.PIPE) as writer:
                result = subprocess.run([options.program], stdin=writer.stdout, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, check=False)
            print(f"{python}: {result.stdout.decode().strip()}")
            if result.returncode != 0 or writer.returncode != 0:
                raise Problem(result.stderr.decode())
            count += 1
    if count == 0:
        sys.exit(SKIPPED)


LONG_FUNCTION = """
source = "def f():\\n  near = bytearray(300_001)\\n" + "  x = 1\\n" * 40_000 + "  for _ in range(10_000):\\n    far = bytearray(300_002)\\n"
exec(compile(source, "long.py", "exec"))
f()
"""


def long_function(options):
    """A function with two hundred kilobytes of lines: a call at its end has none, and costs what others cost."""
    count = 0
    for version in VERSIONS[2:]:  # before, tables are half as long
        for python in find_pythons(version)[:1]:
            with tempfile.TemporaryDirectory() as folder:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                (path,) = run_both(options, [python, "-c", LONG_FUNCTION], folder, {"GPUPEAK_HOST": "sampled"})
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                log = Log(options.tool, path)
                near, far = (next(iter(log.python_frames(size)), None) for size in (300_002, 300_003))
                if (near, far) != (["long.py", "f", 2], ["long.py", "f", 0]):
                    raise Problem(f"{python}: {near}, {far}")
                seconds = after.ru_utime - before.ru_utime
                if seconds > 5:  # about 1; where each call looks for its line, 8 and more
                    raise Problem(f"{python}: {seconds} s")
                count += 1
    if count == 0:
        sys.exit(SKIPPED)


def main():
    parser = argparse.ArgumentParser()
    add_common_options(parser)
    parser.add_argument("--program", help="the host program or library")
    parser.add_argument("test", choices=("false_runtime", "stand_in", "embedded", "finalise", "forbidden", "lines", "long_function"))
    options = parser.parse_args()
    try:
        globals()[options.test](options)
    except Problem as problem:
        sys.exit(str(problem))


main()
