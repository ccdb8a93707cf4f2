#!/usr/bin/env python3
"""`gpupeak attach` records a program that runs already, and `detach` leaves it again.

usage: attach.py LIBGPUPEAK GPUPEAK THREADS_PROGRAM DEVICE_PROGRAM FORKS_PROGRAM PLUGIN FAKE_CUDA CASE [TIMES]
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from attach_common import expect_nothing_leads_into_library
from common import LIBRARY, Program, Skipped, environment, expect, expect_consistent, expect_nothing_dropped, gpupeak, report, run_checks, warning, windows_of

THREADS, DEVICE, FORKS, PLUGIN, FAKE_CUDA, CASE = sys.argv[3:9]
TIMES = int(sys.argv[9]) if len(sys.argv) > 9 else 100  # more by hand


class Attached(Program):
    def __init__(self, folder, *command, **more):
        super().__init__(os.path.join(folder, "a.gplog"), command, {**environment(folder, False), **more})

    def number(self, line):
        return int(self.tell(line).split()[-1])

    def attach(self, *options):
        code, text = gpupeak("attach", "-o", self.log, *options, self.pid)
        expect(code == 0 and "is recorded from now on" in text, f"attach gives {code}: {text}")
        self.log = re.search(r"now on in (\S+) ", text).group(1)

    def detach(self):
        code, text = gpupeak("detach", self.pid)
        expect(code == 0 and "is left" in text and "hold something else" not in text, f"detach gives {code}: {text}")


def kept(summary, scope):
    peak = [p for p in summary["peaks"] if p["scope"] == scope]
    expect(len(peak) == 1, f"{scope}: {[p['scope'] for p in summary['peaks']]}")
    return {h["stack"][0]["function"]: h["bytes"] for h in peak[0]["holders"]}


def expect_consistent_from_there(summary):
    expect_consistent(summary)
    codes = {w["code"] for w in summary["quality"]["warnings"]}
    expect(not codes & {"GP005", "GP027", "GP028", "GP030"}, f"{summary['quality']['warnings']}")


def heap(folder):
    """The memory since the attach, and its holders, are exact. Frees of older blocks are no errors."""
    program = Attached(folder, THREADS, "2")
    program.tell("hold")
    program.tell("keep 1000 100")
    program.attach()
    before = program.number("keep 300 1000")
    dropped = program.number("drop 400")  # these, and 100 from before
    kept_now = program.number("keep 500 2000")
    code, text = gpupeak("report", program.pid)
    expect(code == 0 and "keep" in text and "attached at +0" in text, text)
    program.detach()
    program.tell("keep 100 5000")  # is not recorded
    program.tell("go")
    program.end()
    summary = report(program.log)
    expect_consistent_from_there(summary)
    expect(kept(summary, "host")["keep"] == 1_000_000, f"{kept(summary, 'host')}")
    (_, begin), (_, end) = windows_of(program.log)
    expect(begin["recorded"] == 0 and end["recorded"] == kept_now, f"{end}: {kept_now} usable bytes are live of what was recorded")
    expect(end["freed"] == dropped - before and end["frees"] == 100, f"{end}: {dropped - before} in 100 blocks were freed of before")
    expect("of the process were resident then" in warning(summary, "GP062"), warning(summary, "GP062"))
    for name in ("host.peak_bytes", "host.kind.heap.peak_bytes", "host.kind.mmap_anon.peak_bytes"):
        expect(summary["metrics"][name] is None, f"{name} is not known")


def load(folder):
    """Attaches many times while eight threads allocate all the time. Each log's sum is what the threads did, and nothing stays in the program."""
    program = Attached(folder, THREADS, "8")
    for i in range(TIMES):
        program.log = os.path.join(folder, f"{i}.gplog")
        program.attach("--host", ("full", "sampled", "auto")[i % 3])
        if i % 5 == 0:
            kept_now = program.number("keep 100 3000")
        program.detach()
        if i % 5 == 0:
            summary = report(program.log)
            expect_consistent_from_there(summary)
            if i % 3 == 0:
                (_, begin), (_, end) = windows_of(program.log)
                expect(end["recorded"] >= kept_now, f"{end}: {kept_now} are live of what was recorded")
            program.tell("drop 100")
        os.remove(program.log)
    expect_nothing_leads_into_library(program.pid)
    program.tell("hold")
    program.tell("go")
    program.end()


