#!/usr/bin/env python3
"""A run keeps names of its programs: so report, flame and diff say the same after the program was built anew in its place, or was
removed. Without kept names diff and check say that one side has no names.

usage: names.py LIBGPUPEAK GPUPEAK rebuilt|removed|no_build_id|compressed|choice|large_unit
"""
import json
import os
import shutil
import subprocess
import sys

from common import GPUPEAK, Skipped, expect, record, run_case

CASE = sys.argv[3]

PROGRAM = """
#include <stdlib.h>
static inline __attribute__((always_inline)) void *rows(size_t bytes) { return calloc(1, bytes); }
__attribute__((noinline)) void *reserve_tables(size_t bytes) { return rows(bytes); }
__attribute__((noinline)) void *load_model(size_t bytes) { void *p = reserve_tables(bytes); __asm__ volatile("" ::: "memory"); return p; }
int main(int argc, char **argv) {
  void *volatile p = load_model(30 << 20);
  void *volatile q = argc > 1 ? reserve_tables((size_t)atoi(argv[1]) << 20) : 0;
  return p == 0 || (argc > 1 && q == 0);
}
"""
# Other code at the addresses of the first program.
REBUILT = PROGRAM.replace("load_model", "unpack_archive").replace("reserve_tables", "grow_cache").replace("\nint main", "\n\n\nint main")
SITE = "rows program.c:3 ← reserve_tables program.c:4 ← load_model program.c:5"


