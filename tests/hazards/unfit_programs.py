#!/usr/bin/env python3
"""Programs that cannot be recorded: beside a sanitizer's runtime, or with another C library than glibc. They run as without
the preload, a line says why there is no log, and those that they are called from are recorded.

usage: unfit_programs.py LIBGPUPEAK GPUPEAK CASE PROGRAM_SOURCE

CASE: COMPILER_SANITIZER, or musl.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import Skipped, environment, expect, report, run_checks

CASE, SOURCE = sys.argv[3:5]
CAUSE = "its C library is not glibc" if CASE == "musl" else "it has a sanitizer's runtime"
LINE = f"gpupeak: this program is not recorded: {CAUSE}\n"


def compiled(folder):
    program = os.path.join(folder, "program")
    if CASE == "musl":
        command = ["musl-gcc"]
    else:
        compiler, sanitizer, *rest = CASE.split("_")
        command = [compiler, "-fsanitize=" + sanitizer] + (["-shared-libasan"] if rest else [])
        if rest:
            file = subprocess.run([compiler, "-print-file-name=libclang_rt.asan-x86_64.so"], stdout=subprocess.PIPE,
                                  check=False).stdout.decode().strip()
            command.append("-Wl,-rpath," + os.path.dirname(file))
    if not shutil.which(command[0]):
        raise Skipped(f"no {command[0]}")
    done = subprocess.run(command + ["-g", "-O1", "-pthread", SOURCE, "-o", program], stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Skipped(f"{command} does not work here: {done.stderr.decode()[-200:]}")
    if subprocess.run([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 7:
        raise Skipped("such a program does not run here")
    return program


def run(command, folder, preload=False, **more):
    return subprocess.run(command, env=environment(folder, preload, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=False)


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder)
        log = os.path.join(folder, "a.gplog")
        native = run([program], folder)
        preloaded = run([program], folder, preload=True, GPUPEAK_OUT=log)
        expect((preloaded.returncode, preloaded.stdout) == (native.returncode, native.stdout), f"{preloaded}, not {native}")
        expect(preloaded.stderr.decode() == LINE + native.stderr.decode(), f"stderr: {preloaded.stderr}")
        expect(not os.path.exists(log), "there is a log")
        if "address" in CASE:
            told = run([program, "10"], folder, preload=True, GPUPEAK_OUT=log)
            expect(told.returncode == 1 and b"heap-buffer-overflow" in told.stderr, f"the fault was not found: {told}")
        script = f"{program}; echo the script goes on"
        called = run(["sh", "-c", script], folder, preload=True, GPUPEAK_OUT=log)
        expect(called.stdout == run(["sh", "-c", script], folder).stdout and called.stderr == b"", f"in a script: {called}")
        report(log)


run_checks(main)