def device(folder):
    """Calls by name, and through a table that was filled before the attach. After the detach the table is as it was."""
    program = Attached(folder, DEVICE, LD_LIBRARY_PATH=FAKE_CUDA)
    program.tell("table 10 1048576")
    program.attach()
    expect(program.number("hooked") == 2, "the table leads to hooks")
    program.tell("table 3 2097152")
    program.tell("name 4 1048576")
    program.tell("free 12")  # 7 of these, 5 from before
    program.tell("table 2 4194304")
    program.detach()
    expect(program.number("hooked") == 0, "the table is as it was")
    program.tell("table 5 1048576")
    expect_nothing_leads_into_library(program.pid)
    first = report(program.log)
    program.log = os.path.join(folder, "second.gplog")
    program.attach()
    program.tell("free 3")
    program.detach()
    second = report(program.log)
    program.end(3)
    for summary in (first, second):
        expect_consistent_from_there(summary)
    expect(first["metrics"]["device.peak_bytes"] == 10 << 20, f"{first['metrics']['device.peak_bytes']}")
    expect(first["metrics"]["device.live_bytes"] == 8 << 20, f"{first['metrics']['device.live_bytes']}")
    expect("5 frees went to device memory from before" in warning(first, "GP062"), warning(first, "GP062"))
    expect("3 frees went to device memory from before" in warning(second, "GP062"), warning(second, "GP062"))


def expect_gate(log, metric, limit, passes, said=""):
    code, text = gpupeak("check", log, "--max", f"{metric}={limit}")
    expect(code == (0 if passes else 1) and said in text, f"{metric}={limit} gives {code}: {text}")


def growth(folder):
    """The growth since the attach equals the program's own account, and gates use it. A program that only replaces blocks has not grown."""
    metric = "host.kind.heap.growth_bytes"
    for number, host in enumerate(("full", "sampled", "counters")):
        program = Attached(folder, THREADS, "4")
        program.tell("keep 1000 3000")
        first = program.number("hold")
        program.attach("--host", host)
        program.tell("go")
        program.tell("drop 700")
        program.tell("keep 300 3000")
        program.tell("keep 900 5000")
        second = program.number("hold")
        program.detach()
        grown = report(program.log)["metrics"][metric]
        slack = 6 * (64 << 10) if host == "counters" else 0  # each thread has counters of its own
        expect(abs(grown - (second - first)) <= slack and grown > 2_000_000, f"--host {host}: {grown}, the program has grown by {second - first}")
        expect_gate(program.log, metric, grown, True)
        expect_gate(program.log, metric, grown - 1, False, "over the limit")
        program.log = os.path.join(folder, f"steady{number}.gplog")
        program.attach("--host", host)
        program.tell("drop 900")
        program.tell("keep 890 5000")
        expect(program.number("hold") < second, "it has shrunk")
        program.detach()
        expect(report(program.log)["metrics"][metric] == 0, "it has not grown")
        expect_gate(program.log, metric, 0, True)
        program.tell("go")
        program.end()


def device_growth(folder):
    """The same for a GPU: frees of older memory are known from the driver's figures. Gates on other metrics fail for an attached program."""
    program = Attached(folder, DEVICE, LD_LIBRARY_PATH=FAKE_CUDA)
    program.tell("table 10 1048576")
    program.attach()
    program.tell("free 5")
    program.tell("name 5 1048576")
    program.detach()
    expect_gate(program.log, "device.growth_bytes", 0, True)
    expect_gate(program.log, "device.growth_peak_bytes", 0, True)
    expect_gate(program.log, "device.peak_bytes", "1GiB", False, "what it held before is not in it")
    program.log = os.path.join(folder, "grows.gplog")
    program.attach()
    program.tell("table 3 2097152")
    program.tell("free 1")
    program.detach()
    program.end(3)
    metrics = report(program.log)["metrics"]
    expect((metrics["device.growth_bytes"], metrics["device.growth_peak_bytes"]) == (4 << 20, 6 << 20), f"{metrics}")
    expect_gate(program.log, "device.growth_peak_bytes", (6 << 20) - 1, False, "over the limit")
    code, text = gpupeak("report", program.log)
    sentence = text.splitlines()[1]
    expect(code == 0 and sentence.startswith("attached at +0: figures are of what was allocated since then, and exact;") and "NOT EXACT" not in text, text)
    expect("grown while it was recorded: 4.00 MiB of GPU memory (6.00 MiB at most)" in text, text)


