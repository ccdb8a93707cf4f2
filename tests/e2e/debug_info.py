"""If debug information is there and cannot be read, that is said once, with what is missing. If it can be read, nothing is said.

usage: debug_info.py LIBGPUPEAK GPUPEAK SOURCES
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys

from common import GPUPEAK, Skipped, expect, record, run_case

SOURCES = sys.argv[3]
CODE = "GP063"


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"{command} gives {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def build(folder, name, flags):
    program = os.path.join(folder, name)
    run("g++", *flags.split(), "-Wl,--build-id=sha1", "-fno-optimize-sibling-calls", "-o", program,
        *(os.path.join(SOURCES, file) for file in ("program.cc", "other.cc")), cwd=folder)
    return program


def report(program):
    """The warnings about debug information, and the number of the program's rows that have a line."""
    log = program + ".gplog"
    record(log, program, options=("--names", "none"), GPUPEAK_HOST="full")
    summary = json.loads(run(GPUPEAK, "report", "--json", "--top", "1000", log))
    peak = next(peak for peak in summary["peaks"] if peak["scope"] == "host/heap")
    frames = [row["parts"][0] for row in peak["holders"] if row["module"] == os.path.basename(program)]
    told = [warning["message"] for warning in summary["quality"]["warnings"] if warning["code"] == CODE]
    text = run(GPUPEAK, "report", "--full", log)
    expect(text.count(CODE) == len(told), f"the text tells of it as often: {text}")
    expect(run(GPUPEAK, "report", "--full", log) == text, "and so does the next report")
    hidden = run(GPUPEAK, "report", "--confidential", "--full", log)
    expect(os.path.dirname(program) not in hidden and hidden.count(CODE) == len(told), f"confidential: {hidden}")
    return told, sum(frame["line"] is not None for frame in frames), len(frames)


def expect_trouble(program, *words):
    told, with_line, all_rows = report(program)
    expect(len(told) == 1 and all(word in told[0] for word in (program, *words)), f"{words}: {told}")
    expect(all_rows > 3, f"there are names: {all_rows}")
    return with_line


def expect_lines(program):
    told, with_line, all_rows = report(program)
    expect(told == [] and with_line == all_rows > 3, f"{program}: {told}, {with_line} of {all_rows} rows have a line")


def patch(file, at, data):
    with open(file, "r+b") as out:
        out.seek(at)
        out.write(data)


def section(program, name):
    """The section's offset in the file."""
    for line in run("readelf", "-SW", program).splitlines():
        words = line.replace("[ ", "[").split()
        if len(words) > 4 and words[1] == name:
            return int(words[4], 16)
    return None


def split(folder):
    for version, flags in (("5", "-O1 -g -gsplit-dwarf"), ("4", "-O1 -g -gdwarf-4 -gsplit-dwarf")):
        program = build(folder, "split" + version, flags)
        expect_lines(program)
        files = sorted(glob.glob(os.path.join(folder, "*.dwo")))
        expect(len(files) == 2, files)
        os.remove(files[0])
        expect(expect_trouble(program, "1 of its files of debug information (.dwo)", files[0]) > 0, "the other unit has lines")
        os.remove(files[1])
        expect(expect_trouble(program, "2 of its files of debug information (.dwo)") == 0, "no lines")


def package(folder):
    if not shutil.which("dwp"):
        return print("  no dwp here")
    program = build(folder, "packed", "-O1 -g -gdwarf-4 -gsplit-dwarf")
    run("dwp", "-e", program, cwd=folder)
    for file in glob.glob(os.path.join(folder, "*.dwo")):
        os.remove(file)
    told, with_line, _ = report(program)
    if with_line > 0:
        return print("  this elfutils reads .dwp")
    return expect(len(told) == 1 and program + ".dwp" in told[0] and "0.191" in told[0], told)


def common(folder):
    if not shutil.which("dwz"):
        return print("  no dwz here")
    program, shared = build(folder, "common", "-O1 -g"), os.path.join(folder, "shared.debug")
    shutil.copy(program, program + "_other")
    run("dwz", "-m", shared, "-M", shared, program, program + "_other")
    expect_lines(program)
    os.rename(shared, shared + ".away")
    expect(expect_trouble(program, shared, "(dwz)") == 0, "no lines")
    shutil.copy(program, shared)
    return expect(expect_trouble(program, shared, "another build's") == 0, "a file that is not the one that is meant")


def packing(folder):
    program = build(folder, "zlib", "-O1 -g -gz=zlib")
    expect_lines(program)
    at = section(program, ".debug_info")
    patch(program, at, struct.pack("<I", 7))
    expect_trouble(program, "not known here (type 7)", "--decompress-debug-sections")
    patch(program, at, struct.pack("<I", 1))
    expect_lines(program)
    patch(program, at + 24 + 8, b"\xff" * 16)
    expect_trouble(program, "damaged")
    lines = build(folder, "lines", "-O1 -g -gz=zlib")
    patch(lines, section(lines, ".debug_line") + 24 + 8, b"\xff" * 16)
    expect_trouble(lines, "damaged")


def damage(folder):
    program = build(folder, "damaged", "-O1 -g")
    expect_lines(program)
    patch(program, section(program, ".debug_info") + 4, struct.pack("<H", 0xffff))  # the version of the first unit
    expect_trouble(program, "damaged")


def apart(folder):
    """The debug information belongs to another file."""
    program = build(folder, "apart", "-O1 -g -gz=zlib")
    run("objcopy", "--only-keep-debug", program, program + ".debug")
    run("strip", program)
    run("objcopy", f"--add-gnu-debuglink={program}.debug", program)
    expect_lines(program)
    patch(program + ".debug", section(program + ".debug", ".debug_info"), struct.pack("<I", 7))
    told, with_line, _ = report(program)
    expect(len(told) == 1 and program + ".debug has" in told[0] and with_line == 0, told)


def main(folder):
    for needed in ("g++", "objcopy", "readelf"):
        if not shutil.which(needed):
            raise Skipped(f"no {needed} here")
    for case in (split, package, common, packing, damage, apart):
        inside = os.path.join(folder, case.__name__)
        os.mkdir(inside)
        case(inside)


run_case(main)
