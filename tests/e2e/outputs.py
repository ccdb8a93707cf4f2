"""No gate passes without figures, and no file is overwritten by mistake. argv: … CUDA_BENCHMARK FOLDER_OF_THE_DRIVER"""
import csv
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading

from common import GPUPEAK, Skipped, expect, run_checks

BENCHMARK, DRIVER = sys.argv[3:5]
DEVICE_LIMIT = ("--max", "device.peak_bytes=1TiB")


def gpupeak(*arguments, code=0, says="", **options):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
    text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    expect(done.returncode == code, f"{arguments} gives {done.returncode}, not {code}: {text}")
    expect(says in text, f"{arguments} does not say '{says}': {text}")
    return done.stdout


def record(folder, name, *command, code=0):
    log = os.path.join(folder, name)
    gpupeak("run", "-q", "-o", log, "--", *command, code=code, env=dict(os.environ, LD_LIBRARY_PATH=DRIVER))
    return log


def gates(folder):
    host = record(folder, "host.gplog", "/bin/true")
    device = record(folder, "device.gplog", BENCHMARK)
    gpupeak("check", *DEVICE_LIMIT, device)
    gpupeak("check", *DEVICE_LIMIT, host, code=1, says="the log has no device")
    gpupeak("check", *DEVICE_LIMIT, "--allow-no-device", host)
    saved = os.path.join(folder, "host.json")
    gpupeak("report", "--json", "-o", saved, host)
    gpupeak("check", *DEVICE_LIMIT, saved, code=1, says="the log has no device")
    gpupeak("check", "--baseline", device, "--max-increase", "device.peak_bytes=1%", host, code=1, says="the log has no device")
    gpupeak("check", "--max", "host.peak_bytes=1TiB", host)


def old_verbs(folder):
    """Verbs of earlier releases print what takes their place, and say on standard error what that is."""
    log = record(folder, "old.gplog", BENCHMARK)
    for old, now in (("compare", "diff --side-by-side"), ("dump", "export events"), ("flame", "tree --flame"), ("held", "report --held")):
        more = [log] * (2 if old == "compare" else 1)
        done = subprocess.run([GPUPEAK, old, *more], capture_output=True, text=True, check=True)
        expect(f"`gpupeak {old}` is `gpupeak {now}` now" in done.stderr, done.stderr)
        expect(done.stdout == gpupeak(*now.split(), *more).decode(), f"{old} prints something else than {now}")
    gpupeak("compress", "-q", log)
    gpupeak("compress", "-q", "--undo", log + ".zst", "-o", os.path.join(folder, "again.gplog"))
    gpupeak("symbolize", "-q", log)
    expect(os.path.exists(log + ".symbols"), "symbolize writes no symbols")
    for old, now in (("start", "attach"), ("stop", "detach")):
        gpupeak(old, log, code=2, says=f"is `gpupeak {now} --heap` now")


def in_turn(folder):
    """Verbs that show a log show several in turn. The JSON of several logs is an array, that of one log is not."""
    logs = [record(folder, f"turn{i}.gplog", BENCHMARK) for i in range(2)]
    for verb in ("report", "phases", "tree", "tree --flame", "leaks", "temporary", "tags", "timeline", "pools"):
        one = json.loads(gpupeak(*verb.split(), "--json", logs[0]))
        both = json.loads(gpupeak(*verb.split(), "--json", *logs))
        expect(isinstance(one, dict) and one["schema"].startswith("gpupeak."), f"{verb} --json of one log: {type(one)}")
        expect(isinstance(both, list) and len(both) == 2 and both[0] == one, f"{verb} --json of two logs is no array of both")
        text = gpupeak(*verb.split(), *logs).decode()
        expect(all(log in text for log in logs), f"{verb} of two logs does not say whose is which")
        alone = [gpupeak(*verb.split(), log).decode() for log in logs]
        expect(text.count("\n") >= sum(part.count("\n") for part in alone), f"{verb} of two logs leaves lines out")
    for verb in ("report", "phases", "tags"):
        gpupeak(*verb.split(), "--csv", *logs, code=2, says="--csv takes one log")
    gpupeak("timeline", "--svg", os.path.join(folder, "x.svg"), *logs, code=2, says="take one log")
    limits = json.loads(gpupeak("check", "--json", "--max", "device.peak_bytes=1", "--max", "host.peak_bytes=1TiB", logs[0], code=1))
    expect([limit["passed"] for limit in limits["limits"]] == [False, True] and not limits["passed"], f"check --json: {limits}")
    peak = json.loads(gpupeak("report", "--json", logs[0]))["metrics"]["device.peak_bytes"]
    expect(limits["limits"][0]["value"] == peak and limits["limits"][0]["allowed"] == 1, f"check --json: {limits}")