def heap_table(folder):
    """Calls through pointers that the program keeps on its heap are not seen. Then no growth is given, and that is said first."""
    program = Attached(folder, DEVICE, LD_LIBRARY_PATH=FAKE_CUDA)
    program.tell("table 4 16777216")
    program.attach()
    program.tell("heap 3 67108864")
    program.tell("name 2 2097152")
    program.detach()
    summary = report(program.log)
    said = warning(summary, "GP062")
    expect("NOT ALL of GPU memory: the driver says that 192 MiB (201326592 bytes) more are in use" in said and "exact" not in said, said)
    metrics = summary["metrics"]
    expect((metrics["device.growth_bytes"], metrics["device.growth_peak_bytes"]) == (None, None), f"{metrics}")
    expect_gate(program.log, "device.growth_bytes", "1GiB", False)
    program.log = os.path.join(folder, "frees.gplog")
    program.attach()
    program.tell("free 9")  # frees all that there is; every free is seen
    program.tell("name 3 20971520")
    program.detach()
    program.end(3)
    summary = report(program.log)
    expect("NOT ALL" not in warning(summary, "GP062") and summary["metrics"]["device.growth_bytes"] == 0, f"{summary['metrics']}")


def imported(folder):
    """A free of memory that was imported through another interface frees no memory of the program. That is not always clear: then growth is not known."""
    program = Attached(folder, DEVICE, LD_LIBRARY_PATH=FAKE_CUDA)
    program.tell("import 16777216")  # too little for the driver's figure to show it
    program.attach()
    program.tell("name 2 2097152")
    program.tell("drop")
    program.detach()
    program.end(3)
    metrics = report(program.log)["metrics"]
    expect((metrics["device.growth_bytes"], metrics["device.live_bytes"]) == (None, 4 << 20), f"{metrics}")


def python(folder):
    script = ("import sys\nprint('ready', flush=True)\nkept = []\n"
              "def fill():\n    kept.append(bytearray(50_000_000))\n"
              "for line in sys.stdin:\n    fill()\n    print(len(kept), flush=True)\nprint('done')\n")
    program = Attached(folder, sys.executable, "-c", script)
    program.tell("")
    program.attach()
    program.tell("")
    program.tell("")
    program.detach()
    summary = report(program.log)
    program.tell("")
    program.log = os.path.join(folder, "second.gplog")
    program.attach()
    program.detach()
    expect_nothing_leads_into_library(program.pid)
    program.end()
    expect_consistent_from_there(summary)
    peak = [p for p in summary["peaks"] if p["scope"] == "host"][0]
    held = [h for h in peak["holders"] if h["bytes"] >= 100_000_000]
    expect(len(held) == 1 and any(f["function"] == "fill" for f in held[0]["stack"]), f"{held}")


def killed(folder):
    program = Attached(folder, THREADS, "8")
    program.attach()
    program.tell("keep 500 2000")
    program.process.send_signal(signal.SIGKILL)
    program.process.communicate()
    summary = report(program.log)
    expect_nothing_dropped(summary)
    expect("attached at +0" in warning(summary, "GP062"), warning(summary, "GP062"))
    code, text = gpupeak("detach", program.pid)
    expect(code == 2 and "there is no process" in text, text)


def exits(folder):
    """The program ends while it is attached: its output and exit code are unchanged, and the log has its end."""
    program = Attached(folder, THREADS, "4")
    program.attach()
    program.tell("keep 500 2000")
    program.end()
    summary = report(program.log)
    expect_consistent_from_there(summary)
    expect(summary["quality"]["log_complete"], f"{summary['quality']}")


def refused(folder):
    def refuses(pid, why, *command, **more):
        code, text = gpupeak(*(command or ("attach",)), "--wait", "0.3", "-o", os.path.join(folder, "r.gplog"), str(pid), **more)
        expect(code == 2 and why in text, f"{code} {text}: not {why}")

    refuses(999999999, "there is no process")
    program = Attached(folder, THREADS, "0")
    code, text = gpupeak("detach", program.pid)
    expect(code == 2 and "is not attached" in text, text)
    program.attach()
    refuses(program.pid, "is attached already")
    program.detach()
    code, text = gpupeak("detach", program.pid)
    expect(code == 2 and "is not attached" in text, text)
    program.process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    refuses(program.pid, "is stopped")
    program.process.send_signal(signal.SIGCONT)
    if os.geteuid() == 0:
        refuses(program.pid, "only a program of your own", user=65534, group=65534, extra_groups=[])
    program.end()
    started = Attached(folder, THREADS, "0", LD_PRELOAD=LIBRARY, GPUPEAK_OUT=os.path.join(folder, "p.gplog"), GPUPEAK_SUMMARY="off")
    refuses(started.pid, "--dormant")
    started.end()
    nowhere = Attached(folder, THREADS, "0")
    code, text = gpupeak("attach", "-o", os.path.join(folder, "none/x.gplog"), nowhere.pid)
    expect(code == 2 and "cannot write the log" in text, text)
    nowhere.end()


