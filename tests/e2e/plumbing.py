"""The report of a Python program shows the program's own lines: the interpreter's code, NumPy's core and stripped modules are in no view and no export.
And exports: the ending of a file's name tells its compression, formats have their readers' names, and pprof gets the frames to leave out.

usage: plumbing.py LIBGPUPEAK GPUPEAK CASE
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, expect, record, run_checks

CASE = sys.argv[3]
PLUMBING = re.compile(r"_PyEval_EvalFrameDefault|PyObject_Vectorcall|_multiarray_umath|PyEval_EvalCode|_PyFunction_Vectorcall")
PYTHON = "/usr/bin/python3"
SCRIPT = """import numpy

def weights():
    return numpy.ones((3 << 20,), dtype=numpy.float64)

def batch():
    return [numpy.zeros((1 << 20,), dtype=numpy.float64) + 1 for _ in range(2)]

kept = weights()
more = batch()
last = numpy.arange(1 << 20, dtype=numpy.float64)
"""


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"{command} gives {done.returncode}: {done.stdout[:500]}{done.stderr}")
    return done.stdout


def case_numpy():
    if subprocess.run([PYTHON, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no NumPy here")
    with tempfile.TemporaryDirectory() as folder:
        log, script = os.path.join(folder, "x.gplog"), os.path.join(folder, "train.py")
        with open(script, "w") as file:
            file.write(SCRIPT)
        record(log, PYTHON, script)
        summary = json.loads(run(GPUPEAK, "report", "--json", log))
        rows = next(p for p in summary["peaks"] if p["scope"] == "host")["holders"]
        sites = [row["site"] for row in rows[:3]]
        for site, line in zip(sites, ("weights train.py:4", "batch train.py:7", "<module> train.py:11")):
            expect(line in site and not PLUMBING.search(site), f"the first rows are not the script's own lines: {sites}")
        expect(any("_PyEval" in (frame["function"] or "") for frame in rows[0]["stack"]), "the JSON has lost the interpreter's frames")
        screen = run(GPUPEAK, "report", "--short", log).decode()
        expect("no names" not in screen and "train.py:4" in screen, screen)
        for view in (["tree"], ["tree", "--flame"], ["tree", "--json"], ["tree", "--flame", "--json"], ["export", "folded"], ["export", "speedscope"],
                     ["export", "massif"], ["export", "heaptrack"], ["export", "pprof", "-o", "-"]):
            text = run(GPUPEAK, *view, log)
            text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
            expect(b"train.py" in text, f"{view} has not the script's file")
            if view[0] != "export" or view[1] == "folded":  # the other exports also have stacks without Python's frames
                lines = [line for line in text.decode().splitlines() if "train.py" in line]
                expect(not any(PLUMBING.search(line) for line in lines), f"{view} has plumbing: {lines[:3]}")


def fields(message):
    """The number and the value of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            yield key >> 3, varint()


def case_exports():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "x.gplog")
        record(log, "sort", "/etc/passwd")
        plain = run(GPUPEAK, "export", "folded", log)
        for name, unpack in (("x.gz", ["gzip", "-dc"]), ("x.zst", ["zstd", "-dc"])):
            if not shutil.which(unpack[0]):
                continue
            path = os.path.join(folder, name)
            run(GPUPEAK, "export", "folded", log, "-o", path)
            expect(run(*unpack, path) == plain, f"{name} is not the same")
            expect(os.path.getsize(path) < len(plain), f"{name} is not smaller")
        chrome, perfetto = (json.loads(run(GPUPEAK, "export", name, log)) for name in ("chrome", "perfetto"))
        expect(chrome == perfetto, "perfetto is something else than chrome")
        path = os.path.join(folder, "x.pb.gz")
        run(GPUPEAK, "export", "pprof", log, "-o", path)
        with open(path, "rb") as file:
            profile = list(fields(gzip.decompress(file.read())))  # it is compressed once, though its name ends with .gz
        strings = [value.decode() for number, value in profile if number == 6]
        dropped = [strings[value] for number, value in profile if number == 7]
        expect(len(dropped) == 1, f"drop_frames: {dropped}")
        for function in ("malloc", "operator new(unsigned long)", "cudaMalloc", "cuMemAlloc_v2", "mmap64"):
            expect(re.fullmatch(dropped[0], function), f"{function} is not dropped")
        for function in ("main", "my_malloc", "cuMyOwn"):
            expect(not re.fullmatch(dropped[0], function), f"{function} is dropped")


run_checks(globals()[f"case_{CASE}"])
