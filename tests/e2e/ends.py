"""The end of a program is told as it was, whoever started `run`, and whoever else has to be waited for. argv: … CASE"""
import ctypes
import os
import pty
import re
import signal
import subprocess
import sys
import time

from common import GPUPEAK, LIBRARY, Skipped, environment, expect, run_case

PR_SET_CHILD_SUBREAPER = 36
ORPHANS = """
for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'sleep 0.1' &); done
for i in $(seq 50); do  # until they have ended, 10 s at most
  left=$(ps -eo stat,args | grep -c '[s]leep 0.1'); [ "$left" = 0 ] && break; sleep 0.2
done
group=$(ps -o pgid= -p $$)
echo zombies $(ps -eo stat,pgid,args | grep "^Z.* $group " | grep -cE 'sh|sleep')
exit 3
"""
HANDLER = """
import signal, sys, time
def ends(*_):
    print("told once", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, ends)
print("ready", flush=True)
time.sleep(60)
"""

WRITER = """
import os, signal
signals = {signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGRTMIN + 1, signal.SIGQUIT}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
got = 0
os.write(1, b"ready\\n")
while got != signal.SIGQUIT:
    got = signal.sigwaitinfo(signals).si_signo
    os.write(1, b"got %d\\n" % got)
"""


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def become_subreaper():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_words(folder):
    return [GPUPEAK, "run", "-o", os.path.join(folder, "log.gplog"), "--"]


def started(words, before=None):
    return subprocess.run(words, env=environment("", False), stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=before, check=False)


def ignored(folder):
    """Who starts `run` ignores SIGCHLD, as supervisors do; that outlives exec."""
    for program, code, said in (("exit 7", 7, "exit 7"), ("kill -9 $$", 137, "SIGKILL"), ("true", 0, "exit 0")):
        done = started([*run_words(folder), "sh", "-c", program], ignore_children)
        expect(done.returncode == code, f"{program}: exit code {done.returncode}, not {code}")
        expect(said in done.stderr, f"{program}: {said} is not said: {done.stderr}")
    for before, setting in ((ignore_children, 1), (None, 0)):
        done = started([*run_words(folder), sys.executable, "-c", "import signal; print(int(signal.getsignal(signal.SIGCHLD)))"], before)
        expect(done.stdout.strip() == str(setting), f"the program finds SIGCHLD as {done.stdout}, not {setting}")


def ignored_by_program(folder):
    """The library's own summary stands there once where the program ignores SIGCHLD."""
    program = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); x = bytearray(5 << 20)"
    variables = dict(environment(folder, True), LD_PRELOAD=LIBRARY)
    variables.pop("GPUPEAK_SUMMARY")
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    peaks = re.findall(r"Peak host heap", done.stderr)
    expect(done.returncode == 0 and len(peaks) == 1, f"{len(peaks)} summaries: {done.stderr}")


def in_own_pids(words):
    if os.geteuid() != 0:
        raise Skipped("only root makes a namespace of processes")
    return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *words]


def expect_reaped(done):
    expect(done.returncode == 3, f"exit code {done.returncode}, not 3: {done.stderr}")
    expect("zombies 0" in done.stdout, f"{done.stdout}: nobody waits for orphans")


def first(folder):
    """`run` as process 1, as in a container: it waits for orphans, and hands signals on."""
    expect_reaped(started(in_own_pids([*run_words(folder), "sh", "-c", ORPHANS])))
    done = started(in_own_pids([*run_words(folder), "sh", "-c", "kill -TERM $$"]))
    expect(done.returncode == 128 + signal.SIGTERM, f"exit code {done.returncode} of a program that SIGTERM ended")
    process = subprocess.Popen(in_own_pids([*run_words(folder), sys.executable, "-c", HANDLER]), env=environment("", False), stdout=subprocess.PIPE, text=True)
    expect(process.stdout.readline() == "ready\n", "the program does not begin")
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
        run = int(file.read().split()[0])
    time.sleep(0.2)
    os.kill(run, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    expect(out == "told once\n" and process.returncode == 5, f"{out!r}, exit code {process.returncode}")


def small_stack(folder):
    """As process 1 with small stacks the command goes on in a child that has one thread."""
    words = ["sh", "-c", 'ulimit -s 64; exec "$@"', "sh", *run_words(folder), "sh", "-c", "exit 7"]
    done = started(in_own_pids(words))
    expect(done.returncode == 7, f"exit code {done.returncode}, not 7: {done.stderr}")


def subreaper(folder):
    """The same where who started `run` has made it a subreaper."""
    expect_reaped(started([*run_words(folder), "sh", "-c", ORPHANS], become_subreaper))


def signals_once(folder, before=None):
    """A signal to the process group, or to `run` alone, comes to the program once."""
    process = subprocess.Popen([*run_words(folder), sys.executable, "-c", WRITER], env=environment("", False), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=before)
    expect(process.stdout.readline() == "ready\n", "the program does not begin")
    time.sleep(0.3)  # `run` is ready to get signals
    kinds = [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGRTMIN + 1]
    for send in (os.killpg, os.kill, os.killpg, os.kill):
        time.sleep(0.5)  # one to `run` alone merges with the same one to the group that it has not had yet
        for number in kinds * 10:
            send(process.pid, number)
            line = process.stdout.readline()
            expect(line == f"got {number:d}\n", f"{line!r}, not signal {number:d} ({send.__name__})")
            if send is os.kill:
                continue
            time.sleep(0.005)  # a second one comes so soon
    for _ in range(100):
        os.killpg(process.pid, signal.SIGRTMIN + 1)  # these are counted
    for _ in range(100):
        line = process.stdout.readline()
        expect(line == f"got {signal.SIGRTMIN + 1:d}\n", f"{line!r} of a hundred in a row")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGQUIT)
    out, _ = process.communicate(timeout=60)
    expect(out == f"got {signal.SIGQUIT:d}\n" and process.returncode == 0, f"{out!r}, exit code {process.returncode}")


def signals_once_subreaper(folder):
    """The same where `run` waits for orphans, in a process of its own."""
    signals_once(folder, become_subreaper)


def signals_of_terminal(folder):
    """Ctrl-C comes once, and a signal to `run` alone comes after it."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(GPUPEAK, [*run_words(folder), sys.executable, "-c", WRITER], environment("", False))
    out = b""
    def read_until(text):
        nonlocal out
        while text not in out:
            out += os.read(terminal, 1000)
    read_until(b"ready")
    time.sleep(0.3)
    os.write(terminal, b"\x03")
    read_until(b"got 2")
    time.sleep(0.1)
    os.kill(process, signal.SIGINT)
    os.kill(process, signal.SIGTERM)
    read_until(b"got 15")
    os.write(terminal, b"\x1c")
    read_until(b"got 3\r\n")
    _, status = os.waitpid(process, 0)
    expect(status == 0 and sorted(re.findall(rb"got (\d+)", out)) == [b"15", b"2", b"2", b"3"], f"{out}, status {status}")


run_case({case.__name__: case for case in (ignored, ignored_by_program, first, small_stack, subreaper, signals_once, signals_once_subreaper,
                                           signals_of_terminal)}[sys.argv[3]])
