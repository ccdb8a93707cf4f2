"""Lines and names are those of the source, for programs built in many ways. Each block is compared with the program's own account of where it was
asked for, each frame with the answers of addr2line and llvm-symbolizer. Prints how many were compared.

usage: lines.py LIBGPUPEAK GPUPEAK SOURCES CASE
"""
import collections
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, expect, record, run_checks

SOURCES, CASE = sys.argv[3:5]

GCC = {
    "O0": "-O0 -g", "O1": "-O1 -g", "O2": "-O2 -g", "O3": "-O3 -g", "Os": "-Os -g", "g1": "-O2 -g1", "g3": "-O2 -g3", "dwarf4": "-O2 -gdwarf-4",
    "dwarf3": "-O1 -gdwarf-3 -gstrict-dwarf", "lto": "-O2 -g -flto", "split": "-O2 -g -gsplit-dwarf", "split4": "-O2 -g -gdwarf-4 -gsplit-dwarf",
    "zlib": "-O2 -g -gz=zlib", "types": "-O2 -g -fdebug-types-section", "no_pie": "-O2 -g -no-pie", "sections": "-O2 -g -ffunction-sections",
    "debug_link": "-O2 -g", "zstd": "-O2 -g", "zstd_debug_link": "-O2 -g", "dwz": "-O2 -g", "mini": "-O2 -g",
}
CLANG = {
    "O0": "-O0 -g", "O1": "-O1 -g", "O2": "-O2 -g", "O3": "-O3 -g", "lines": "-O2 -gline-tables-only", "dwarf4": "-O2 -gdwarf-4",
    "split": "-O2 -g -gsplit-dwarf", "zlib": "-O2 -g -gz=zlib", "types": "-O2 -g -fdebug-types-section", "lto": "-O2 -g -flto -fuse-ld=lld",
}
BUILDS = {"gcc": ("g++", GCC), "clang": ("clang++", CLANG)}


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    expect(done.returncode == 0, f"{command} gives {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def build(folder, name, compiler, flags):
    """Builds a program; None: this compiler cannot."""
    program = os.path.join(folder, name)
    sources = [os.path.join(SOURCES, file) for file in ("program.cc", "other.cc")]
    done = subprocess.run([compiler, *flags.split(), "-Wl,--build-id=sha1", "-fno-optimize-sibling-calls", "-o", program, *sources], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"  {compiler} {flags}: not here: {done.stderr.splitlines()[:1]}")
        return None
    way = name.split("_", 1)[1]
    linked = way.endswith("debug_link")
    if way in ("zstd", "zstd_debug_link", "dwz", "mini"):
        shutil.copy(program, program + ".whole")  # for the other tools, which do not read these forms
    if linked:
        run("objcopy", "--only-keep-debug", program, program + ".debug")
        run("strip", program)
    if way.startswith("zstd"):
        packed = ["objcopy", "--compress-debug-sections=zstd", program + ".debug" if linked else program]
        if subprocess.run(packed, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
    if linked:
        run("objcopy", f"--add-gnu-debuglink={program}.debug", program)
    if way == "dwz":
        if not shutil.which("dwz"):
            print("  dwz is not here")
            return None
        shutil.copy(program, program + "_other")
        run("dwz", "-m", program + ".common", "-M", program + ".common", program, program + "_other")
    if way == "mini":
        keep_mini(program)
    return program


def keep_mini(program):
    """Strips as Fedora does: only a table of functions is left, in a section that is packed by xz."""
    dynamic = set(run("nm", "-D", "--format=posix", "--defined-only", program).split("\n"))
    functions = {line.split()[0] for line in run("nm", "--format=posix", "--defined-only", program).splitlines() if line.split()[1] in "tT"}
    keep, table = program + ".keep", program + ".table"
    with open(keep, "w", encoding="utf-8") as file:
        file.write("\n".join(sorted(functions - {line.split()[0] for line in dynamic if line})) + "\n")
    run("objcopy", "--only-keep-debug", program, table)
    run("objcopy", "-S", f"--keep-symbols={keep}", table)
    with open(table, "rb") as file, open(table + ".xz", "wb") as out:
        out.write(lzma.compress(file.read()))
    os.remove(table)
    run("strip", "--strip-all", program)
    run("objcopy", "--add-section", f".gnu_debugdata={table}.xz", program)


def check_mini(folder, name, program):
    """The report has functions without lines, each the same as in the whole program. No module is said to have no names."""
    log = os.path.join(folder, name + ".gplog")
    record(log, program, GPUPEAK_HOST="full")
    summary = json.loads(run(GPUPEAK, "report", "--json", "--top", "1000", log))
    rows = next(p for p in summary["peaks"] if p["scope"] == "host/heap")["holders"]
    frames = {int(f["offset"], 16) - 1: f["function"] or "" for row in rows for f in row["stack"] if f["module"] == os.path.basename(program)}
    told = told_by_addr2line(program + ".whole", list(frames))
    wrong = [f"{name} {address:#x}: {function}, addr2line says {told[address][-1]}" for address, function in frames.items()
             if base(function) != base(told[address][-1][0]) and function != "_start"]
    expect("has no names" not in run(GPUPEAK, "report", "--short", log), f"{name}: said to have no names")
    expect(len(frames) > 5, f"{name}: only {len(frames)} frames")
    return 0, len(frames), wrong


def base(name):
    """The function's name without scope and parameters, which not all tools know."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    lambdas = re.findall(r"\{lambda\([^{}]*\)#\d+\}|\$_\d+|'lambda\d*'", name)
    if lambdas and "operator()" in name:
        return "operator_call"
    name = name.replace("operator<<", "operator_shift").replace("operator()", "operator_call")
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return name.split("(")[0].split(" ")[-1].split("::")[-1]


def told_by_addr2line(program, addresses):
    told = {}
    current = None
    lines = run("addr2line", "-a", "-f", "-i", "-C", "-e", program, *map(hex, addresses)).splitlines()
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            current = told.setdefault(int(line, 16), [])
        elif current and len(current[-1]) == 1:
            file, number = re.sub(r" \(discriminator \d+\)$", "", line).rsplit(":", 1)
            current[-1] += (os.path.basename(file), int(number) if number.isdigit() else 0)
        else:
            current.append([line])
    return told


def told_by_llvm(program, addresses):
    if not shutil.which("llvm-symbolizer"):
        return {}
    answers = json.loads(run("llvm-symbolizer", "--output-style=JSON", "--inlines", "-e", program, *map(hex, addresses)))
    return {int(a["Address"], 16): [[s["FunctionName"], os.path.basename(s["FileName"]), s["Line"]] for s in a["Symbol"]] for a in answers}


def as_compared(frames):
    return [(base(name), file, line) for name, file, line in frames]


def compare(name, program, rows, wrong):
    frames = collections.defaultdict(list)  # by address, innermost first
    for row in rows:
        last = None
        for frame in row["stack"]:
            if frame["module"] != os.path.basename(program):
                continue
            address = int(frame["offset"], 16) - 1
            if address != last and address in frames:
                break  # known, with all callers
            frames[address].append([frame["function"] or "", os.path.basename(frame["file"] or ""), frame["line"] or 0])
            last = address
    frames = {address: parts for address, parts in frames.items() if parts[-1][0] not in ("_start", "__libc_start_main")}
    whole = program + ".whole" if os.path.exists(program + ".whole") else program
    tools = {"addr2line": told_by_addr2line(whole, list(frames)), "llvm-symbolizer": told_by_llvm(whole, list(frames))}
    for address, mine in frames.items():
        told = {tool: as_compared(answers[address]) for tool, answers in tools.items() if address in answers}
        if as_compared(mine) not in told.values():
            wrong.append(f"{name} {address:#x}: {as_compared(mine)}, told: {told}")
    return len(frames)


def check(folder, name, program):
    log = os.path.join(folder, name + ".gplog")
    book = {}
    for line in record(log, program, GPUPEAK_HOST="full").splitlines():
        size, file, number = line.rsplit(" ", 2)
        book[int(size)] = (os.path.basename(file), int(number))
    summary = json.loads(run(GPUPEAK, "report", "--json", "--top", "1000", log))
    peak = next(p for p in summary["peaks"] if p["scope"] == "host/heap")
    rows = [row for row in peak["holders"] if row["bytes"] in book]
    wrong = []
    expect(len(rows) == len(book), f"{name}: {len(book)} sites of the book are {len(rows)} rows: "
           f"{[(r['bytes'], r['site']) for r in peak['holders'] if r['bytes'] not in book]}, {sorted(set(book) - {r['bytes'] for r in rows})}")
    for row in rows:
        first = row["parts"][0]
        place = (os.path.basename(first["file"] or ""), first["line"])
        if place != book[row["bytes"]]:
            wrong.append(f"{name}: {row['site']} is at {place}, by the book at {book[row['bytes']]}")
        if f"{place[0]}:{place[1]}" not in row["site"]:
            wrong.append(f"{name}: '{row['site']}' does not say {place}")
        if re.search(r"\+0x|(?<![<{(])…", row["site"].replace(", …", "")):
            wrong.append(f"{name}: '{row['site']}' is no title")
    titles = collections.Counter(row["site"] for row in rows)
    wrong += [f"{name}: {count} rows are called '{title}'" for title, count in titles.items() if count > 1]
    text = run(GPUPEAK, "report", "--short", log)
    expect("has no names" not in text, f"{name}: said to have no names: {text}")
    return len(rows), compare(name, program, rows, wrong), wrong


def main():
    compiler, ways = BUILDS[CASE]
    for needed in (compiler, "addr2line", "objcopy"):
        if not shutil.which(needed):
            raise Skipped(f"no {needed} here")
    sites = frames = builds = 0
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for way, flags in ways.items():
            name = f"{CASE}_{way}"
            program = build(folder, name, compiler, flags)
            if program is None:
                continue
            builds += 1
            some_sites, some_frames, some_wrong = (check_mini if way == "mini" else check)(folder, name, program)
            sites, frames, wrong = sites + some_sites, frames + some_frames, wrong + some_wrong
    expect(builds > 0, "nothing could be built")
    print(f"{builds} builds: {sites} sites by the program's book, {frames} addresses by addr2line and llvm-symbolizer, {len(wrong)} wrong")
    expect(not wrong, "\n".join(wrong[:20]))


run_checks(main)
