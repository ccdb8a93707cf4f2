#!/usr/bin/env python3
"""`gpupeak top`: one frame as text, and the live screen in a pseudo-terminal.

usage: top.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER once|list|attached|screen|folder|gone
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from common import GPUPEAK, Skipped, expect, gpupeak, record, run_checks
from stepped_program import SteppedProgram

DRIVER, CASE = sys.argv[3:5]
CONTROL = re.compile(r"\x1b\[[0-9;?>]*[a-zA-Z]|\x1b[()][0-9A-B]|\x1b[=>]|\x0f|\x0e")


def frame(*arguments):
    done = subprocess.run([GPUPEAK, "top", "--once", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    expect(done.returncode == 0, f"{arguments}: {done.returncode}: {done.stderr}")
    return done.stdout


def line_of(text, begin):
    for line in text.splitlines():
        if line.startswith(begin):
            return line
    raise AssertionError(f"no line {begin!r} in:\n{text}")


class Screen:
    """A terminal for `top`. Its content is known after a redraw of the whole screen."""

    def __init__(self, *arguments, columns=110):
        self.ours, self.theirs = pty.openpty()
        self.rows, self.columns = 40, columns
        self.resize()
        self.before = termios.tcgetattr(self.theirs)
        self.child = subprocess.Popen([GPUPEAK, "top", "--every", "0.2", *arguments], stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
                                      env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        self.data = b""

    def resize(self):
        self.rows = 81 - self.rows  # from 40 rows to 41 and back
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def read(self, seconds):
        until = time.monotonic() + seconds  # `top` writes all the time
        while (left := until - time.monotonic()) > 0 and select.select([self.ours], [], [], left)[0]:
            try:
                piece = os.read(self.ours, 65536)
            except OSError:
                return
            if not piece:
                return
            self.data += piece

    def shown(self):
        """The screen's text, drawn anew; lines run together."""
        self.read(0.05)
        self.data = b""
        self.resize()
        self.child.send_signal(signal.SIGWINCH)
        self.read(0.4)
        return CONTROL.sub(" ", self.data.decode(errors="replace"))

    def wait_for(self, *texts, without=()):
        deadline = time.monotonic() + 30
        while True:
            found = self.shown()
            if all(text in found for text in texts) and not any(text in found for text in without):
                return found
            if "is not in this build" in found:
                raise Skipped("built without ncurses")
            expect(self.child.poll() is None, f"it has ended: {found}")
            if time.monotonic() >= deadline:
                self.child.kill()
            expect(time.monotonic() < deadline, f"not {texts} without {without}, but: {found[:2000]}")

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def end(self):
        """Waits for the end. Returns the last output; the terminal must be as it was."""
        deadline = time.monotonic() + 60
        while self.child.poll() is None:
            self.read(0.1)
            expect(time.monotonic() < deadline, "it does not end")
        self.read(0.1)
        expect(self.child.returncode == 0, f"exit code {self.child.returncode}")
        expect(termios.tcgetattr(self.theirs) == self.before, "the terminal is not as it was")
        text = self.data.decode(errors="replace")
        os.close(self.theirs)
        os.close(self.ours)
        expect("\x1b[?1049l" in text, "the screen was not given back")
        return CONTROL.sub("", text.split("\x1b[?1049l")[-1])


