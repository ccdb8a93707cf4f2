"""`gpupeak view` in a terminal of its own (tmux): the tree opens and closes, a search finds, the flame graph zooms, the table shows stacks, a
moment of the curve is chosen, and q leaves the terminal in order. Its figures are those of the verbs that print.

usage: view.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402

BENCHMARK, DRIVER = sys.argv[3:5]
PATIENCE_SECONDS = 60


class Terminal:
    def __init__(self, folder, command):
        self.tmux = ["tmux", "-S", os.path.join(folder, "tmux"), "-f", "/dev/null"]
        env = {**environment(folder, False), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        subprocess.run([*self.tmux, "-u", "new-session", "-d", "-x", "120", "-y", "36", f"{command}; echo ended with $?; sleep 1000"], env=env, check=True)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout

    def wait(self, pattern):
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            screen = self.screen()
            if re.search(pattern, screen, re.M):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"no {pattern!r} in\n{self.screen()}")

    def keys(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def end(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)


def walk(terminal):
    screen = terminal.wait(r"758 MiB at \+\S+ s, the peak, phase first run")
    expect("[1 tree]" in screen and "no record lost" in screen, screen)
    expect(re.search(r"384 MiB +50.6 +1  +\S? ?\(anonymous namespace\)::allocate|384 MiB +50.6 +1 .*allocate", screen), screen)
    rows = screen.count("\n")
    terminal.keys("/", "load_mlp", "Enter")
    screen = terminal.wait(r"96.0 MiB +12.7 +12 .*load_mlp_weights")
    terminal.keys("Right")  # opens it
    terminal.wait(r"▾ load_mlp_weights.*\n.* 96.0 MiB .*    allocate")
    terminal.keys("Left")
    terminal.wait(r"(?s)\A(?!.*allocate.*allocate).*▸ load_mlp_weights")  # what a closed call calls has no row
    terminal.keys("/", "no_such_name", "Enter")
    terminal.wait(r"nothing is called 'no_such_name'")
    expect(rows > 5, screen)

    terminal.keys("2")
    terminal.wait(r"^<all═+>")
    terminal.keys("Down", "Down")
    terminal.wait(r"^758 MiB 100.0 %")
    terminal.keys("/", "load_mlp", "Enter")
    terminal.wait(r"^96.0 MiB 12.7 %  12 blocks  .*load_mlp_weights")
    terminal.keys("Enter")
    terminal.wait(r"^<.*load_mlp_weights.*═+>$")

    terminal.keys("3", "/", "C-h", "Escape")
    terminal.wait(r"384 MiB +50.6 +1  allocate cuda_benchmark.cc:\d+ ← ")
    terminal.keys("Enter")
    terminal.wait(r"384 MiB in 1 block, device.linear\n  .*allocate.*cuda_benchmark.cc:\d+")
    terminal.keys("Escape", "/", "mlp", "Enter")
    screen = terminal.wait(r"site  with 'mlp'")
    expect("load_mlp_weights" in screen and "load_embeddings" not in screen, screen)
    terminal.keys("Escape")

    terminal.keys("4")
    terminal.wait(r"^758 MiB at .*\n +758 MiB│")  # at the peak first
    terminal.keys("End")
    terminal.keys("Left", "Left", "Left")
    terminal.wait(r"^ +└ +▲")
    terminal.keys("Home", "Right", "Right", "Enter")
    screen = terminal.wait(r"the chosen moment|nothing was live then")
    terminal.keys("End", "PageUp", "PageUp", "PageUp", "Enter")
    # A program that takes long to begin has held nothing yet: later, then.
    chosen, end = None, time.monotonic() + 30
    while not (chosen := re.search(r": \S+ \S+ at (\S+) s, the chosen moment", terminal.screen())) and time.monotonic() < end:
        time.sleep(0.2)
        if "the chosen moment" not in terminal.screen():
            terminal.keys("Right", "Enter")
    expect(chosen, terminal.screen())
    terminal.keys("1")
    terminal.wait(r"\[1 tree\]")
    terminal.keys("p")
    terminal.wait(r"758 MiB at \S+ s, the peak")
    terminal.keys("s")
    terminal.wait(r"device memory, linear: 734 MiB|linear: 7\d\d MiB")
    terminal.keys("q")
    terminal.wait(r"ended with 0")
    return chosen


def main():
    if shutil.which("tmux") is None:
        raise Skipped("no tmux")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", BENCHMARK], stdout=subprocess.DEVNULL, check=True,
                       env={**environment(folder, False), "LD_LIBRARY_PATH": DRIVER})
        done = subprocess.run([GPUPEAK, "view", log], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 2 and "needs a terminal" in done.stderr, f"{done}")
        once = subprocess.run([GPUPEAK, "view", "--once", log], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
        expect("the peak, phase first run" in once and "run_first_with_autotuning" in once, once)
        terminal = Terminal(folder, f"{GPUPEAK} view {log}")
        try:
            chosen = walk(terminal)
        finally:
            terminal.end()
        held = json.loads(subprocess.run([GPUPEAK, "report", "--held", "--json", "--at", "1000", log], stdout=subprocess.PIPE, check=True).stdout)
        expect(chosen and held["moments"][0]["bytes"] == 0, f"{chosen} {held}")


run_checks(main)
