#!/usr/bin/env python3
"""`gpupeak run` starts the program whatever becomes of the recording, and runs no code of the folder it is called in.

usage: run_anyway.py LIBGPUPEAK GPUPEAK CASE [FILE…]

Exit code 0: held; 1: did not; 77: cannot be tried on this machine.
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import expect, report, run_checks, Skipped

LIBRARY, GPUPEAK, CASE = sys.argv[1:4]
PROGRAM = ["/bin/sh", "-c", "echo out; exit 7"]


def run(folder, *options, command=GPUPEAK, program=None, prepare=None, **more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GPUPEAK_")}
    variables.update(HOME=folder, XDG_CACHE_HOME=os.path.join(folder, "cache"), **more)
    return subprocess.run([command, "run", *options, "--", *(program or PROGRAM)], cwd=folder, env=variables, preexec_fn=prepare,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)


def ran(done):
    expect(done.returncode == 7 and done.stdout == b"out\n", f"exit {done.returncode}, {done.stdout!r}, {done.stderr!r}")
    return done.stderr.decode()


def case_removed_folder(folder):
    gone = os.path.join(folder, "gone")
    os.mkdir(gone)

    def leave():
        os.chdir(gone)
        os.rmdir(gone)
    said = ran(run(folder, prepare=leave))
    expect("othing" in said, f"it is not said that nothing is recorded: {said!r}")


def case_descriptors(folder):
    ran(run(folder, prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))))


def case_file_limit(folder):
    for limit in (1024, 4096, 64 << 10):
        ran(run(folder, prepare=lambda size=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))))


def case_unwritable(folder):
    for place in ("/proc/none.gplog", "/nowhere/at/all.gplog", os.path.join(folder, "x" * 300)):
        said = ran(run(folder, "-o", place))
        if not place.startswith(folder):
            expect(len(said.splitlines()) == 1, f"it is not said once: {said}")


def case_no_library(folder):
    """A command that was copied without its library."""
    os.mkdir(os.path.join(folder, "bin"))
    command = shutil.copy(GPUPEAK, os.path.join(folder, "bin/gpupeak"))
    expect("libgpupeak.so is not beside" in ran(run(folder, command=command)), "not said")


def case_no_program(folder):
    """125 to 127 are kept for what they say."""
    expect(run(folder, program=["/nowhere"]).returncode == 127, "no program: not 127")
    expect(run(folder, program=[folder]).returncode == 126, "a folder: not 126")


def case_space_in_path(folder):
    """LD_PRELOAD cannot hold the library's path. The name that it holds is good after `run` has ended, and nobody else's."""
    for place in ("a folder/tools", "a folder/preload"):
        os.makedirs(os.path.join(folder, place))
    command = shutil.copy(GPUPEAK, os.path.join(folder, "a folder/tools/gpupeak"))
    shutil.copy(LIBRARY, os.path.join(folder, "a folder/preload/libgpupeak.so"))
    log = os.path.join(folder, "log.gplog")
    later = 'echo "$LD_PRELOAD"; (sleep 1; exec >/dev/null; /bin/true 2>late) & exit 7'
    done = run(folder, "-q", "-o", log, command=command, program=["/bin/sh", "-c", later])
    expect(done.returncode == 7, f"exit {done.returncode}, {done.stderr!r}")
    report(log)
    name = done.stdout.decode().split()[0]
    expect(not name.startswith("/proc/") and os.path.samefile(name, os.path.join(folder, "a folder/preload/libgpupeak.so")),
           f"LD_PRELOAD: {name}")
    holder = os.lstat(os.path.dirname(os.path.dirname(name)))
    expect(holder.st_uid == os.geteuid() and holder.st_mode & 0o022 == 0, f"others can write beside {name}")
    time.sleep(1.5)
    expect(open(os.path.join(folder, "late")).read() == "", "a process that is left behind cannot load it")


def case_counted(folder):
    """What the log has no room for the counters page knows: no gate passes on less. FILEs: a program, the simulated driver."""
    program, driver = sys.argv[4:6]
    log = os.path.join(folder, "log.gplog")
    done = run(folder, "-o", log, program=[program], LD_LIBRARY_PATH=os.path.dirname(driver),
               prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10)))
    expect(done.returncode == 0 and done.stdout == b"ok\n", f"exit {done.returncode}, {done.stderr!r}")
    summary = report(log)
    expect(summary["metrics"]["device.peak_bytes"] >= 3 << 30, f"peak {summary['metrics']['device.peak_bytes']}")
    for peak in summary["peaks"]:
        total = sum(holder["bytes"] for holder in peak["holders"]) + peak["other_bytes"]
        expect(total == peak["bytes"], f"{peak['scope']}: holders add up to {total} of {peak['bytes']}")
    gate = subprocess.run([GPUPEAK, "check", log, "--max", "device.peak_bytes=1GiB"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    expect(gate.returncode == 1, f"check: exit {gate.returncode}, {gate.stderr!r}")


def case_audited_by_others(folder):
    """Where another library audits the loader, that allocates before libc begins. FILE: such a library."""
    log = os.path.join(folder, "a.gplog")
    ran(run(folder, "-o", log, LD_AUDIT=sys.argv[4]))
    metrics = subprocess.run([GPUPEAK, "metrics", "--strict", log], capture_output=True, text=True, check=False)
    expect(metrics.returncode == 0, f"the log is not complete: {metrics.stderr}")


def case_audit_room(folder):
    """With --audit as many libraries can be opened that need static thread-local storage. FILEs: a program, such a library."""
    program, library = sys.argv[4:6]
    copies = [shutil.copy(library, os.path.join(folder, f"l{i}.so")) for i in range(40)]
    alone = int(subprocess.run([program, *copies], stdout=subprocess.PIPE, check=True).stdout)
    audited = int(run(folder, "--audit", "-q", program=[program, *copies]).stdout)
    expect(audited >= alone, f"{alone} libraries could be opened, with --audit {audited}")


def case_run_paths(folder):
    """Neither the command nor what is beside it looks for libraries in the current folder."""
    if shutil.which("readelf") is None:
        raise Skipped("there is no readelf")
    needed = []
    for file in (GPUPEAK, LIBRARY):
        for line in subprocess.run(["readelf", "-d", file], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
            value = line[line.find("[") + 1:line.rfind("]")]
            if "(NEEDED)" in line:
                needed.append(value)
            if "(RPATH)" in line or "(RUNPATH)" in line:
                expect(all(entry.startswith(("/", "$ORIGIN")) for entry in value.split(":")), f"{file}: {value}")
    for name in needed:
        open(os.path.join(folder, name), "w").close()
    done = subprocess.run([GPUPEAK, "--version"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"a library of the current folder is loaded: {done.stderr!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_checks(lambda: globals()["case_" + CASE](work))