def once():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        program = SteppedProgram(log, DRIVER)
        program.step("200")
        program.step("free")
        program.step("150")
        program.step("host 30")
        for target in (log, program.pid):
            text = frame(target)
            expect(re.search(r"pid %d  running .* events/s" % program.process.pid, text), text)
            expect("150 MiB of 80.0 GiB, peak 200 MiB" in line_of(text, "GPU 0"), text)
            expect("linear 150 MiB (peak 200 MiB)" in text, text)
            expect(re.search(r"heap 3\d\.\d MiB, peak 3\d\.\d MiB", line_of(text, "host")), text)
            expect("who holds it" in line_of(text, "holders"), text)
            expect(re.search(r"^ +150 MiB +1  device\.linear", text, re.M) and re.search(r"^ +30\.0 MiB +\d+  host\.heap", text, re.M), text)
            expect("main" in line_of(text, "phase"), text)
            expect("tracked" in line_of(text, "  ledger"), text)
        text = frame("--filter", "device.linear", log)
        expect("device.linear" in text and "host.heap" not in text and "filter: device.linear" in text, text)
        expect("157 286 400" not in frame(log) and "157286400" in frame("--bytes", log), "--bytes")
        # The program grows: `top` says how fast, and when the card would be full.
        for _ in range(14):
            program.step("500")
            time.sleep(0.6)
        text = line_of(frame(log), "GPU 0")
        expect(re.search(r"· \+[\d.]+ .iB/s · full in \d", text), text)
        program.kill()
        text = frame(log)
        expect("killed" in text and "/s" not in text.split("log ")[0] and "full in" not in text, text)
        expect("who held it at the peak" in text, text)
        # A figure that was not measured is not shown as 0.
        off = os.path.join(folder, "off.gplog")
        program = SteppedProgram(off, DRIVER, GPUPEAK_HOST="off")
        text = frame(off)
        expect("not measured" in line_of(text, "host") and "gpupeak view" not in text, text)
        program.end()
        expect(frame(off).endswith(f"\n  to walk in it: gpupeak view {off}\n"), "where a finished log can be walked in is not said")
        for target, code in (("/none.gplog", 3), ("999999999", 2)):
            done = subprocess.run([GPUPEAK, "top", "--once", target], stderr=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
            expect(done.returncode == code, f"{target}: {done.returncode}: {done.stderr}")


def many():
    with tempfile.TemporaryDirectory() as folder:
        expect("0 logs" in frame(folder), "an empty folder")
        programs = {}
        for name, mib in (("small", 10), ("large", 300), ("middle", 50)):
            programs[name] = SteppedProgram(os.path.join(folder, name + ".gplog"), DRIVER, **({"GPUPEAK_HOST": "off"} if name == "small" else {}))
            programs[name].step(str(mib))
        programs["middle"].step("900")
        programs["middle"].step("free")
        order = lambda *more: re.findall(r"^(\w+)\.gplog", frame(*more, folder), re.M)
        expect(order() == ["large", "middle", "small"], f"by memory: {order()}")
        expect(order("--sort", "peak") == ["middle", "large", "small"], f"by peak: {order('--sort', 'peak')}")
        expect(order("--sort", "name") == ["large", "middle", "small"], "by name")
        expect(order("--filter", "MIDD") == ["middle"], "a filter")
        text = frame(folder)
        expect("3 logs, 3 of running programs" in text, text)
        cells = line_of(text, "small").split()
        expect(cells[1:5] == ["running", "10.0", "MiB", "10.0"] and cells[6] == "–", f"of --host off: {cells}")
        programs["large"].end()
        programs["small"].kill()
        text = frame(folder)
        expect(order() == ["middle", "large", "small"], f"those that run come first: {text}")
        expect(line_of(text, "small").split()[1] == "killed" and line_of(text, "large").split()[1:3] == ["ended", "–"], text)
        programs["middle"].end()


def screen():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        program = SteppedProgram(log, DRIVER)
        program.step("200")
        top = Screen(log)
        top.wait_for("200 MiB", "running", "device.linear", "q: quit  ?: keys")
        top.press("?")
        top.wait_for("read the log", "freeze", without=["device.linear"])
        top.press("x")
        top.wait_for("device.linear")
        program.step("150")
        top.wait_for("350 MiB", "peak 350 MiB")
        top.press(" ")
        top.wait_for("FROZEN")
        program.step("100")
        time.sleep(0.5)
        top.wait_for("FROZEN", "350 MiB", without=["450 MiB"])
        top.press(" ")
        top.wait_for("450 MiB", without=["FROZEN"])
        top.press("r")  # replays the log again
        top.wait_for("450 MiB", "who holds it")
        top.press("/linear\r")
        top.wait_for("filter: linear", without=["host.heap"])
        top.press("\x1bOB\r")  # down, and its stack
        top.wait_for("libffi.so")
        top.press("\r/\x1b")
        top.wait_for("host.heap", without=["filter: linear"])
        program.step("free")
        top.press("p")
        top.wait_for("who held it at the peak")
        program.end()
        said = top.end()
        expect("peak 450 MiB" in said and "gpupeak report" in said, f"it ends with: {said}")
        # For a program that ended before, `top` prints the summary. While a program runs, a key ends `top`.
        first = Screen(log)
        while first.child.poll() is None:
            first.read(0.1)
        first.read(0.1)
        expect(b"450 MiB" in first.data and b"\x1b[?1049h" not in first.data, first.data)
        for key in ("q", "\x03"):
            program = SteppedProgram(log, DRIVER)
            top = Screen(program.pid)
            top.wait_for("running")
            top.press(key)
            top.end()
            expect(program.process.poll() is None, "the program has ended")
            program.kill()


def folder_screen():
    with tempfile.TemporaryDirectory() as folder:
        one, two = (SteppedProgram(os.path.join(folder, name + ".gplog"), DRIVER) for name in ("one", "two"))
        one.step("100")
        two.step("70")
        top = Screen(folder)
        top.wait_for("one.gplog", "two.gplog", "2 of running programs")
        top.press("/two\r")
        top.wait_for("two.gplog", without=["one.gplog"])
        top.press("/\x1bs")
        top.wait_for("one.gplog", "by peak")
        top.press("\x1bOB\x1bOB\r")  # the second
        top.wait_for("70.0 MiB of", "Esc: list", without=["100 MiB"])
        top.press("\x1b")
        top.wait_for("one.gplog", "two.gplog")
        late = SteppedProgram(os.path.join(folder, "late.gplog"), DRIVER)  # `top` shows it by itself
        top.wait_for("late.gplog", "3 of running programs")
        one.end()
        top.wait_for("2 of running programs")
        top.press("q")
        top.end()
        two.end()
        late.end()


# Takes 1 MiB ten times a second.
GROWS = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main() {
  for (;; usleep(100000)) memset(malloc(1 << 20), 1, 1 << 20);
}
"""


def attached():
    """Of a program that was attached to: what was recorded since then, who held it, and how fast it grows. Programs without a GPU have a
    peak in the list, also once they have ended."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = os.path.join(folder, "program"), os.path.join(folder, "a.gplog")
        subprocess.run(["cc", "-x", "c", "-", "-o", program], input=GROWS.encode(), check=True)
        running = subprocess.Popen([program])
        try:
            code, text = gpupeak("attach", "-o", log, str(running.pid))
            expect(code == 0, text)
            time.sleep(7)
            text = frame(log)
            expect(re.search(r"of what was recorded: peak [\d.]+ MiB · \+[\d.]+ MiB/s", line_of(text, "host")), text)
            expect("at the peak" in line_of(text, "holders") and re.search(r"MiB +\d+  host\.heap +main", text), text)
        finally:
            running.kill()
            running.wait()
        record(os.path.join(folder, "ended.gplog"), "sh", "-c", "exit 0")
        record(os.path.join(folder, "a_name_that_is_long.gplog"), "sh", "-c", "exit 0")
        text = frame(folder)
        expect(re.search(r"^ended\.gplog +exit 0 +– +[\d.]+ KiB", text, re.M), text)
        expect(re.search(r"^a\.gplog +killed +– +≥[\d.]+ MiB", text, re.M), text)
        narrow = Screen(folder, columns=80)
        narrow.wait_for("a_name_that_is_long", "growth/s", without=["events/s"])
        narrow.press("q")
        expect(narrow.child.wait(60) == 0, f"exit code {narrow.child.returncode}")


def gone():
    """The terminal is closed without a signal: `top` ends, and does not go on asking for keys."""
    with tempfile.TemporaryDirectory() as folder:
        program = SteppedProgram(os.path.join(folder, "a.gplog"), DRIVER)
        top = Screen(folder)
        top.wait_for("a.gplog")
        os.close(top.theirs)
        os.close(top.ours)
        expect(top.child.wait(60) == 0, f"exit code {top.child.returncode}")
        program.end()


run_checks({"gone": gone, "once": once, "list": many, "attached": attached, "screen": screen, "folder": folder_screen}[CASE])
