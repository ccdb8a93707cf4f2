"""What is printed into a terminal is as wide as it is and coloured; into a pipe neither; NO_COLOR and --color are heeded.

usage: terminal.py LIBGPUPEAK GPUPEAK
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unicodedata

from common import GPUPEAK, expect, run_checks

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CHARTS = (["tree", "--flame"], ["timeline"])  # as wide as they are
VERBS = (["report"], ["report", "--short"], ["tree"], ["tree", "--flame"], ["timeline"], ["leaks"], ["temporary"], ["tags"], ["phases"])


def plain_environment(**more):
    return {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}, **more}


def in_terminal(columns, *command, **more):
    """What `command` writes into a terminal of so many columns, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=plain_environment(**more), close_fds=True) as child:
        os.close(theirs)
        data = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            data += piece
    os.close(ours)
    return data.decode().replace("\r\n", "\n"), child.returncode


def width(line):
    shown = COLOUR.sub("", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)


def in_a_pipe(log, folder):
    """Whole lines, whose sizes are plain bytes with --bytes: they go to grep and into spreadsheets."""
    deep = os.path.join(folder, "deep.gplog")
    # Names of functions that no terminal has room for.
    program = "\n".join(f"def {'f' * 90}{i}(n): return {'f' * 90}{i + 1}(n)" for i in range(8)) + (
        f"\ndef {'f' * 90}8(n): return bytearray(n)\nkept = [{'f' * 90}0(10**6) for _ in range(30)]")
    path = os.path.join(folder, "deep.py")
    with open(path, "w", encoding="ascii") as file:
        file.write(program)
    subprocess.run([GPUPEAK, "run", "-q", "--phase-on-output", "never", "-o", deep, "--", "/usr/bin/python3", path], check=True)
    for verb in (*VERBS, ["diff", log], ["diff", "--side-by-side", log], ["merge", log], ["check", "--max", "host.peak_bytes=1", "--baseline", log,
                                                                          "--max-increase", "host.peak_bytes=1B"]):
        done = subprocess.run([GPUPEAK, *verb, deep, "--bytes"], stdout=subprocess.PIPE, check=False, env=plain_environment())
        text = done.stdout.decode()
        expect(done.returncode == (1 if verb[0] == "check" else 0), f"{verb} gives {done.returncode}")
        sizes = re.findall(r"\b[0-9.]+ [KMGT]iB", "\n".join(without_sentences(text, verb)))
        expect(not sizes, f"{verb} --bytes prints {sizes[:5]} in a pipe")
        if verb not in CHARTS:
            cut = [line for line in text.splitlines() if "…" in line and " more" not in line]
            expect(not cut, f"{verb} cuts lines in a pipe: {cut[:3]}")


def without_sentences(text, verb):
    """The lines of figures: warnings are sentences of their own, and a limit that was broken is said in both ways."""
    return [line for line in text.splitlines() if not re.match(r" *GP\d", line) and not (verb[0] == "check" and " bytes)" in line)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "x.gplog")
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", "/usr/bin/python3", "-c", 
                        "import mmap; reserved = mmap.mmap(-1, 1 << 26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); "
                        "x = [bytearray(10**6) for _ in range(30)]"],
                       check=True)
        for verb in VERBS:
            for columns in (60, 80, 100, 170):
                text, code = in_terminal(columns, GPUPEAK, *verb, log)
                expect(code == 0 and text, f"{verb} gives {code}")
                # Warnings are sentences, which the terminal may break.
                lines = [line for line in text.splitlines() if not re.match(r" *GP\d|gpupeak: ", COLOUR.sub("", line))]
                too_wide = [line for line in lines if width(line) > columns]
                expect(not too_wide, f"{verb} at {columns} columns: {too_wide[:3]}")
                expect(COLOUR.search(text), f"{verb} in a terminal has no colour")
            wide, narrow = (max(map(width, in_terminal(c, GPUPEAK, *verb, log)[0].splitlines())) for c in (170, 80))
            expect(wide >= narrow, f"{verb}: {wide} of 170 columns, {narrow} of 80")
            expect(not COLOUR.search(in_terminal(100, GPUPEAK, *verb, log, NO_COLOR="1")[0]), f"{verb} with NO_COLOR")
            expect(not COLOUR.search(in_terminal(100, GPUPEAK, *verb, "--color", "never", log)[0]), f"{verb} --color never")
            piped = subprocess.run([GPUPEAK, *verb, log], stdout=subprocess.PIPE, check=True, env=plain_environment()).stdout.decode()
            expect("\x1b" not in piped, f"{verb} into a pipe has colours")
            always = subprocess.run([GPUPEAK, *verb, "--color", "always", log], stdout=subprocess.PIPE, check=True,
                                    env=plain_environment()).stdout.decode()
            # Frames of a flame graph are told apart by colours or by brackets.
            same = COLOUR.sub("", always) == piped or verb == ["tree", "--flame"]
            expect(COLOUR.search(always) and same, f"{verb} --color always")
        in_a_pipe(log, folder)
        text, code = in_terminal(100, GPUPEAK, "export", "csv", log, "-o", log + ".csv")
        expect(code == 0 and text.endswith(f"gpupeak: wrote {log}.csv\n"), f"what was written is not said: {text}")
        text, code = in_terminal(60, "env", "COLUMNS=90", GPUPEAK, "report", log)
        expect(max(map(width, text.splitlines())) > 60, "COLUMNS does not count")


run_checks(main)
