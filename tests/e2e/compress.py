"""`gpupeak run` compresses the log in place: verbs say the same of it as before. If anything goes wrong, the log stays as it was.

usage: compress.py LIBGPUPEAK GPUPEAK MUCH LOG_LIMIT SAME_PAIRS CASE
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, Failed, Skipped, environment, expect, report, run_checks

MUCH, WAITS, SAME_PAIRS, CASE = sys.argv[3:7]
LOG = "x.gplog"
PACKED = b"\x50\x2a\x4d\x18\x10\x00\x00\x00gpupeak.packed/1"
MUCH_CODE = 9  # its exit code


def run(folder, *options, program=(MUCH,)):
    return subprocess.run([GPUPEAK, "run", "-o", LOG, *options, "--", *program], cwd=folder, env=environment(folder, False),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def is_packed(path):
    with open(path, "rb") as file:
        return file.read(len(PACKED)) == PACKED


def nothing_beside(folder):
    expect(os.listdir(folder) == [LOG], f"there is more than the log: {os.listdir(folder)}")


def case_same():
    """Every verb says the same of the plain and the packed log. A second link keeps the plain log as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        log, kept = os.path.join(folder, LOG), os.path.join(folder, "kept", LOG)
        os.mkdir(os.path.dirname(kept))
        running = subprocess.Popen([GPUPEAK, "run", "-o", LOG, "--compress", "always", "--", WAITS, "waits"], cwd=folder,
                                   env=environment(folder, False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.stdout.readline()
        os.link(log, kept)
        said = running.communicate(b"x")[1].decode()
        expect(running.returncode == 0 and " compressed: " in said.splitlines()[-1], f"exit {running.returncode}: {said}")
        expect(is_packed(log) and not is_packed(kept), "the log is not packed, or both are")
        expect(os.path.getsize(log) < os.path.getsize(kept) // 2, f"{os.path.getsize(log)} of {os.path.getsize(kept)} bytes")
        outputs = []
        for name in (log, kept):
            report(name)
            output = []
            for verb in ("report --json", "report --full", "report --csv", "phases", "tree", "leaks", "temporary", "timeline", "export events",
                         "metrics --format jsonl", "export folded", "export csv", "tags", "pools"):
                done = subprocess.run([GPUPEAK, *verb.split(), name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                output.append((verb, done.returncode, done.stdout.replace(name, "LOG")))
            outputs.append(output)
        for (verb, code, text), (_, other_code, other) in zip(*outputs):
            expect(code == other_code and text == other, f"{verb} differs: exit {code} and {other_code}")
        bundled = os.path.join(folder, "x.gpbundle")
        subprocess.run([GPUPEAK, "bundle", "-q", log, "-o", bundled], check=True, stderr=subprocess.DEVNULL)
        expect(report(bundled)["metrics"] == report(kept)["metrics"], "the packed log's bundle differs")


def case_holes():
    """Logs of children that have left without an end: the hole at a log's end does not count as data that is worth compressing."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(folder, "--children", "all", program=("/usr/bin/python3", "-c", "import os\nfor i in range(3):\n"
                                                         "  if os.fork() == 0: os.kill(os.getpid(), 9)\n  os.wait()"))
        expect(done.returncode == 0 and "compressed" not in done.stderr, f"exit {done.returncode}: {done.stderr}")
        children = os.path.join(folder, "x.children")
        sizes = [os.path.getsize(os.path.join(children, name)) for name in os.listdir(children)]
        expect(len(sizes) == 3 and max(sizes) < 8 << 20, f"logs of children have {sizes} bytes")
        for name in os.listdir(children):
            report(os.path.join(children, name))


def case_exit_code():
    """The exit code is the program's; small logs are left alone; -q says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, LOG)
        for options, packed in (((), False), (("--compress", "never"), False), (("--compress", "always"), True)):
            done = run(folder, *options)
            expect(done.returncode == MUCH_CODE, f"{options}: exit {done.returncode}, {done.stderr}")
            expect(is_packed(log) == packed and ("compressed" in done.stderr) == packed, f"{options}: {done.stderr}")
            expect(report(log)["run"]["exit"]["code"] == MUCH_CODE, "the log has another exit code")
        done = run(folder, "-q", "--compress", "always")
        expect(done.stderr == "" and done.returncode == MUCH_CODE and is_packed(log), f"{done}")
        done = run(folder, "--compress", "always", program=("sh", "-c", "kill -TERM $$"))
        expect(done.returncode == 128 + signal.SIGTERM and is_packed(log), f"{done}")
        nothing_beside(folder)


def case_replaced():
    """The next run with that name replaces the packed log, as it would replace a log, but not a package that somebody else has made."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, LOG)
        for again in (run, lambda folder: subprocess.run([MUCH], env=environment(folder, True, GPUPEAK_OUT=log), check=False, text=True,
                                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)):
            run(folder, "--compress", "always")
            expect(is_packed(log), "it is not packed")
            done = again(folder)
            expect(done.returncode == MUCH_CODE and not is_packed(log), f"the old log is still there: {done}")
            report(log)
            nothing_beside(folder)
        with open(log, "wb") as file:
            file.write(PACKED.replace(b"/1", b"/2") * 1000)
        before = open(log, "rb").read()
        run(folder)
        expect(open(log, "rb").read() == before, "what is no log of ours was replaced")


def unpacked_and_whole(log):
    expect(not is_packed(log), "the log is packed")
    summary = report(log)
    expect(summary["quality"]["log_complete"] and summary["run"]["exit"]["code"] == MUCH_CODE, f"the log is not whole: {summary['quality']}")


def case_full_disk():
    if os.geteuid() != 0:
        raise Skipped("mounting a small tmpfs needs root")
    with tempfile.TemporaryDirectory() as folder:
        first = run(folder)
        bytes_needed = os.path.getsize(os.path.join(folder, LOG))
        expect(first.returncode == MUCH_CODE, f"{first}")
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        size = (bytes_needed + (300 << 10)) // 4096 * 4096
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skipped("tmpfs cannot be mounted here")
        try:
            done = run(disk, "--compress", "always")
            expect(done.returncode == MUCH_CODE, f"{done}")
            expect("stays as it is" in done.stderr and "No space left" in done.stderr, f"nothing is said: {done.stderr}")
            nothing_beside(disk)
            unpacked_and_whole(os.path.join(disk, LOG))
        finally:
            subprocess.run(["umount", disk], check=False)


def case_interrupted():
    """If `run` is ended while it compresses, the log is as it was, at once, and the exit code is the program's."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        for _ in range(10):
            with tempfile.TemporaryDirectory() as folder:
                running = subprocess.Popen([GPUPEAK, "run", "-q", "-o", LOG, "--compress", "always", "--", MUCH], cwd=folder,
                                           env=environment(folder, False), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                while running.poll() is None and not any(name.endswith(".tmp") for name in os.listdir(folder)):
                    time.sleep(0.0005)
                running.send_signal(stop)
                said = running.communicate()[1]
                expect(running.returncode == MUCH_CODE and said == b"", f"exit {running.returncode}: {said}")
                nothing_beside(folder)
                log = os.path.join(folder, LOG)
                if is_packed(log):  # it was packed before the signal
                    report(log)
                    continue
                unpacked_and_whole(log)
                break
        else:
            raise Failed("ten times nobody could end it")


def case_damaged():
    """Whatever the columns hold, they are read or refused, and quickly."""
    if shutil.which("zstd") is None:
        raise Skipped("no zstd to make damaged ones with")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([GPUPEAK, "run", "-q", "-o", LOG, "--compress", "always", "--", "sh", "-c", ":"], cwd=folder,
                       env=environment(folder, False), check=True)
        with open(os.path.join(folder, LOG), "rb") as file:
            packed = file.read()
        begin = packed[:len(PACKED) + 8 + len("gpupeak.columns/2") + 8]
        expect(b"gpupeak.columns/2" in begin, f"{begin}")
        other = os.path.join(folder, "other.gplog")
        with open(other, "wb") as file:
            file.write(packed.replace(b"gpupeak.columns/2", b"gpupeak.columns/1", 1))
        done = subprocess.run([GPUPEAK, "report", other], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 3 and "packed by another version of gpupeak" in done.stderr, f"{done.returncode}: {done.stderr}")
        columns = subprocess.run(["zstd", "-dcq"], input=packed, stdout=subprocess.PIPE, check=True).stdout
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        codes = set()
        for i in range(120):
            damaged = bytearray(columns)
            if i % 3 == 0:
                del damaged[chance.randrange(len(damaged)):]
            else:
                for _ in range(chance.randrange(1, 20)):
                    place = chance.randrange(52 if i % 3 == 1 else len(damaged))  # damages the sizes of stretch and columns, or any byte
                    damaged[place] = chance.randrange(256)
            path = os.path.join(folder, "damaged.gplog")
            with open(path, "wb") as file:
                file.write(begin + subprocess.run(["zstd", "-cq"], input=bytes(damaged), stdout=subprocess.PIPE, check=True).stdout)
            done = subprocess.run([GPUPEAK, "report", "--json", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=100, check=False)
            codes.add(done.returncode)
            expect(done.returncode in (0, 3), f"a damaged one gives {done.returncode}: {done.stderr}")
        expect(3 in codes, "no damage was found")


def case_no_room_to_read():
    """A packed log is read if only its own folder has room for its content."""
    if os.geteuid() != 0:
        raise Skipped("mounting a small tmpfs needs root")
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "--compress", "always")
        log = os.path.join(folder, LOG)
        small = os.path.join(folder, "small")
        os.mkdir(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skipped("tmpfs cannot be mounted here")
        try:
            done = subprocess.run([GPUPEAK, "report", "--json", log], env=dict(os.environ, TMPDIR=small), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, check=False)
            expect(done.returncode == 0 and json.loads(done.stdout)["quality"]["log_complete"], f"{done.stderr}")
        finally:
            subprocess.run(["umount", small], check=False)


def gpupeak(*arguments, code=0, says=""):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code and says in done.stderr, f"{arguments}: exit {done.returncode}: {done.stderr}")


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def case_undo():
    """`bundle --undo` writes the log of a compressed log, of a bundle with its symbols, and of a log that `run` has packed in place."""
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "--compress", "always")
        packed, plain = os.path.join(folder, LOG), os.path.join(folder, "x.plain.gplog")
        gpupeak("bundle", "--undo", packed, says="x.plain.gplog: ")
        expect(is_packed(packed) and not is_packed(plain) and report(plain)["metrics"] == report(packed)["metrics"], "it is another log")
        gpupeak("bundle", "--undo", packed, code=2, says="which is not overwritten")
        gpupeak("bundle", "--undo", plain, code=2, says="is not compressed")
        gpupeak("bundle", "--symbols", "-q", plain)
        gpupeak("bundle", "--log", "-q", plain, "-o", os.path.join(folder, "y.gplog.zst"))
        gpupeak("bundle", "-q", plain, "-o", os.path.join(folder, "z.gpbundle"))
        for name, log in (("y.gplog.zst", "y.gplog"), ("z.gpbundle", "z.gplog")):
            gpupeak("bundle", "-q", "--undo", os.path.join(folder, name))
            expect(bytes_of(os.path.join(folder, log)) == bytes_of(plain), f"{log} is another log")
            expect(bytes_of(os.path.join(folder, log + ".symbols")) == bytes_of(plain + ".symbols"), f"{log} has other symbols")
        with open(os.path.join(folder, "text.zst"), "wb") as file:
            file.write(bytes_of(os.path.join(folder, "y.gplog.zst"))[:40])
        gpupeak("bundle", "--undo", os.path.join(folder, "text.zst"), code=3)


def case_uniform():
    """A log stays as it is if it would shrink so far that no verb would read it. Such a package of somebody else is not read, but can be unpacked."""
    if shutil.which("zstd") is None:
        raise Skipped("no zstd to pack it with")
    with tempfile.TemporaryDirectory() as folder:
        done = run(folder, "--host", "full", "--compress", "always", program=(SAME_PAIRS, "3000000"))
        log = os.path.join(folder, LOG)
        expect(done.returncode == 9 and "stays as it is, not compressed: it is too uniform" in done.stderr, f"{done}")
        nothing_beside(folder)
        expect(not is_packed(log) and report(log)["quality"]["log_complete"], "the log is packed, or not whole")
        with open(log, "ab") as file:
            file.truncate(os.path.getsize(log) + (64 << 20))  # a hole
        gpupeak("bundle", "--log", log, code=2, says="is not compressed: it is too uniform")
        gpupeak("bundle", "-q", log, code=2, says="is not compressed: it is too uniform")
        nothing_beside(folder)
        packed = log + ".zst"
        subprocess.run(["zstd", "-q", "-9", log, "-o", packed], check=True)
        for verb in ("report", "export events", "metrics", "export folded"):
            gpupeak(*verb.split(), packed, code=3, says=f"`gpupeak bundle --undo {packed}` writes the log")
        again = os.path.join(folder, "again.gplog")
        gpupeak("bundle", "--undo", packed, "-o", again)
        expect(bytes_of(again) == bytes_of(log), "it is another log")


run_checks(globals()[f"case_{CASE}"])
