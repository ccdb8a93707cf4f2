"""Runs allocations.py in an interpreter under the preload and compares each call site in the log with what Python
itself said: every file, function and line.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
MAX_FRAMES = 256  # GPUPEAK_MAX_FRAMES
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allocations.py")


def identify(python):
    """major.minor and the interpreter itself, behind any wrapper; None if it does not run."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except OSError:
        return None
    return result.stdout.decode().strip().split(" ", 1) if result.returncode == 0 else None


def find_pythons(version):
    """Those named in GPUPEAK_TEST_PYTHONS, a list of paths or patterns between colons, and those on the path."""
    candidates = [path for pattern in os.environ.get("GPUPEAK_TEST_PYTHONS", "").split(":") if pattern
                  for path in sorted(glob.glob(os.path.expanduser(pattern)))]
    candidates += [path for path in (shutil.which("python" + version), "/usr/bin/python3") if path]
    found = {}
    for path in candidates:
        known = identify(path)
        if known and known[0] == version:
            found.setdefault(os.path.realpath(known[1]), known[1])
    return list(found.values())


class Log:
    """What `gpupeak dump` says."""

    def __init__(self, tool, path):
        self.frames, self.nodes, self.sites = {}, {}, {}
        text = subprocess.run([tool, "dump", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        for line in text.splitlines():
            words = line.split(" ")
            if words[0] == "python_frame":
                function, place = re.fullmatch(r"python_frame \d+ (\S+) (.*)", line).groups()
                file, _, number = place.rpartition(":")
                self.frames[words[1]] = [file, function, int(number)]
            elif words[0] == "node":
                self.nodes[words[1]] = (words[3], words[5] if words[4] == "python_frame" else None, words[-1])
            elif " device_alloc " in line:
                match = re.search(r" bytes (\d+) .* stack (\d+) ", line)
                self.sites[int(match.group(1))] = match.group(2)
        self.text = text

    def stack(self, size):
        """Nodes, innermost first."""
        node = self.sites.get(size)
        while node not in (None, "0"):
            yield self.nodes[node]
            node = self.nodes[node][0]

    def python_frames(self, size):
        return [self.frames[frame] for _, frame, _ in self.stack(size) if frame is not None]


def shown(text):
    """As the tool escapes what is no printable UTF-8."""
    raw = text.encode("utf-8", "surrogateescape")[:1024]
    return "".join(c if not 0xdc80 <= ord(c) <= 0xdcff else "\\x%02x" % (ord(c) - 0xdc00)
                   for c in raw.decode("utf-8", "surrogateescape"))


def check(options, python):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        expected_path = os.path.join(folder, "expected.json")
        environment = dict(os.environ, LD_LIBRARY_PATH=options.driver, LD_PRELOAD=options.preload,
                           GPUPEAK_OUT=os.path.join(folder, "%p.gplog"), GPUPEAK_SUMMARY="off",
                           PYTHONDONTWRITEBYTECODE="1")
        environment.pop("GPUPEAK_PYTHON", None)
        command = [python, CLIENT, expected_path]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=250, check=False)
        if result.returncode != 0:
            return [f"{python}: exit code {result.returncode}\n{result.stdout.decode(errors='replace')[-3000:]}"]
        logs = {path: Log(options.tool, path) for path in glob.glob(os.path.join(folder, "*.gplog"))}
        by_pid = {os.path.basename(path).split(".")[0]: (path, log) for path, log in logs.items()}
        counts = collections.Counter()
        with open(expected_path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                entry = json.loads(line)
                path, log = by_pid[str(entry["pid"])]
                counts[entry["case"]] += 1
                frames = [[shown(name), shown(function), number] for name, function, number in entry["frames"]]
                found = log.python_frames(entry["size"])
                if len(frames) > MAX_FRAMES:
                    frames = frames[:MAX_FRAMES]
                if found != frames and len(problems) < 10:
                    problems.append(f"{entry['case']} ({entry['size']} bytes):\n  Python {frames}\n  log    {found}")
                problems += check_places(log, entry)
        for path, log in logs.items():
            problems += check_report(options, path)
        print(f"{python}: {sum(counts.values())} call sites in {len(counts)} cases compared")
    return problems[:10]


def check_places(log, entry):
    """Python frames lie between native ones: those of the interpreter that run them, and the driver's caller."""
    stack = list(log.stack(entry["size"]))
    if not stack or stack[0][1] is not None or stack[-1][1] is not None and len(entry["frames"]) < 100:
        return [f"{entry['case']}: Python frames are not between native ones"]
    return []


def check_report(options, path):
    """By symbols: what runs a Python frame is the evaluation function."""
    text = subprocess.run([options.tool, "report", "--json", "--top", "1000", path], stdout=subprocess.PIPE,
                          check=True).stdout
    summary = json.loads(text)
    problems = [f"{path}: {warning}" for warning in summary["quality"]["warnings"]
                if warning["code"] in ("GP040", "GP041")]
    seen = 0
    for peak in summary["peaks"]:
        for holder in peak["holders"]:
            stack = holder.get("stack", [])
            # Of functions inlined into each other the outermost.
            physical = [frame for frame, outer in zip(stack, stack[1:] + [{}])
                        if frame.get("language") == "python" or frame["address"] != outer.get("address")]
            for frame, outer in zip(physical, physical[1:]):
                if frame.get("language") != "python" or outer.get("language") == "python":
                    continue
                seen += 1
                name = outer["function"] or ""
                if name and not name.startswith("_PyEval_EvalFrame"):
                    problems.append(f"{frame['function']}:{frame['line']} is said to be run by {name}")
    if seen == 0:
        problems.append(f"{path}: no Python frame in the report's stacks")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True, help="libgpupeak.so")
    parser.add_argument("--tool", required=True, help="gpupeak")
    parser.add_argument("--driver", required=True, help="the folder of the simulated libcuda.so.1")
    parser.add_argument("--version", required=True, help="of Python: major.minor")
    options = parser.parse_args()
    pythons = find_pythons(options.version)
    if not pythons:
        print(f"skipped: no Python {options.version} here; name one in GPUPEAK_TEST_PYTHONS")
        sys.exit(SKIPPED)
    problems = [problem for python in pythons for problem in check(options, python)]
    if problems:
        sys.exit("\n".join(problems))


main()