def compared(folder):
    """A run that died is not compared. For runs that ended in order the difference is given."""
    small, large = (record(folder, f"{n}.gplog", "/usr/bin/python3", "-c", f"x = bytearray({n} << 20)") for n in (10, 20))
    died = record(folder, "died.gplog", "/usr/bin/python3", "-c", "import os; x = bytearray(30 << 20); os.kill(os.getpid(), 9)", code=128 + 9)
    values = json.loads(gpupeak("diff", "--side-by-side", "--json", small, large))
    host = next(row["bytes"] for row in values["peaks"] if row["scope"] == "host")
    text = gpupeak("diff", "--side-by-side", "--bytes", small, large).decode()
    row = next(line for line in text.splitlines() if line.startswith("  host "))
    percent = f"{100 * (host[1] - host[0]) / host[0]:+.1f} %"
    expect(row.split()[1:4] == [str(host[0]), str(host[1]), f"+{host[1] - host[0]}"] and row.endswith(percent), f"compare says {row}")
    text = gpupeak("diff", "--side-by-side", small, died).decode()
    row = next(line for line in text.splitlines() if line.startswith("  host "))
    expect("killed by SIGKILL" in text and "≥ " in row and "%" not in row, f"compare of a run that died says {text}")
    expect([run["exit"] for run in json.loads(gpupeak("diff", "--side-by-side", "--json", small, died))["runs"]] ==
           [{"kind": "exit", "code": 0}, {"kind": "signal", "code": 9, "signal": "SIGKILL"}], "compare --json does not say how the runs ended")


def strict(folder):
    """All verbs have one rule: a run that was killed is not whole, though every figure of it is exact."""
    killed = record(folder, "killed.gplog", "/bin/bash", "-c", "kill -9 $$", code=128 + 9)
    whole = record(folder, "whole.gplog", "/bin/true")
    saved = os.path.join(folder, "killed.json")
    gpupeak("report", "--json", "-o", saved, killed)
    page = [["report", "--html", os.path.join(folder, "x.html")]] if page_is_built(whole, folder) else []
    for verb in (["report"], ["phases"], ["tree"], ["tree", "--flame"], ["leaks"], ["temporary"], ["tags"], ["timeline"], ["metrics"],
                 ["export", "csv"], ["check", "--max", "host.peak_bytes=1TiB"], ["report", "--json"], *page):
        for log, code in ((killed, 4), (whole, 0)):
            gpupeak(*verb, log, "--strict", code=code)
        gpupeak(*verb, killed)
    for verb in ("diff", "diff --side-by-side", "merge"):
        gpupeak(*verb.split(), whole, killed, "--strict", code=4)
        gpupeak(*verb.split(), whole, killed)
    gpupeak("metrics", "--strict", saved, code=4)
    gpupeak("check", "--strict", "--max", "host.peak_bytes=1TiB", "--baseline", saved, "--max-increase", "host.peak_bytes=1TiB", whole,
            code=4)


def page_is_built(log, folder):
    done = subprocess.run([GPUPEAK, "report", "--html", os.path.join(folder, "try.html"), log], stderr=subprocess.PIPE, check=False)
    return done.returncode == 0


def read(path):
    with open(path, "rb") as file:
        return file.read()