def build(folder, text, *flags):
    program = os.path.join(folder, "program")
    source = program + ".c"
    with open(source, "w") as file:
        file.write(text)
    done = subprocess.run(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", *flags, "-o", program + ".new", source],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == 0, f"gcc: {done.stdout}")
    os.unlink(source)
    os.replace(program + ".new", program)
    return program


def run(*command, code=0):
    done = subprocess.run([GPUPEAK, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{command} gives {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def answers(log, other):
    """All output about the log, and about the log compared with another one."""
    full = json.loads(run("report", "--json", "--top", "100", log))
    return {"report": run("report", "--full", log), "rows": full["peaks"], "flame": run("tree", "--flame", "--json", log),
            "tree": run("tree", log), "tags": run("report", "--by", "line", log), "codes": [w["code"] for w in full["quality"]["warnings"]],
            "diff": run("diff", log, other), "confidential": run("report", "--confidential", log),
            "phases": run("phases", "--phase", "load=load_model", log)}


def expect_same(before, now, how):
    for what, said in before.items():
        expect(now[what] == said, f"{how}: {what} is another:\n{said}\nis now\n{now[what]}")


def expect_said_of_nameless(log, other, how):
    """If one side has no names, a difference is not said to be one of the program."""
    text = run("report", "--full", log)
    expect("reserve_tables" not in text and "grow_cache" not in text, f"{how}: names from nowhere: {text}")
    for sides in ((log, other), (other, log)):
        text = run("diff", *sides)
        expect("has no names, where" in text, f"{how}: diff does not say so: {text}")
        text = run("check", sides[0], "--baseline", sides[1], "--max-increase", "host.peak_bytes=100%")
        expect("has no names, where" in text, f"{how}: check does not say so: {text}")
    expect("no names" not in run("check", other, "--baseline", other, "--max-increase", "host.peak_bytes=1%"), "check says so of names")


def check_built_anew(folder, how):
    flags = ["-Wl,--build-id=none"] if how == "no_build_id" else []
    program = build(folder, PROGRAM, *flags)
    log, other, bare = (os.path.join(folder, name) for name in ("x.gplog", "other.gplog", "bare.gplog"))
    options = ("--names", "own")  # the default's 50 ms may be too short on a busy machine
    if how == "compressed":
        options += ("--compress", "always")
    record(log, program, options=options, GPUPEAK_HOST="full")
    record(other, program, "4", options=("--names", "own"), GPUPEAK_HOST="full")
    record(bare, program, options=("--names", "none"), GPUPEAK_HOST="full")
    if how != "compressed":
        more = os.path.getsize(log) - os.path.getsize(bare)
        # Logs of one program differ by a page by themselves. That there are names, what follows shows.
        expect(more <= 16 << 10, f"the names take {more} bytes")
    before = answers(log, other)
    expect(SITE in before["report"], f"as it ran: {before['report']}")
    expect("has no names, where" not in run("diff", bare, other), "names are missed that are there")
    if how == "removed":
        os.unlink(program)
    else:
        build(folder, REBUILT, *flags)
    expect_same(before, answers(log, other), how)
    away = os.path.join(folder, "away.gplog")
    shutil.copy(log, away)
    expect(json.loads(run("report", "--json", "--top", "100", away))["peaks"] == before["rows"], f"{how}: elsewhere it has other rows")
    bundle, packed = os.path.join(folder, "x.gpbundle"), os.path.join(folder, "x.zst")
    run("bundle", "-q", "-o", bundle, log)
    run("bundle", "--log", "-q", "-o", packed, log)
    for file in (bundle, packed):
        expect(json.loads(run("report", "--json", "--top", "100", file))["peaks"] == before["rows"], f"{how}: {file} has other rows")
    if how != "no_build_id":  # without a build-id nobody can tell that the file is another one
        expect_said_of_nameless(bare, other, how)


def check_choice(folder):
    program, log = build(folder, PROGRAM), os.path.join(folder, "x.gplog")
    rows = {}
    nothing = os.path.join(folder, "nothing")
    os.mkdir(nothing)
    for which in ("none", "own", "all"):
        record(log, program, options=("--names", which), GPUPEAK_HOST="full")
        os.rename(program, program + ".away")
        # With an empty folder as sysroot no file is found, so all names are kept ones.
        full = json.loads(run("report", "--json", "--top", "100", "--sysroot", nothing, log))
        os.rename(program + ".away", program)
        frames = [frame for peak in full["peaks"] for row in peak["holders"] for frame in row["stack"]]
        rows[which] = {frame["module"] for frame in frames if frame["function"]}
    name = os.path.basename(program)
    expect(not rows["none"], f"none: {rows['none']}")
    expect(rows["own"] - {"libgpupeak.so"} == {name}, f"own: {rows['own']}")  # the library of a build tree is not of a package
    expect(name in rows["all"] and any(module.startswith("libc.so") for module in rows["all"]), f"all: {rows['all']}")


def check_large_unit(folder):
    """Of thousands of functions of one unit, as of a program that is one file, each has its name, and what is inlined into it."""
    count = 3000
    lines = ["#include <stdlib.h>", f"void *kept[{count}];", "static inline __attribute__((always_inline)) void *rows(size_t bytes) { return malloc(bytes); }"]
    for i in range(count):
        lines.append(f"struct s{i} {{ int a{i}, b{i}, c{i}, d{i}, e{i}, f{i}, g{i}, h{i}; }};")
        lines.append(f'static __attribute__((noinline)) void fill_{i}(struct s{i} *s) {{ kept[{i}] = rows({100000 + i} + s->a{i}); __asm__ volatile(""); }}')
    lines.append("int main(void) {")
    lines += [f"  struct s{i} v{i} = {{0}}; fill_{i}(&v{i});" for i in range(count)]
    log = os.path.join(folder, "x.gplog")
    record(log, build(folder, "\n".join([*lines, "}", ""])), GPUPEAK_HOST="full")
    full = json.loads(run("report", "--json", "--top", str(2 * count), log))
    found = {row["site"] for peak in full["peaks"] for row in peak["holders"]}
    wanted = {f"rows program.c:3 ← fill_{i} program.c:{5 + 2 * i} ← main program.c:{5 + 2 * count + i}" for i in range(count)}
    expect(wanted <= found, f"{len(wanted - found)} of {count} are missing, such as {sorted(wanted - found)[:3]}; there are {sorted(found)[:3]}")


def main(folder):
    if not shutil.which("gcc"):
        raise Skipped("no gcc here")
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    if CASE == "choice":
        check_choice(folder)
    elif CASE == "large_unit":
        check_large_unit(folder)
    else:
        check_built_anew(folder, CASE)


run_case(main)
