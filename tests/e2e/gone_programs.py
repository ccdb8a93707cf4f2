#!/usr/bin/env python3
"""Programs whose file nothing leads to any more when the run has ended: run from a memfd, removed by themselves or by the script that has
unpacked them, replaced while they run. The first screen and later reports have their names, and never those of the file in their place.

usage: gone_programs.py LIBGPUPEAK GPUPEAK memfd|removes_itself|unpacked|child|replaced|written_over|loader|library|debug_file|many|unmounted
"""
import glob
import os
import re
import shutil
import subprocess
import sys

from common import GPUPEAK, Skipped, environment, expect, run_case, write

CASE = sys.argv[3]

# argv[1]: how long it runs, in milliseconds; argv[2]: which file it removes first.
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) char *load_weights(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int main(int argc, char **argv) {
  if (argc > 2) unlink(argv[2]);
  char *volatile p = load_weights(50000000);
  usleep(1000 * atoi(argv[1]));
  return p == 0;
}
"""
NAMED = "load_weights program.c:5 ← main program.c:8"
# Another name at the same addresses.
OTHER = PROGRAM.replace("load_weights", "grow_a_cache")
USES_LIBRARY = r"""
#include <unistd.h>
char *load_weights(unsigned long);
int main(int argc, char **argv) { char *volatile p = load_weights(50000000); usleep(1200000); return p == 0; }
"""
IN_MEMORY = """
import os, sys
packed = os.memfd_create("packed")
os.write(packed, open(sys.argv[1], "rb").read())
os.execve(packed, ["packed", "300"], os.environ)
"""
REPLACE = "(sleep 0.4; cp {other} {program}.new; mv {program}.new {program}) & exec {start} {program} 900"


def build(folder, name="program", text=PROGRAM, flags=()):
    os.makedirs(os.path.join(folder, "source"), exist_ok=True)
    source, program = write(os.path.join(folder, "source"), "program.c", text), os.path.join(folder, name)
    done = subprocess.run(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-o", program, source, *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == 0, f"gcc: {done.stdout}")
    return program


def said(*command, folder, code=0):
    done = subprocess.run([GPUPEAK, *command], env=environment(folder, False), cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == code, f"{command} gives {done.returncode}: {done.stdout}")
    return done.stdout


def expect_named(folder, *command, named=NAMED):
    """The first screen of the run has this row, and so has the report."""
    log = os.path.join(folder, "x.gplog")
    screen = said("run", "-o", log, "--", *command, folder=folder)
    for text in (screen, said("report", "--full", log, folder=folder)):
        expect(bool(named) == bool(re.search(f"MiB +100.0 .*  {named or NAMED}", text)) and "grow_a_cache" not in text, f"{command}: {text}")
    expect(not named or "module missing" not in screen, screen)
    return screen


def case_memfd(folder):
    for name, flags in (("program", ()), ("without_id", ("-Wl,--build-id=none",))):
        expect_named(folder, sys.executable, "-c", IN_MEMORY, build(folder, name, flags=flags))


def case_removes_itself(folder):
    for flags in ((), ("-Wl,--build-id=none",), ("-no-pie",)):
        program = build(folder, flags=flags)
        expect_named(folder, program, "300", program)


def case_unpacked(folder):
    """By a script that waits for it, and removes it then."""
    build(folder)
    expect_named(folder, "sh", "-c", "d=$(mktemp -d) && cp program $d/p && $d/p 300 && rm -r $d")


def case_child(folder):
    """A child's child. Its log begins when the file is gone, and has its plain name."""
    program = build(folder)
    expect_named(folder, "sh", "-c", f"sh -c '{program} 600 {program}; true'; true")
    names = os.listdir(os.path.join(folder, "x.children"))
    expect(any(re.fullmatch(r"program\.\d+\.gplog", name) for name in names), f"{names}")


def case_replaced(folder):
    for flags in ((), ("-Wl,--build-id=none",)):
        program, other = build(folder, flags=flags), build(folder, "other", OTHER, flags)
        expect_named(folder, "sh", "-c", REPLACE.format(other=other, program=program, start=""))


def case_written_over(folder):
    """What ran is nowhere any more: no names, and no reason that is not so."""
    for flags in ((), ("-Wl,--build-id=none",)):
        program, other = build(folder, flags=flags), build(folder, "other", OTHER, flags)
        screen = expect_named(folder, "sh", "-c", f"{program} 300; cp {other} {program}", named=None)
        expect("is stripped" not in screen, screen)


def case_loader(folder):
    loaders = glob.glob("/lib64/ld-linux-*.so.*") + glob.glob("/lib/ld-linux-*.so.*")
    if not loaders:
        raise Skipped("no loader here")
    program, other = build(folder), build(folder, "other", OTHER)
    expect_named(folder, "sh", "-c", REPLACE.format(other=other, program=program, start=loaders[0]))


def case_library(folder):
    """One that the program begins with is built anew while it runs."""
    flags = ("-Dmain=unused", "-shared", "-fPIC")
    library, other = build(folder, "libweights.so", PROGRAM, flags), build(folder, "other", OTHER, flags)
    uses = build(folder, "uses", USES_LIBRARY, (library, f"-Wl,-rpath,{folder}"))
    build(folder, "libweights.so", PROGRAM, flags)
    expect_named(folder, "sh", "-c", f"(sleep 0.6; cp {other} new; mv new {library}) & exec {uses}", named="load_weights program.c:5 ← main program.c:4")


def case_debug_file(folder):
    """A stripped program that removes itself, with debug information beside it."""
    program = build(folder)
    for command in (("--only-keep-debug", "program", "program.debug"), ("--strip-all", "--add-gnu-debuglink=program.debug", "program")):
        subprocess.run(["objcopy", *command], cwd=folder, check=True)
    expect_named(folder, program, "300", program)


def case_many(folder):
    """Of a hundred files at most 64 are kept open; copies of one file share its names."""
    build(folder)
    log = os.path.join(folder, "x.gplog")
    said("run", "-q", "--children", "all", "-o", log, "--", "sh", "-c",
         "for i in $(seq 100); do cp program p$i; ./p$i 2500 p$i & done; wait", folder=folder)
    logs = glob.glob(os.path.join(folder, "x.children", "p*.gplog"))
    named = [log for log in logs if "load_weights program.c:5" in said("report", "--short", log, folder=folder)]
    expect(len(logs) == 100 == len(named), f"{len(named)} of {len(logs)} have names")


def case_unmounted(folder):
    """No file is kept open of which somebody wants to unmount the file system."""
    build(folder)
    os.mkdir(os.path.join(folder, "on"))
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", os.path.join(folder, "on")], check=False).returncode != 0:
        raise Skipped("no right to mount")
    for remove in ("", " on/p"):
        said("run", "-o", os.path.join(folder, "x.gplog"), "--", "unshare", "--mount", "sh", "-c",
             f"mount -t tmpfs none on && cp program on/p && on/p 300{remove} && umount on", folder=folder)


run_case(globals()["case_" + CASE])
