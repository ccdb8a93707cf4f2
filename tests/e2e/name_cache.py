"""Names that a report has looked up are kept. The next report does not read debug information again, and says the same. It does read again
as soon as a file has changed from which the names came, or might have come."""
import glob
import os
import re
import subprocess
import sys

from common import GPUPEAK, expect, record, run_case

PROGRAM = """
#include <stdlib.h>
const char filler[2 << 20] = {1};
__attribute__((noinline)) void *reserve_tables(size_t bytes) { return calloc(1, bytes); }
int main(void) { void *volatile p = reserve_tables(30 << 20); return p == 0; }
"""
NAME, LINE = "reserve_tables", re.compile(r"reserve_tables program\.c:4")


def run(*command):
    subprocess.run(command, check=True)


class Place:
    """A program that is large enough to be kept, its separate debug file, a log of it, and a cache of its own."""

    def __init__(self, folder, strip):
        self.program, self.debug, self.cache = (os.path.join(folder, name) for name in ("program", "program.debug", "cache"))
        source = self.program + ".c"
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        run("gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-o", self.program, source)
        run("objcopy", "--only-keep-debug", self.program, self.debug)
        run("objcopy", strip, f"--add-gnu-debuglink={self.debug}", self.program)
        self.log = os.path.join(folder, "log.gplog")
        record(self.log, self.program, options=["--names", "none"])

    def report(self, *options, cache=None):
        """The report's text, and the number of files whose symbols were read for it."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
        env.update(XDG_CACHE_HOME=cache or self.cache, GPUPEAK_WORK="1")
        done = subprocess.run([GPUPEAK, "report", "--short", *options, self.log], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=True)
        read = re.search(r"(\d+) files", done.stderr)
        expect(read, f"GPUPEAK_WORK says nothing of files: {done.stderr}")
        return done.stdout, int(read[1])

    def kept(self):
        return glob.glob(os.path.join(self.cache, "gpupeak/names/*"))


def same_again(folder):
    place = Place(folder, "--strip-all")
    cold, read = place.report()
    expect(LINE.search(cold) and read > 0, f"{read} files read: {cold}")
    warm, again = place.report()
    expect(warm == cold, f"another text when names are kept:\n{cold}\n{warm}")
    expect(again < read - 1, f"{again} files are read again, of {read}")  # small files are read again
    for path in place.kept():
        with open(path, "r+b") as file:
            content = bytearray(file.read())
            content[len(content) // 2] ^= 1
            file.seek(0)
            file.write(content)
    damaged, again = place.report()
    expect(damaged == cold and again == read, f"a damaged cache: {again} files read\n{damaged}")


def any_report(folder):
    """A text report keeps names, too, though it ends its process without freeing what it read."""
    place = Place(folder, "--strip-all")
    env = os.environ | {"XDG_CACHE_HOME": place.cache}
    whole = subprocess.run([GPUPEAK, "report", place.log], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(LINE.search(whole), whole)
    _, read = place.report(cache=os.path.join(folder, "empty"))
    _, again = place.report()
    expect(again < read - 1, f"{again} files are read again after a report that shows all, of {read}")


def debug_file_goes(folder):
    place = Place(folder, "--strip-all")
    expect(LINE.search(place.report()[0]), "no names at first")
    os.rename(place.debug, place.debug + ".away")
    text, _ = place.report()
    expect(NAME not in text, f"names of a file that is gone:\n{text}")
    os.rename(place.debug + ".away", place.debug)
    expect(LINE.search(place.report()[0]), "no names when the file is there again")


def debug_file_comes(folder):
    place = Place(folder, "--strip-debug")  # its symbols stay: a name without a line
    os.rename(place.debug, place.debug + ".away")
    text, _ = place.report()
    expect(NAME in text and not LINE.search(text), f"lines from nowhere:\n{text}")
    expect(place.kept(), "nothing is kept")
    os.rename(place.debug + ".away", place.debug)
    text, _ = place.report()
    expect(LINE.search(text), f"no lines, though the debug file is there now:\n{text}")


def confidential(folder):
    place = Place(folder, "--strip-all")
    text, read = place.report("--confidential")
    expect(read > 0 and NAME not in text, text)
    expect(not place.kept(), "names of a confidential report are kept")
    expect(LINE.search(place.report()[0]) and place.kept(), "nothing is kept")


run_case({f.__name__: f for f in (same_again, any_report, debug_file_goes, debug_file_comes, confidential)}[sys.argv[3]])