def built_otherwise(folder):
    """Kinds of programs that are refused: static, with a sanitizer, with a filter of system calls, traced."""
    source = os.path.join(folder, "p.c")
    with open(source, "w") as file:
        file.write("#include <stdio.h>\n#include <linux/seccomp.h>\n#include <linux/filter.h>\n#include <sys/prctl.h>\n"
                   "int main(int n, char** a) {\n"
                   "  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);\n  struct sock_fprog p = {1, &all};\n"
                   "  if (n > 1) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p); }\n"
                   "  puts(\"ready\"); fflush(stdout); getchar(); puts(\"done\"); return 0; }\n")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Skipped("no C compiler")
    for options, argument, why in (((), ("filter",), "a filter of system calls"), (("-static",), (), "linked statically"),
                                   (("-fsanitize=address",), (), "sanitizer")):
        target = os.path.join(folder, "p")
        if subprocess.run([compiler, *options, "-o", target, source], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            continue
        program = Attached(folder, target, *argument)
        code, text = gpupeak("attach", "-o", program.log, program.pid)
        expect(code == 2 and why in text, f"{code} {text}: not {why}")
        program.end()
    if shutil.which("strace"):
        subprocess.run([compiler, "-o", target, source], check=True)
        program = Attached(folder, target)
        tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", program.pid], stderr=subprocess.PIPE, text=True)
        tracer.stderr.readline()
        code, text = gpupeak("attach", "-o", program.log, program.pid)
        expect(code == 2 and "is traced already" in text, text)
        program.process.send_signal(signal.SIGSTOP)  # a debugger also stops what it traces
        while not re.search(r"^State:\s+[Tt]", open(f"/proc/{program.pid}/status").read(), re.M):
            time.sleep(0.01)
        code, text = gpupeak("attach", "-o", program.log, program.pid)
        expect(code == 2 and "is traced already" in text, text)
        program.process.send_signal(signal.SIGCONT)
        program.end()
        tracer.communicate()


class Forks(Attached):
    def __init__(self, folder, first="kept.so"):
        libraries = [shutil.copy(PLUGIN, os.path.join(folder, name)) for name in (first, "churned.so", "childs.so")]
        super().__init__(folder, FORKS, *libraries)


def later_library(folder):
    """The slots of a library that is loaded while the program is attached to lead to us; after the detach they are as they were."""
    program = Forks(folder)
    program.attach()
    expect(program.number("load 1000000") == 1, "it is loaded")
    program.detach()
    expect_nothing_leads_into_library(program.pid)
    expect(program.number("load 1000000") == 1, "it is there still")
    program.end()
    summary = report(program.log)
    expect_consistent_from_there(summary)
    expect(sum(kept(summary, "host").values()) == 1_000_000, f"{kept(summary, 'host')}")


def nvtx_2(folder):
    """A library of NVTX 2 is named, since its marks are not seen."""
    for first, is_named in (("libnvToolsExt.so.1", True), ("libother.so.1", False)):
        program = Forks(folder, first)
        program.tell("load 1000")
        program.attach()
        program.detach()
        program.end()
        said = warning(report(program.log), "GP062")
        expect(("not seen: marks of NVTX 2 (libnvToolsExt)" in said) == is_named, f"{first}: {said}")
        os.remove(program.log)


def forks(folder):
    """Children that are forked while the program's libraries are gone through can load libraries of their own. They are not in the log."""
    program = Forks(folder)
    program.attach("--host", "counters")
    program.tell("churn")
    expect(program.number("children 200") == 200, "a child was not able to load a library")
    program.detach()
    program.end()
    summary = report(program.log)
    expect_consistent_from_there(summary)
    expect(len(os.listdir(folder)) == 4, f"a child has left something: {os.listdir(folder)}")


def attached_children(folder):
    """Such children can be attached to themselves, and left."""
    program = Forks(folder)
    program.attach("--host", "counters")
    program.tell("churn")
    for i in range(10):
        pid, log = str(program.number("child")), os.path.join(folder, f"child{i}.gplog")
        code, text = gpupeak("attach", "-o", log, pid)
        expect(code == 0, f"child {i}: {text}")
        time.sleep(0.05)
        code, text = gpupeak("detach", pid)
        expect(code == 0 and "hold something else" not in text, f"child {i}: {text}")
        expect_nothing_leads_into_library(pid)
        program.tell("kill")
        expect_consistent_from_there(report(log))
    program.detach()
    program.end()


def main():
    if os.uname().machine != "x86_64":
        raise Skipped("x86-64 alone")
    with tempfile.TemporaryDirectory() as folder:
        {"heap": heap, "growth": growth, "device_growth": device_growth, "load": load, "device": device, "python": python, "killed": killed, "exits": exits, "refused": refused,
         "built_otherwise": built_otherwise, "later_library": later_library, "nvtx_2": nvtx_2, "heap_table": heap_table, "imported": imported, "forks": forks, "attached_children": attached_children}[CASE](folder)


run_checks(main)
