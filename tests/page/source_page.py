"""Pages with lines of source: a program compiled here, a script, and what becomes of both when their files change."""
import os
import shutil
import subprocess
import sys
import time

import arenas_log

MIB = 1 << 20
PROGRAM = """\
#include <stdlib.h>
#include <string.h>
namespace net {
\t// weights: 24 MiB, <b>half</b> of a half
__attribute__((noinline)) char* load(size_t bytes) {
  return static_cast<char*>(memset(malloc(bytes), 1, bytes));
}
__attribute__((noinline)) char* build(int layers) {
  char* all = nullptr;
  for (int i = 0; i < layers; ++i)
    all = load(8 << 20);
  return all;
}
}  // namespace net
int main() {
  char* weights = net::build(3);
  char* more = net::load(4 << 20);
  return weights[0] + more[0] - 2;
}
"""
SCRIPT = """\
import mmap
# <script>window.hacked=1</script>
def load(rows):
    return mmap.mmap(-1, rows << 20)  # é
def main():
    kept = [load(16), load(8)]
    return len(kept)
main()
"""


class Sources:
    def __init__(self, gpupeak, folder):
        self.gpupeak = gpupeak
        self.folder = os.path.join(folder, "files")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        time.sleep(0.02)  # what is made of it is younger, by the file system's clock
        return self.path(name)

    def compile(self, name):
        subprocess.run(["g++", "-O1", "-g", "-fno-optimize-sibling-calls", "-Wl,--build-id", "-o", self.path(name), self.path(name + ".cc")], check=True)
        return self.path(name)

    def record(self, name, *command):
        log = self.path(name + ".gplog")
        subprocess.run([self.gpupeak, "run", "-q", "-o", log, "--", *command], check=True, stdout=subprocess.DEVNULL)
        return log

    def page(self, log, *options):
        page = log.replace(".gplog", "".join(options) + ".html")
        subprocess.run([self.gpupeak, "report", "--html", page, *options, log], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return page


def shown(page):
    """Of each file that the page has lines of its name and these lines, by number; then the names of those that have changed."""
    run = arenas_log.page_data(page)["runs"][0]
    lines, changed = {}, []
    for path, *pieces in run["files"]:
        name = os.path.basename(run["strings"][path]) if path >= 0 else ""
        if pieces:
            lines[name] = {first + i: run["strings"][text] for first, *texts in pieces for i, text in enumerate(texts)}
        elif path >= 0:
            changed.append(name)
    return lines, changed


def held(page, scope="host"):
    """Of each line what it held at the peak, by file and number."""
    run = arenas_log.page_data(page)["runs"][0]
    flat = next(one for one in run["scopes"] if one["name"] == scope)["lines"]
    path = [os.path.basename(run["strings"][file[0]]) if file[0] >= 0 else "" for file in run["files"]]
    return {(path[flat[i]], flat[i + 1]): flat[i + 2] for i in range(0, len(flat), 3)}


def check_program(files):
    """The page to look at; pages of what has changed are compared here."""
    files.write("net.cc", PROGRAM)
    log = files.record("net", files.compile("net"))
    page = files.page(log)
    lines, changed = shown(page)
    text = PROGRAM.replace("\t", "    ").splitlines()
    assert changed == [] and lines["net.cc"] == {i + 1: text[i] for i in range(1, 19)}, (lines, changed)
    of = held(page)
    assert [of["net.cc", line] for line in (6, 11, 16, 17)] == [28 * MIB, 24 * MIB, 24 * MIB, 4 * MIB], of
    for options in (("--no-source",), ("--confidential",)):
        nothing = files.page(log, *options)
        assert shown(nothing) == ({}, []), options
        with open(nothing, encoding="utf-8") as file:
            assert "of a half" not in file.read(), options
    # A script that sits on another machine's path has nothing to do with it.
    elsewhere = files.path("elsewhere.gplog")
    subprocess.run(["unshare", "-u", "sh", "-c", 'hostname another && exec "$@"', "-", files.gpupeak, "run", "-q", "-o", elsewhere, "--", files.path("net")],
                   check=False, stderr=subprocess.DEVNULL)
    if os.path.exists(elsewhere):
        assert shown(files.page(elsewhere)) == ({}, [])
    return page


def check_changes(files):
    """Written, cut or put back since the program was built; the program built anew."""
    files.write("old.cc", PROGRAM)
    log = files.record("old", files.compile("old"))
    assert "old.cc" in shown(files.page(log))[0]
    times = os.stat(files.path("old.cc"))
    files.write("old.cc", PROGRAM.replace("load(4 <<", "load(5 <<"))
    assert shown(files.page(log)) == ({}, ["old.cc"]), "it was written since"
    os.utime(files.path("old.cc"), ns=(times.st_atime_ns, times.st_mtime_ns))
    assert shown(files.page(log)) == ({}, ["old.cc"]), "its time was set back"
    late = files.record("late", files.path("old"))
    assert shown(files.page(late)) == ({}, ["old.cc"]), "the program is older than its source"
    files.compile("old")
    assert shown(files.page(log)) == ({}, []), "of a program that is gone nobody knows when it was built"
    os.unlink(files.path("old.cc"))
    again = files.record("again", files.path("old"))
    assert shown(files.page(again)) == ({}, [])


def check_script(files):
    script = files.write("train.py", SCRIPT)
    log = files.record("train", "/usr/bin/python3", script)
    page = files.page(log)
    lines, changed = shown(page)
    text = SCRIPT.splitlines()
    assert changed == [] and lines["train.py"] == {i + 1: line for i, line in enumerate(text)}, (lines, changed)
    of = held(page)
    assert [of["train.py", line] >= 24 * MIB for line in (4, 6, 8)] == [True] * 3, of
    kept = shutil.copy(page, files.path("script.html"))
    files.write("train.py", "\n" + SCRIPT)
    assert shown(files.page(log)) == ({}, ["train.py"])
    return kept


def pages(gpupeak, folder):
    if not shutil.which("g++"):
        print("no g++ here")
        sys.exit(77)
    files = Sources(gpupeak, folder)
    program = check_program(files)
    check_changes(files)
    return program, check_script(files)
