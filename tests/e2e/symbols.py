"""Functions of a program whose files are gone, moved or of another build: their names come from LOG.symbols, a bundle, --sysroot,
--debug-dir and a debuginfod server. A file that is not the one that ran is never used."""
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading

from common import GPUPEAK, Skipped, expect, run_checks

PROGRAM = r"""
#include <stdlib.h>
__attribute__((noinline)) void *reserve_tables(size_t bytes) { return calloc(1, bytes); }
__attribute__((noinline)) void *%s(size_t bytes) { void *p = reserve_tables(bytes); __asm__ volatile("" ::: "memory"); return p; }
int main(void) { void *volatile p = %s(30 << 20); return p == 0; }
"""
SITE = re.compile(r"reserve_tables program\.c:3 ← load_model program\.c:4 ← main program\.c:5")


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if k not in ("DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH")}
    environment.update(options.pop("env", {}))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
    expect(done.returncode == options.get("code", 0),
           f"{command} gives {done.returncode}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode(), done.stderr.decode()


def compile_program(path, function="load_model"):
    source = path + ".c"
    with open(source, "w") as file:
        file.write(PROGRAM % (function, function))
    run("gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", "-o", path, source)
    os.unlink(source)


def report(log, *options, **more):
    return run(GPUPEAK, "report", *options, log, **more)[0]


def expect_names(text, how):
    expect(SITE.search(text), f"{how}: no names: {text[:2500]}")


def expect_no_names(text, code, how):
    expect("reserve_tables" not in text, f"{how}: names of a file that is not there: {text[:2500]}")
    expect(code in text, f"{how}: {code} is not said: {text[:2500]}")


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def debuginfod(folder, log, debug_file, build_id):
    if subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, check=False).stdout.find(b"libdebuginfod.so.1") < 0:
        print("no libdebuginfod here: servers were not tried")
        return
    served = os.path.join(folder, "served/buildid", build_id)
    os.makedirs(served)
    shutil.copy(debug_file, os.path.join(served, "debuginfo"))
    handler = functools.partial(Handler, directory=os.path.join(folder, "served"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        text = report(log, env={"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}", "no_proxy": "127.0.0.1",
                                "DEBUGINFOD_CACHE_PATH": os.path.join(folder, "cache")})
    finally:
        server.shutdown()
    expect_names(text, "debuginfod")


def main():
    if not shutil.which("gcc") or not shutil.which("objcopy"):
        raise Skipped("no gcc or objcopy here")
    with tempfile.TemporaryDirectory() as folder:
        program, log = os.path.join(folder, "program"), os.path.join(folder, "x.gplog")
        bundle, packed = os.path.join(folder, "x.gpbundle"), log + ".zst"
        debug, root, away = (os.path.join(folder, name) for name in ("debug", "root", "away"))
        compile_program(program)
        run(GPUPEAK, "run", "-q", "--names", "none", "-o", log, "--", program)
        expect_names(report(log), "as it ran")
        _, message = run(GPUPEAK, "bundle", log)
        expect(re.search(r"\d+ of \d+ addresses have a function", message), message)
        _, message = run(GPUPEAK, "bundle", "--log", log)
        expect(re.search(r"x.gplog.zst: [\d.]+ [KM]iB of [\d.]+ [KM]iB", message), message)
        run(GPUPEAK, "bundle", "--symbols", log)
        for made in (bundle, packed, log + ".symbols"):
            expect(os.stat(made).st_mode & 0o777 == os.stat(log).st_mode & 0o777 == 0o600, f"{made} is less private than the log")
        os.rename(log + ".symbols", log + ".aside")
        expect(os.path.getsize(packed) < os.path.getsize(log), "compress does not")

        os.makedirs(debug + program[:program.rfind("/")])
        run("objcopy", "--only-keep-debug", program, debug + program + ".debug")
        run("strip", program)
        build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", program)[0]).group(1)
        os.makedirs(root + folder)
        shutil.move(program, away)

        expect_no_names(report(log), "GP025", "the file is gone")
        expect_names(report(bundle), "bundle")
        codes = {w["code"] for w in json.loads(run(GPUPEAK, "report", "--json", bundle)[0])["quality"]["warnings"]}
        expect(not codes & {"GP025", "GP026"}, f"a bundle misses what it has brought along: {codes}")
        expect_names(run(GPUPEAK, "export", "events", bundle)[0] and report(bundle), "bundle again")
        expect_no_names(report(packed), "GP025", "compressed")
        run(GPUPEAK, "bundle", "--log", bundle)
        expect_names(report(bundle + ".zst"), "a bundle, compressed again")
        expect_names(report(log, "--debug-dir", debug), "--debug-dir by path")
        by_id = os.path.join(folder, "by_id")
        os.makedirs(os.path.join(by_id, ".build-id", build_id[:2]))
        shutil.copy(debug + program + ".debug", os.path.join(by_id, ".build-id", build_id[:2], build_id[2:] + ".debug"))
        expect_names(report(log, "--debug-dir", by_id), "--debug-dir by build-id")
        debuginfod(folder, log, debug + program + ".debug", build_id)
        shutil.copy(away, root + program)
        text = report(log, "--sysroot", root, "--debug-dir", debug)
        expect_names(text, "--sysroot, stripped, with its debug file")
        os.rename(log + ".aside", log + ".symbols")
        expect_names(report(log), "LOG.symbols")
        os.unlink(log + ".symbols")

        compile_program(program, "load_weights")
        expect_no_names(report(log), "GP026", "another build lies there")
        compile_program(root + program, "load_weights")
        expect_no_names(report(log, "--sysroot", root), "GP026", "another build lies in the sysroot")

        with open(bundle, "r+b") as file:
            file.truncate(os.path.getsize(bundle) - 100)
        _, message = run(GPUPEAK, "report", bundle, code=3)
        expect("cut off" in message, message)


run_checks(main)
