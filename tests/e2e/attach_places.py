#!/usr/bin/env python3
"""`gpupeak attach` where it could do harm: it is refused, or it is whole, and the program never notices.

usage: attach_places.py LIBGPUPEAK GPUPEAK PROGRAM CASE
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, Program, Skipped, environment, expect, gpupeak, report, run_checks

PROGRAM, CASE = sys.argv[3:5]
# In the command: the first system call that it has the program make seems to take 2.5 s, as on a machine that has no time for it.
LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
static double begun = -1;
static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec * 1e-9;
}
long ptrace(long request, long thread, void* at, void* data) {
  long (*real)(long, long, void*, void*) = dlsym(RTLD_NEXT, "ptrace");
  if (request == 9 && begun < 0) begun = now(); /* PTRACE_SINGLESTEP */
  return real(request, thread, at, data);
}
pid_t waitpid(pid_t thread, int* status, int options) {
  pid_t (*real)(pid_t, int*, int) = dlsym(RTLD_NEXT, "waitpid");
  if ((options & WNOHANG) && begun >= 0 && now() < begun + 2.5) return 0;
  return real(thread, status, options);
}
"""


def begin(folder, what):
    return Program(os.path.join(folder, "a.gplog"), [PROGRAM, what], environment(folder, False))


def expect_refused(folder, what, why):
    program = begin(folder, what)
    code, text = gpupeak("attach", "--wait", "0.5", "-o", program.log, program.pid)
    expect(code == 2 and why in text, f"{code} {text}: not {why}")
    expect("libgpupeak" not in open(f"/proc/{program.pid}/maps").read() and not os.path.exists(program.log), "something has changed")
    program.process.stdin.write("\n")
    program.end()


def held(folder):
    """A thread within a library that has functions which the calls of an attach lead to may hold their lock."""
    expect_refused(folder, "held", "libattach_holds.so, whose cuInit may be what holds it")


def filter_of_thread(folder):
    """One thread alone confines itself: it would be ended by a system call of the library's."""
    expect_refused(folder, "filter", "confines itself by a filter of system calls")


def vfork(folder):
    """A parent of vfork cannot stop. It is not asked to, since it would stand still as soon as its child has left."""
    expect_refused(folder, "vfork", "it waits for a child of vfork")


def waits(folder):
    """A call with a time limit never fails with EINTR. Where what is left of the limit is not known, the thread is left alone."""
    for kind in ("epoll", "poll", "semaphore", "signal", "socket"):
        program, attached = begin(folder, kind), 0
        for _ in range(3):
            code, text = gpupeak("attach", "--wait", "2", "-o", program.log, program.pid)
            expect(code == 0 or (code == 2 and "time limit" in text), f"{kind}: {code} {text}")
            if code == 0:
                attached += 1
                code, text = gpupeak("detach", program.pid)
                expect(code == 0 or (code == 2 and "time limit" in text), f"{kind}: {code} {text}")
        program.end()
        expect(attached == 3 or kind not in ("epoll", "poll"), f"what is left of {kind}'s limit is known: attached {attached} times")


def at_once(folder):
    """Of several commands that attach at once, one does. Its log is whole."""
    program = begin(folder, "threads")
    commands = [subprocess.Popen([GPUPEAK, "attach", "-o", os.path.join(folder, f"{i}.gplog"), program.pid],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(4)]
    said = [c.communicate()[0] for c in commands]
    codes = sorted(c.returncode for c in commands)
    expect(codes == [0, 2, 2, 2], f"{codes}: {said}")
    expect(all("from now on" in text or "by another command" in text or "attached already" in text for text in said), f"{said}")
    program.end()
    logs = [name for name in os.listdir(folder) if name.endswith(".gplog")]
    expect(len(logs) == 1, f"{logs}")
    report(os.path.join(folder, logs[0]))


def replaced(folder):
    """A library takes the place of one whose slots were changed: where these were are pages that nobody may write."""
    program = begin(folder, "replaced")
    code, text = gpupeak("attach", "-o", program.log, program.pid)
    expect(code == 0, f"attach {code} {text}")
    expect(program.tell("") == "ready", "the second library was not loaded")
    code, text = gpupeak("detach", program.pid)
    expect(code == 0, f"detach {code} {text}")
    program.end()


def late(folder):
    """A thread that is in the middle of a call of ours is waited for: left to itself, it would be ended by the call's trap."""
    library = os.path.join(folder, "late.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=LATE.encode(), check=True)
    program = begin(folder, "threads")
    code, text = gpupeak("attach", "-o", program.log, program.pid, env={**os.environ, "LD_PRELOAD": library})
    expect(code == 0, f"attach {code} {text}")
    program.end()


def killed(folder):
    """The command is killed at any moment. What it began is whole a moment later, or was not begun, and the program never notices."""
    program, begun = begin(folder, "threads"), 0
    for turn in range(40):
        command = subprocess.Popen([GPUPEAK, "attach", "-o", program.log, program.pid], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.25))
        command.kill()
        command.wait()
        for _ in range(100):
            code, text = gpupeak("detach", program.pid)
            if code == 0 or "is not attached" in text:
                break
            time.sleep(0.05)
        begun += code == 0
        expect(code == 0 or "is not attached" in text, f"turn {turn}: detach {code} {text}")
        expect(program.process.poll() is None, f"turn {turn}: the program has ended, {program.process.returncode}")
        if code == 0:
            report(program.log)
            os.remove(program.log)
    program.end()
    expect(begun > 0, "no command was killed in the middle")


def states(pid):
    """Of all its threads, as ps shows them."""
    return {open(f"/proc/{pid}/task/{thread}/stat").read().rpartition(")")[2].split()[0] for thread in os.listdir(f"/proc/{pid}/task")}


def stopped(folder):
    """The program is stopped as a whole while it is attached to, as by Ctrl-Z. It stands still until it goes on, and then all is whole."""
    program = begin(folder, "threads")
    for turn in range(15):
        command = subprocess.Popen([GPUPEAK, "attach", "-o", program.log, program.pid], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(0.005 * turn)
        program.process.send_signal(signal.SIGSTOP)
        for _ in range(100):  # each thread stops as soon as a processor gets to it
            time.sleep(0.1)
            seen = states(program.pid)  # a tracer may wake one for a moment
            if seen <= {"T", "t"}:
                break
        expect(seen <= {"T", "t"}, f"turn {turn}: it goes on, {seen}")
        program.process.send_signal(signal.SIGCONT)
        text = command.communicate()[0]
        expect(command.returncode == 0 or "is stopped" in text, f"turn {turn}: attach {command.returncode} {text}")
        if command.returncode == 0:
            code, text = gpupeak("detach", program.pid)
            expect(code == 0, f"turn {turn}: detach {code} {text}")
            report(program.log)
            os.remove(program.log)
    program.end()


def main():
    if os.uname().machine != "x86_64":
        raise Skipped("x86-64 alone")
    with tempfile.TemporaryDirectory() as folder:
        {"held": held, "filter_of_thread": filter_of_thread, "vfork": vfork, "waits": waits, "at_once": at_once, "replaced": replaced, "late": late,
         "killed": killed, "stopped": stopped}[CASE](folder)


run_checks(main)
