#!/usr/bin/env python3
"""Where GPUPEAK_OUT may point: nothing but an old log or an empty file is ever replaced, and whatever stands there,
the program runs as without us.

usage: log_places.py LIBGPUPEAK GPUPEAK CASE PROGRAM
"""
import os
import pwd
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import LIBRARY, Skipped, environment, expect, logs, report, run_checks

CASE, PROGRAM = sys.argv[3:5]


def run(folder, out, **more):
    return subprocess.run([PROGRAM], env=environment(folder, True, GPUPEAK_OUT=out, **more), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)


def refused(folder, out, why):
    """The program is unharmed, and one line says that nothing is recorded."""
    native = subprocess.run([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    done = run(folder, out)
    lines = done.stderr.decode().splitlines()
    expect(done.returncode == native.returncode and done.stdout == native.stdout, f"{why}: the result differs: {done}")
    expect(len(lines) == 1 and "Nothing is recorded" in lines[0] and why in lines[0], f"{why}: stderr: {lines}")


def case_device(folder):
    if os.geteuid() != 0:
        raise Skipped("a device needs root")
    for name, minor in (("null", 3), ("full", 7)):
        device = os.path.join(folder, name)
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        refused(folder, device, "not a regular file")
        expect(stat.S_ISCHR(os.lstat(device).st_mode), f"{name} is a device no more")


def case_fifo(folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    refused(folder, fifo, "not a regular file")
    expect(stat.S_ISFIFO(os.lstat(fifo).st_mode), "the FIFO is gone")
    # Nobody writes into it either where rules are looked for.
    log = os.path.join(folder, "a.gplog")
    done = run(folder, log, GPUPEAK_POOL_RULES=fifo)
    expect(done.returncode == 0 and os.path.exists(log), f"rules: {done}")
    expect("cannot be read" in str(report(log)["quality"]["warnings"]), str(report(log)["quality"]))


def case_streams(folder):
    """/dev/stdout, a pipe here, is a link: never replaced, never waited for."""
    link = os.path.join(folder, "stdout")
    os.symlink("/proc/self/fd/1", link)
    refused(folder, link, "symbolic link")
    expect(os.path.islink(link), "the link is gone")


def case_files(folder):
    """Other files stay; an empty file and an old log are replaced; a folder is a folder."""
    for name, content in (("short", b"x"), ("text", b"some text\n" * 1000), ("zeros", bytes(8192))):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        refused(folder, path, "no log")
        with open(path, "rb") as file:
            expect(file.read() == content, f"{name} was changed")
    os.mkdir(os.path.join(folder, "folder"))
    refused(folder, os.path.join(folder, "folder"), "is a folder")
    out = os.path.join(folder, "a.gplog")
    with open(out, "wb"):
        pass
    for what in ("an empty file", "an old log"):
        done = run(folder, out)
        expect(done.returncode == 0 and not done.stderr, f"{what} is not replaced: {done}")
        report(out)
    expect(logs(folder) == [out], f"logs: {logs(folder)}")


def case_containers(folder):
    """Two containers with a folder in common, where processes have the same numbers: neither's log takes the other's place."""
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    if not shutil.which("unshare") or subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skipped("no PID namespaces here")
    out = os.path.join(folder, "a.gplog")
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "env", f"LD_PRELOAD={LIBRARY}", f"GPUPEAK_OUT={out}",
              "GPUPEAK_SUMMARY=off", PROGRAM, "wait"]
    running = []
    for i in range(3):
        container = subprocess.Popen(inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(container)
        expect(container.stdout.readline() == b"waiting\n", "a container did not start")
        expect(len(logs(folder)) == i + 1, f"{i + 1} containers run, the logs are {logs(folder)}")
    for container in running:
        container.communicate(b"\n")
        expect(container.returncode == 0, "a container failed")
    for log in logs(folder):
        expect(report(log)["quality"]["exact"], f"{log} is not exact")


def case_summary(folder):
    """The command that prints the summary runs only if nobody else could have put it there."""
    os.chmod(folder, 0o755)
    for sub in ("lib/gpupeak", "bin"):
        os.makedirs(os.path.join(folder, sub))
    library = os.path.join(folder, "lib/gpupeak/libgpupeak.so")
    shutil.copy(LIBRARY, library)
    command, ran = os.path.join(folder, "bin/gpupeak"), os.path.join(folder, "ran")
    with open(command, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n: > {ran}\n")

    def runs():
        if os.path.exists(ran):
            os.unlink(ran)
        done = run(folder, os.path.join(folder, "a.gplog"), LD_PRELOAD=library, GPUPEAK_SUMMARY="on")
        expect(done.returncode == 0, f"the result differs: {done}")
        expect(os.path.exists(ran) or b"Peak host heap" in done.stderr, f"no summary: {done.stderr}")
        return os.path.exists(ran)

    os.chmod(command, 0o755)
    expect(runs(), "our own command is not run")
    for mode in (0o775, 0o757):
        os.chmod(command, mode)
        expect(not runs(), f"a command that others may write ({mode:o}) was run")
    os.chmod(command, 0o755)
    os.chmod(os.path.dirname(command), 0o777)
    expect(not runs(), "a command in a folder that all may write was run")
    os.chmod(os.path.dirname(command), 0o755)
    if os.geteuid() == 0:
        os.chown(command, pwd.getpwnam("nobody").pw_uid, -1)
        expect(not runs(), "another user's command was run")


def pid_of(log):
    with open(log, "rb") as file:
        return struct.unpack_from("<I", file.read(76), 72)[0]


def case_start_together(folder):
    """Many that start at once, each with the name of an old log: as many logs as processes, none of them lost."""
    out = os.path.join(folder, "a.gplog")
    run(folder, out)
    env = environment(folder, True, GPUPEAK_OUT=out)
    for _ in range(5):
        before = set(logs(folder))
        together = [subprocess.Popen([PROGRAM, "wait"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                    for _ in range(24)]
        for program in together:
            expect(program.stdout.readline() == b"waiting\n", "a program did not start")
        pids = {program.pid for program in together}
        found = {pid_of(log) for log in logs(folder)}
        for program in together:
            program.communicate(b"\n")
        expect(pids <= found, f"{len(pids - found)} of {len(pids)} logs are lost; there were {len(before)} before")
        for log in logs(folder):
            if log != out:
                os.unlink(log)


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{CASE}"](folder)


run_checks(main)
