#!/usr/bin/env python3
"""Marks from outside, and lines of the program's output as phases.

usage: outside.py LIBGPUPEAK GPUPEAK CASE
"""
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, environment, expect, expect_nothing_dropped, logs, report, run_checks

CASE = sys.argv[3]
# Allocates all the time, so that the log grows while others append to it.
BUSY = """
import sys, threading
print("ready", flush=True)
stop = threading.Event()
def work():
    while not stop.is_set():
        for i in range(1000): bytearray(5000 + i)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
sys.stdin.read()
stop.set()
for t in threads: t.join()
"""
# Writes to both streams, in pieces of lines, with bytes of every value.
SPEAKER = r"""
import os, sys, time
out, err = sys.stdout.buffer, sys.stderr.buffer
def say(stream, data):
    stream.write(data); stream.flush(); time.sleep(0.8)  # for whoever reads to see it
print("terminal" if os.isatty(1) else "no terminal", "terminal" if os.isatty(2) else "no terminal", flush=True)
keep = []
say(out, b"Session cre"); say(out, b"ation time: 1 s\r\nmore\n")
keep.append(bytearray(3_000_000))
say(err, b"First inference\n")
block = bytearray(9_000_000); del block
say(out, bytes(range(32, 256)) + b"\0\n progress 10%\r progress 20%\r")
say(out, b"Session creation again, without an end")
sys.exit(7)
"""


def gpupeak(*arguments, **more):
    return subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)


def start(folder, preload=True):
    env = dict(environment(folder, preload), PYTHONMALLOC="malloc")
    program = subprocess.Popen([sys.executable, "-c", BUSY], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    program.stdout.readline()
    return program


def names(summary):
    return sorted(mark["name"] for mark in summary["marks"])


def sound(summary):
    expect_nothing_dropped(summary)
    codes = [w["code"] for w in summary["quality"]["warnings"]]
    expect("GP028" not in codes, f"events contradict each other: {summary['quality']['warnings']}")


def case_marks(folder):
    """Sixty marks into a log that grows, twenty at a time. Each of them is in the log at the end."""
    program = start(folder)
    for i in range(3):
        marks = [subprocess.Popen([GPUPEAK, "mark", str(program.pid), f"mark {i}.{k}"]) for k in range(20)]
        for mark in marks:
            expect(mark.wait() == 0, "mark failed")
        time.sleep(0.1)
    live = report(logs(folder)[0])  # while it is written
    expect(len(live["marks"]) == 60, f"{len(live['marks'])} marks of 60 in the live log")
    program.communicate(b"")
    expect(program.returncode == 0, f"the program ended with {program.returncode}")
    summary = report(logs(folder)[0])
    sound(summary)
    expect(summary["quality"]["log_complete"], "the log is not complete")
    expect(names(summary) == sorted(f"mark {i}.{k}" for i in range(3) for k in range(20)), f"marks {names(summary)}")
    for mark in summary["marks"]:
        expect(mark["source"] == "mark" and mark["thread_id"] is None, f"{mark}")
        expect(0 < mark["time_ns"] <= summary["run"]["duration_ns"], f"time of {mark}")
        expect(mark["host_bytes"] > 0, f"{mark}")


def case_killed(folder):
    program = start(folder)
    expect(gpupeak("mark", logs(folder)[0], "by the log's name").returncode == 0, "mark by name")
    expect(gpupeak("mark", str(program.pid), "größer\n\x1b[31m").returncode == 0, "mark by pid")
    program.send_signal(signal.SIGKILL)
    program.wait()
    summary = report(logs(folder)[0])
    expect([m["name"][:6] for m in summary["marks"]] == ["by the", "größer"], f"marks {names(summary)}")
    expect("\x1b" not in summary["marks"][1]["name"], "the name is not sanitised")


def case_refused(folder):
    other = os.path.join(folder, "other.txt")
    with open(other, "w", encoding="ascii") as file:
        file.write("not a log\n" * 1000)
    for target, code, word in (("999999999", 2, "no process"), ("4194304", 2, "no process"), (str(os.getpid()), 2, "no log"),
                               (os.path.join(folder, "none"), 3, "none"), (other, 3, "not a log")):
        done = gpupeak("mark", target, "x")
        expect(done.returncode == code, f"mark {target} gives {done.returncode}: {done.stderr}")
        expect(word in done.stderr.decode(), f"mark {target} says {done.stderr}")
    expect(gpupeak("mark", "1").returncode == 2, "without a name")


def on_terminal(command, env):
    """What a person sees on a terminal, and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


PHASES = ("--phase-on-output", "Session creation", "--phase-on-output", "infer=First inference")


def check_phases(summary):
    phases = {p["name"]: p for p in summary["phases"] if p["source"] == "mark"}
    expect(set(phases) == {"Session creation", "infer"}, f"phases {list(phases)}")
    peak = phases["infer"]["metrics"]["host.peak_bytes"]
    expect(12_000_000 <= peak < 20_000_000, f"the peak of infer is {peak}")
    expect(phases["Session creation"]["metrics"]["host.peak_bytes"] < 8_000_000, f"{phases['Session creation']}")
    exit_phase = next(p for p in summary["phases"] if p["name"] == "exit")
    expect(exit_phase["parent"] is None, f"{exit_phase}")


def case_output(folder):
    command = [sys.executable, "-c", SPEAKER]
    env = environment(folder, False)
    run = [GPUPEAK, "run", "-q", "-o", os.path.join(folder, "a.gplog"), *PHASES, "--", *command]
    native = subprocess.run(command, env=env, capture_output=True, check=False)
    ours = subprocess.run(run, env=env, capture_output=True, check=False)
    for what in ("returncode", "stdout", "stderr"):
        a, b = getattr(native, what), getattr(ours, what)
        expect(a == b, f"{what} differs: {a!r} without, {b!r} with gpupeak")
    summary = report(logs(folder)[0])
    sound(summary)
    check_phases(summary)
    together = [subprocess.run(c, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout for c in (command, run)]
    expect(together[0] == together[1], f"the order differs: {together}")


def case_terminal(folder):
    command = [sys.executable, "-c", SPEAKER]
    env = environment(folder, False)
    native = on_terminal(command, env)
    ours = on_terminal([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "a.gplog"), *PHASES, "--", *command], env)
    expect(b"terminal terminal" in native[0], f"{native}")
    expect(native == ours, f"differs: {native} without, {ours} with gpupeak")
    check_phases(report(logs(folder)[0]))


def case_reader_gone(folder):
    """`gpupeak run … | head`: the program gets its SIGPIPE, and its end is in the log."""
    log = os.path.join(folder, "a.gplog")
    line = f"{GPUPEAK} run -q -o {log} --phase-on-output y -- yes | head -1000 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(folder, False), capture_output=True, timeout=60, check=False)
    expect(done.stdout.split() == [b"1000", str(128 + signal.SIGPIPE).encode()], f"{done}")
    summary = report(log)
    expect(summary["run"]["exit"] == {"kind": "signal", "code": int(signal.SIGPIPE), "signal": "SIGPIPE"}, f"{summary['run']['exit']}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
