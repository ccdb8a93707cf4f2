#!/usr/bin/env python3
"""Two builds of the command say the same of the same logs: every verb that reads logs and every format, byte by byte.

usage: same_output.py GPUPEAK OTHER_GPUPEAK [--sysroot DIR] [--debug-dir DIR]… LOG…
A verb of the command that is named nowhere here is an error. Prints the number of outputs compared; those that differ.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

# What it prints.
PRINTED = [line.split() for line in """
report LOG
report --full --top 100000 LOG
report --json LOG
report --csv LOG
report --short LOG
report --by function LOG
report --by module --bytes LOG
report --confidential --json LOG
metrics LOG
metrics --format jsonl LOG
tree LOG
tree --scope host --json LOG
flame LOG
leaks LOG
leaks --json LOG
temporary LOG
tags LOG
tags --json LOG
phases LOG
phases --json LOG
phases --csv LOG
pools LOG
pools --json LOG
timeline LOG
timeline --json LOG
compare LOG LOG
diff LOG LOG
diff --json LOG LOG
check --max device.peak_bytes=1KiB --allow-no-device --json LOG
fit --gpu T4 LOG
fit --gpu T4 --json LOG
merge LOG
merge --json LOG
dump LOG
top --once LOG
rules
rules pytorch
""".strip().splitlines()]
# What it writes, into OUT.
WRITTEN = [line.split() for line in """
symbolize -q -o OUT LOG
bundle -q -o OUT LOG
compress -q -o OUT LOG
merge --partial OUT LOG
report --html OUT LOG
timeline --svg OUT LOG
check --max device.peak_bytes=1KiB --allow-no-device --junit OUT LOG
tables -q --format ndjson OUT LOG
""".strip().splitlines()]
# Begun by a program that runs, or its logs are.
OF_RUNS = {"run", "mark", "watch", "sweep", "serve"}
WITHOUT_SYMBOLS = {"rules"}


def output_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, done.stderr.replace(os.fsencode(command[0]), b"gpupeak")


def content(path):
    if not os.path.isdir(path):
        return open(path, "rb").read() if os.path.exists(path) else None
    return {os.path.join(folder, name): open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(path) for name in names}


class Comparison:
    def __init__(self, commands, symbols):
        self.commands, self.symbols = commands, symbols
        self.compared = self.differing = 0
        self.refusals = {}  # of each line that has not succeeded yet

    def compare(self, words, log):
        results = []
        for command in self.commands:
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "out")
                line = [log if word == "LOG" else out if word == "OUT" else word for word in words]
                symbols = [] if words[0] in WITHOUT_SYMBOLS else self.symbols
                code, printed, said = output_of([command, *line, *symbols])
                results.append((code, printed.replace(os.fsencode(folder), b""), said.replace(os.fsencode(folder), b""),
                                "OUT" in words and str(content(out)).replace(folder, "")))
        self.compared += 1
        line = " ".join(words)
        if results[0][0] in (0, 1):  # 1: a limit is passed
            self.refusals[line] = None
        else:
            self.refusals.setdefault(line, results[0][2].decode(errors="replace").strip())
        if results[0] != results[1]:
            self.differing += 1
            which = [name for name, a, b in zip(("exit code", "output", "errors", "file"), *results) if a != b]
            print(f"differs: {' '.join(words)} of {os.path.basename(log)}: {', '.join(which)}")


def formats(command):
    text = subprocess.run([command, "export", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"FORMAT:\{(.*?)\}", text).group(1).split(",")


def verbs(command):
    text = subprocess.run([command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"^  (\w+)  ", text.split("Subcommands:")[1].split("Examples:")[0], re.M))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs=2)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--sysroot")
    parser.add_argument("--debug-dir", action="append", default=[])
    options = parser.parse_intermixed_args()
    symbols = ["--sysroot", options.sysroot] if options.sysroot else []
    for folder in options.debug_dir:
        symbols += ["--debug-dir", folder]
    exports = [["export", name, "-o", "OUT", "LOG"] for name in formats(options.commands[0])]
    lines = PRINTED + WRITTEN + exports
    left_out = verbs(options.commands[0]) - OF_RUNS - {words[0] for words in lines}
    if left_out:
        sys.exit(f"not compared: {', '.join(sorted(left_out))}")
    comparison = Comparison(options.commands, symbols)
    for log in options.logs:
        for words in lines:
            if "LOG" in words or log == options.logs[0]:
                comparison.compare(words, log)
    unseen = {line: why for line, why in comparison.refusals.items() if why is not None}
    for line, why in unseen.items():
        print(f"no output of any log: {line}: {why}")
    print(f"{comparison.compared} outputs of {len(options.logs)} logs compared, {comparison.differing} differ")
    without_page = all("built without the page" in why for why in unseen.values())
    sys.exit(1 if comparison.differing or not without_page else 0)


if __name__ == "__main__":
    main()
