#!/usr/bin/env python3
"""Files and clients that try to make the command wait, end, or stop answering.

usage: hostile_files.py LIBGPUPEAK GPUPEAK pipes|debug_files|labels|half_questions|cut
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, environment, expect, run_checks

CASE = sys.argv[3]
WAIT = 60  # seconds for an answer that would otherwise never come


def record(folder, name="a.gplog", command=("/bin/sh", "-c", ":")):
    log = os.path.join(folder, name)
    subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", *command], env=environment(folder, False), check=True)
    return log


def gpupeak(*arguments):
    try:
        return subprocess.run([GPUPEAK, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT,
                              text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        expect(False, f"{arguments} waits for ever")


def case_pipes(folder):
    """A FIFO, or a device without end, in each place in which a file is read."""
    log = record(folder)
    pipe = os.path.join(folder, "pipe.gplog")
    os.mkfifo(pipe)
    for arguments, code in ((("report", pipe), 3), (("report", "--rules", pipe, log), 2), (("diff", pipe, log), 3), (("diff", log, pipe), 3),
                            (("check", "--baseline", pipe, "--max-increase", "host.peak_bytes=1%", log), 3), (("export", "events", pipe), 3),
                            (("top", "--once", folder), 0), (("serve", "--textfile", "-", folder), 0), (("run", "--", pipe), 126)):
        done = gpupeak(*arguments)
        expect(done.returncode == code, f"{arguments}: {done.returncode}, not {code}: {done.stderr}")
    for what in ("fifo", "/dev/zero"):
        beside = log + ".symbols"
        if what == "fifo":
            os.mkfifo(beside)
        else:
            os.symlink(what, beside)
        done = gpupeak("report", "--json", log)
        expect(done.returncode == 0 and "GP050" in done.stdout, f"{what} as symbols: {done.returncode} {done.stderr}")
        os.unlink(beside)


def case_debug_files(folder):
    """Each file that a library's debug information names is a FIFO: its link, the common file, a .dwo."""
    tools = [shutil.which(tool) for tool in ("gcc", "objcopy")]
    if not all(tools):
        raise Skipped("needs gcc and objcopy")
    source = os.path.join(folder, "x.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("#include <stdlib.h>\nvoid* volatile kept;\nvoid grow(void) { kept = malloc(100000); }\nint main(void) { grow(); return 0; }\n")
    for what in ("link", "common", "dwo"):
        program = os.path.join(folder, what)
        flags = ["-gsplit-dwarf"] if what == "dwo" else ["-g"]
        subprocess.run(["gcc", "-O0", *flags, "-Wl,--build-id=none", "-o", program, source], cwd=folder, check=True)
        if what == "link":
            subprocess.run(["objcopy", "--only-keep-debug", program, program + ".debug"], check=True)
            subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={program}.debug", program], check=True)
            named = [program + ".debug"]
        elif what == "common":
            named = [os.path.join(folder, "common.dwz")]
            with open(os.path.join(folder, "alt"), "wb") as file:
                file.write(b"common.dwz\0" + b"\xab" * 20)
            subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={folder}/alt", program], check=True)
        else:
            named = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".dwo")]
            expect(named, "gcc made no .dwo")
        for name in named:
            if os.path.exists(name):
                os.unlink(name)
            os.mkfifo(name)
        log = record(folder, what + ".gplog", (program,))
        done = gpupeak("report", "--full", log)
        expect(done.returncode == 0 and "grow" in done.stdout, f"{what}: {done.returncode} {done.stderr}\n{done.stdout}")


class Serving:
    def __init__(self, folder):
        self.process = subprocess.Popen([GPUPEAK, "serve", "--listen", "127.0.0.1:0", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)/metrics", line)
        if not found:
            raise Skipped(f"no serve here: {line}{self.process.stderr.readline()}")
        self.port = int(found.group(1))

    def connect(self, data):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)
        connection.sendall(data)
        return connection

    def ask(self):
        with self.connect(b"GET /metrics HTTP/1.0\r\n\r\n") as connection:
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        return answer

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=WAIT)


def case_half_questions(folder):
    """A client that sends only the begin of a request, or a little at a time, keeps no other client from an answer."""
    record(folder)
    serving = Serving(folder)
    halves = [serving.connect(b"GET ") for _ in range(8)]
    slow = [serving.connect(b"GET /metrics HTTP/1.1\r\n") for _ in range(8)]
    for _ in range(3):
        for connection in slow:
            connection.sendall(b"X: a\r\n")
        # Nobody waited for the slow clients: they are still connected when the answer has come.
        expect(b"gpupeak_" in serving.ask(), "no answer beside half questions")
    for connection in halves:
        connection.settimeout(0)
        try:
            expect(connection.recv(1) == b"", "a half question was answered")
            expect(False, "the half questions were waited for")
        except BlockingIOError:
            pass
    serving.end()


def case_labels(folder):
    """Names that are no UTF-8, or that turn the direction of text: the answer can still be read, and has each sample once."""
    log = record(folder)
    for name in (b"\xff\xfe.gplog", "a\u202eb.gplog".encode(), b"x\n.gplog", b"\xff.gplog", b"\\xff.gplog"):
        shutil.copy(log.encode(), os.path.join(folder.encode(), name))
    out = subprocess.run([GPUPEAK, "serve", "--textfile", "-", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if out.returncode != 0 and b"without" in out.stderr:
        raise Skipped("no serve here")
    text = out.stdout.decode("utf-8")  # throws if it is no UTF-8
    samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")]
    expect(len(samples) == len(set(samples)), "a sample is told twice")
    expect("a.gplog" in text and "\u202e" not in text and "\\\\xff\\\\xfe.gplog" in text, text[:1000])


def case_cut(folder):
    """Logs, packed and plain, that are cut while they are served."""
    log = record(folder)
    subprocess.run([GPUPEAK, "bundle", "--log", log, "-o", os.path.join(folder, "b.gpz")], stderr=subprocess.DEVNULL, check=False)
    serving = Serving(folder)
    expect(b"a.gplog" in serving.ask(), "the log is not told")
    for size in (100_000, 5000, 4096, 100, 0):
        for name in ("a.gplog", "b.gpz"):
            path = os.path.join(folder, name)
            if os.path.exists(path) and os.path.getsize(path) > size:
                os.truncate(path, size)
        expect(b"gpupeak_" in serving.ask(), f"no answer at {size} bytes")
        done = gpupeak("report", log)
        expect(done.returncode in (0, 3), f"report at {size} bytes: {done.returncode} {done.stderr}")
    expect(serving.process.poll() is None, "serve has ended")
    serving.end()


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
