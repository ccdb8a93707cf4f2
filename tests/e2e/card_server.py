"""`gpupeak run` keeps a process that has NVML open, so that the program need not open it: card_server.py … PROGRAM DRIVER CASE

asked: the program's figures come from there, and NVML is not loaded into the program. killed, stopped: nobody answers, and the
program opens NVML itself. many_readings: it does so as well once it has asked often. without_cuda: no server begins. In all cases
the process's figure is known, all of it has a cause, and no process is left.
"""
import glob
import os
import sys

from common import GPUPEAK, Failed, expect, needs, record, report, run_case, write

PROGRAM, DRIVER, CASE = sys.argv[3:]
NVML = "libnvidia-ml.so"
SIGNALS = {"killed": "KILL", "stopped": "STOP"}


def of_run(variable):
    """Processes with this variable in their environment."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if variable.encode() in file.read().split(b"\0"):
                    yield path
        except OSError:
            continue


def has_nvml(folder):
    """Whether NVML was loaded into the program, by what the loader has told of it."""
    for path in glob.glob(os.path.join(folder, "loads.*")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if f"initialize program: {PROGRAM}" in text:
            return f"{NVML}.1" in text
    raise Failed("the loader tells nothing of the program")


def main(folder):
    log, figures = os.path.join(folder, "run.gplog"), os.path.join(folder, "figures")
    shared = {"LD_LIBRARY_PATH": DRIVER, "FAKE_CUDA_SHARED": figures, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": os.path.join(folder, "loads")}
    command = [PROGRAM]
    if CASE == "without_cuda":
        needs("pgrep")
        write(folder, "look.sh", "readlink /proc/$(pgrep -P $PPID -x gpupeak-cards)/exe")
        server = record(log, "sh", os.path.join(folder, "look.sh"), **shared).strip()
        expect(os.path.samefile(server, GPUPEAK), f"a server has begun: {server}")
        return
    if CASE in SIGNALS:
        needs("pkill")
        command = ["sh", "-c", f'pkill -{SIGNALS[CASE]} -P $PPID -x gpupeak-cards || exit 9; exec "$0"', PROGRAM]
    if CASE == "many_readings":
        shared |= {"FAKE_CUDA_DEVICES": "2"}
    record(log, *command, **shared)
    for _ in range(2):
        if CASE == "asked" and has_nvml(folder):  # on a busy machine the answer may have come too late
            for path in glob.glob(os.path.join(folder, "loads.*")):
                os.unlink(path)
            record(log, *command, **shared)
    view = report(log)["devices"][0]["ledger"]["at_exit"]
    expect(view["of_process"], f"the process's own figure is not known: {view}")
    expect({row["cause"]: row["bytes"] for row in view["rows"]}["unexplained"] == 0, f"{view}")
    expect(has_nvml(folder) == (CASE != "asked"), f"NVML is in the program: {has_nvml(folder)}")
    if list(of_run(f"FAKE_CUDA_SHARED={figures}")):
        raise Failed("a process of the run is left")


run_case(main)