def overwriting(folder):
    log, other = record(folder, "a.gplog", "/bin/true"), record(folder, "b.gplog", "/bin/true")
    packed, saved = os.path.join(folder, "a.zst"), os.path.join(folder, "a.json")
    gpupeak("bundle", "--log", "-q", "-o", packed, log)
    gpupeak("bundle", "--log", "-q", "-o", packed, log)  # its own output may be made anew
    gpupeak("report", "--json", "-o", saved, log)
    link = os.path.join(folder, "link.html")
    os.symlink(log, link)
    content = {path: read(path) for path in (log, other, packed, saved)}
    targets = [log, other, packed, link]
    for target in targets:
        for verb in (["report", "-o", target, log], ["report", "--html", target, log], ["diff", "--side-by-side", log, other, "--html", target],
                     ["export", "csv", log, "-o", target], ["export", "sqlite", log, "-o", target], ["phases", "-o", target, log],
                     ["diff", "-o", target, saved, saved], ["metrics", "-o", target, saved], ["merge", "-o", target, log, other],
                     ["timeline", "--svg", target, log], ["timeline", "--png", target, log], ["bundle", "--symbols", "-o", target, log],
                     ["check", "--max", "host.peak_bytes=1TiB", "--junit", target, log],
                     ["check", "--max", "host.peak_bytes=1TiB", "--markdown", target, log]):
            gpupeak(*verb, code=2, says="name another file")
    gpupeak("bundle", "--log", "-o", log, other, code=2, says="name another file")
    gpupeak("bundle", "--log", "-o", packed, packed, code=2, says="is what is read")
    gpupeak("bundle", "-o", packed, packed, code=2, says="is what is read")
    for verb in (["diff", "-o", saved, saved, log], ["metrics", "-o", saved, saved],
                 ["check", "--max", "host.peak_bytes=1TiB", "--junit", saved, saved],
                 ["check", "--max", "host.peak_bytes=1TiB", "--markdown", saved, saved]):
        gpupeak(*verb, code=2, says="is what is read")
    for verb in (["report", "-o"], ["report", "--html"], ["export", "csv", "-o"], ["metrics", "-o"], ["bundle", "--symbols", "-o"]):
        gpupeak(*verb, folder, log, code=2, says="is a folder")
    for path, bytes_before in content.items():
        expect(read(path) == bytes_before, f"{path} was changed")
    beside = os.path.join(folder, "mine.txt.tmp")  # a file of the user that must stay
    with open(beside, "w") as file:
        file.write("mine")
    gpupeak("metrics", "-o", os.path.join(folder, "mine.txt"), log)
    expect(read(beside) == b"mine", "somebody's .tmp was taken")
    target = os.path.join(folder, "target.txt")
    os.symlink("target.txt", os.path.join(folder, "to_target"))
    gpupeak("metrics", "-o", os.path.join(folder, "to_target"), log)
    expect(os.path.islink(os.path.join(folder, "to_target")) and read(target), "the link was replaced, not followed")


def through_pipe(folder, name, *arguments):
    pipe, got = os.path.join(folder, name), []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(read(pipe)), daemon=True)
    reader.start()
    gpupeak(*arguments, pipe, timeout=60)
    reader.join(60)
    expect(stat.S_ISFIFO(os.stat(pipe).st_mode), f"{arguments}: the pipe is a file now")
    return got[0]


def special(folder):
    """Devices and pipes are written to, by every verb."""
    log = record(folder, "a.gplog", "/bin/true")
    expect(through_pipe(folder, "csv", "export", "csv", log, "-o") == gpupeak("export", "csv", log), "csv through a pipe")
    expect(through_pipe(folder, "sqlite", "export", "sqlite", log, "-o").startswith(b"SQLite format 3"), "sqlite through a pipe")
    expect(through_pipe(folder, "zst", "bundle", "--log", log, "-o")[:4] == b"\x28\xb5\x2f\xfd", "the log through a pipe")
    series = json.loads(gpupeak("timeline", "--json", log))["series"]
    rows = list(csv.DictReader(gpupeak("timeline", "--csv", log).decode().splitlines()))
    expect([[row["series"], row["kind"], *(int(row[c]) for c in ("begin_ns", "min_bytes", "max_bytes"))] for row in rows]
           == [[one["name"], one["kind"], *bucket] for one in series for bucket in one["buckets"]], "the curves as CSV and as JSON differ")
    expect(through_pipe(folder, "svg", "timeline", log, "--svg").startswith(b"<svg"), "svg through a pipe")
    null = os.path.join(folder, "null")
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        read(null)
    except OSError:
        null = "/dev/null" if os.getuid() else None  # not as root: a failure would replace the real /dev/null
    if null:
        for verb in (["export", "sqlite", log, "-o"], ["export", "csv", log, "-o"], ["metrics", log, "-o"], ["bundle", "--symbols", log, "-o"],
                     ["bundle", log, "-o"]):
            gpupeak(*verb, null)
            expect(stat.S_ISCHR(os.stat(null).st_mode), f"{verb} replaced a device")
    figures = gpupeak("metrics", log)
    expect(gpupeak("metrics", "-o", "-", log) == figures, "- is not standard output")
    with open(os.path.join(folder, "out"), "wb") as out:
        out.write(b"before\n")
        out.flush()
        subprocess.run([GPUPEAK, "metrics", "-o", "/dev/stdout", log], stdout=out, check=True)
    expect(read(os.path.join(folder, "out")) == b"before\n" + figures, "/dev/stdout that is a file")
    expect(stat.S_ISLNK(os.lstat("/dev/stdout").st_mode), "/dev/stdout was replaced")
    if page_is_built(log, folder):
        expect(b"<html" in gpupeak("report", "--html", "-", log)[:2000], "--html - is not standard output")
        expect(not os.path.exists("-"), "a file named -")


def bombs(folder):
    """A package of zeros is refused for its size. If there is no room for a package's content, that is an error, not a SIGBUS."""
    if not shutil.which("zstd") or not shutil.which("unshare"):
        raise Skipped("no zstd or no unshare")
    log = record(folder, "a.gplog", "/bin/true")
    bomb, large = os.path.join(folder, "bomb.zst"), os.path.join(folder, "large.zst")
    for path, mebibytes in ((bomb, 1024), (large, 7)):
        subprocess.run(f"(cat {log}; head -c {mebibytes}M /dev/zero) | zstd -q -f -o {path}", shell=True, check=True)
    gpupeak("report", bomb, code=3, says="times its size, which is not read: `gpupeak bundle --undo")
    gpupeak("report", large)
    script = f"mount -t tmpfs -o size=4m none {folder}/small && TMPDIR={folder}/small {GPUPEAK} report {large}"
    os.mkdir(os.path.join(folder, "small"))
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        raise Skipped(done.stderr.decode())
    expect(done.returncode == 3 and b"cannot unpack" in done.stderr, f"without room: {done}")


def sampled(folder):
    """The estimate of a sample is never above the peak of the counters, which count every block."""
    # A few large blocks that each live for a moment: seldom sampled, and then each stands for many.
    script = "import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; c.free.argtypes = [ctypes.c_void_p]\n" \
             "for i in range(20000): c.free(c.malloc(3000))\nx = [c.malloc(40000) for _ in range(8)]"
    for seed in range(3):
        log = os.path.join(folder, f"{seed}.gplog")
        gpupeak("run", "-q", "--host", "sampled", "-o", log, "--", "/usr/bin/python3", "-S", "-c", script, env=dict(os.environ, GPUPEAK_SAMPLE="4MiB"))
        report = json.loads(gpupeak("report", "--json", log))
        metrics = report["metrics"]
        expect(metrics["host.kind.heap.peak_bytes"] <= metrics["host.kind.heap.usable_peak_bytes"], str(metrics))
        others = sum(value for name, value in metrics.items() if re.fullmatch(r"host\.kind\.(?!heap)\w+\.peak_bytes", name))
        expect(metrics["host.peak_bytes"] <= metrics["host.kind.heap.usable_peak_bytes"] + others, str(metrics))
        (host,) = [peak for peak in report["peaks"] if peak["scope"] == "host"]
        said = b"by exact counters" in gpupeak("report", log)
        expect(said == (metrics["host.peak_bytes"] < host["bytes"]), "an estimate that is too large is said to be")


def main():
    with tempfile.TemporaryDirectory() as folder:
        CASES[sys.argv[5]](folder)


CASES = {case.__name__: case for case in (gates, strict, overwriting, special, bombs, sampled, in_turn, old_verbs, compared)}
run_checks(main)
