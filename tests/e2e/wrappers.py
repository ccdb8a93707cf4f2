"""One program, one log: `run -o FILE -- wrapper … program` leaves the program's log, or none. argv: … CUDA_BENCHMARK FOLDER_OF_THE_DRIVER CASE"""
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import GPUPEAK, Skipped, expect, run_checks

BENCHMARK, DRIVER = sys.argv[3:5]
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=DRIVER)


def run(folder, *command, code=0, options=(), out="d.gplog", **more):
    """Runs it. Returns the files that are in the folder afterwards, and the messages."""
    env = dict(ENVIRONMENT, **more.pop("env", {}))
    done = subprocess.run([GPUPEAK, "run", *options, "-o", os.path.join(folder, out), "--", *command], env=env, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
    expect(done.returncode == code, f"{command} gives {done.returncode}, not {code}: {done.stderr.decode()}")
    return sorted(os.listdir(folder)), done.stderr.decode()


def summary(folder, name="d.gplog"):
    done = subprocess.run([GPUPEAK, "report", "--json", os.path.join(folder, name)], stdout=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"report of {name}: {done}")
    return json.loads(done.stdout)


def expected_peak(folder):
    plain = os.path.join(folder, "plain")
    os.mkdir(plain)
    run(plain, BENCHMARK)
    peak = summary(plain)["metrics"]["device.peak_bytes"]
    shutil.rmtree(plain)
    expect(peak > 1 << 20, f"the benchmark's peak is {peak}")
    return peak


def exec_away(folder):
    peak = expected_peak(folder)
    shim = os.path.join(folder, "shim")  # a shim as pyenv's: a shell that looks for the program and becomes it
    os.mkdir(shim)
    for i in range(6):
        following = os.path.join(shim, str(i + 1)) if i < 5 else BENCHMARK
        with open(os.path.join(shim, str(i)), "w") as file:
            file.write(f"#!/bin/bash\nx=$(echo {i})\nexec {following} \"$@\"\n")
        os.chmod(os.path.join(shim, str(i)), 0o755)
    wrappers = [["taskset", "-c", "0"], ["env", "A=1"], ["nice"], ["stdbuf", "-o0"], ["setarch", "-R"], ["prlimit", "--core=0"],
                ["sh", "-c", "exec \"$0\""], [os.path.join(shim, "0")], ["env", "nice", "taskset", "-c", "0"]]
    for wrapper in wrappers:
        if not shutil.which(wrapper[0]):
            continue
        place = tempfile.mkdtemp(dir=folder)
        names, _ = run(place, *wrapper, BENCHMARK)  # a wrapper that took a second is not dropped, but becomes a part of this log
        expect(names == ["d.gplog"], f"{wrapper} leaves {names}")
        found = summary(place)
        expect(found["metrics"]["device.peak_bytes"] == peak, f"{wrapper}: {found['metrics']['device.peak_bytes']}, not {peak}")
        expect(found["run"]["exit"]["code"] == 0 if "exit" in found["run"] else True, str(found["run"]))


def programs_before(found):
    return [warning["message"] for warning in found["quality"]["warnings"] if warning["code"] == "GP048"]


def slow_wrapper(folder):
    """The log of a wrapper that took more than a second is a part of the program's log."""
    for out, left in (("d.gplog", "d.gplog"), ("%n.gplog", os.path.basename(BENCHMARK) + ".gplog"), ("own/", None)):
        place = tempfile.mkdtemp(dir=folder)
        os.mkdir(os.path.join(place, "own"))
        script = "exec -a shell bash -c 'x=$(sleep 1.2); exec \"$0\"' \"$0\""
        _, said = run(place, "bash", "-c", script, BENCHMARK, out=out)
        names = [os.path.relpath(os.path.join(at, name), place) for at, _, files in os.walk(place) for name in files]
        expect(len(names) == 1 and left in (None, names[0]), f"{out}: {names}")
        found = summary(place, names[0])
        expect(found["metrics"]["device.peak_bytes"] > 0 and found["quality"]["exact"], f"{out}: not the program's log")
        expect(found["quality"]["log_complete"] and found["run"]["exit"]["code"] == 0, str(found["run"]))
        told = programs_before(found)
        expect(len(told) == 1 and "before this program the process ran bash" in told[0] and "no GPU" in told[0], str(told))
        expect(f"part: {os.path.join(place, names[0])}#1" in said, said)
        part = summary(place, names[0] + "#1")
        expect(part["run"]["command"][0] == "shell", str(part["run"]))
        expect(part["metrics"]["device.peak_bytes"] in (0, None) and part["metrics"]["host.peak_bytes"] > 0, str(part["metrics"]))
        done = subprocess.run([GPUPEAK, "report", os.path.join(place, names[0]) + "#2"], stderr=subprocess.PIPE, check=False)
        expect(done.returncode == 3 and b"has 1 parts" in done.stderr, str(done))


WRAPPER_WITH_GPU = """
import ctypes, os, sys
cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def wrapper_with_gpu(folder):
    """The program's log has the wanted name, also if the wrapper used the GPU. So has the log of a program that goes on as another one."""
    peak = expected_peak(folder)
    before, after = os.path.join(folder, "before"), os.path.join(folder, "after")
    os.mkdir(before)
    names, _ = run(before, sys.executable, "-c", WRAPPER_WITH_GPU, BENCHMARK)
    expect(names == ["d.gplog"], str(names))
    found = summary(before)
    expect(found["metrics"]["device.peak_bytes"] == peak, f"the peak is {found['metrics']['device.peak_bytes']}, not {peak}")
    told = programs_before(found)
    expect(len(told) == 1 and "which used the GPU" in told[0], str(told))
    expect(summary(before, "d.gplog#1")["metrics"]["device.peak_bytes"] == 3 << 20, "the wrapper's peak")
    os.mkdir(after)
    names, _ = run(after, sys.executable, "-c", WRAPPER_WITH_GPU, "/bin/sh", "-c", "exit 6", code=6)
    expect(names == ["d.gplog"], str(names))
    found = summary(after)
    expect(found["metrics"]["device.peak_bytes"] == 3 << 20 and found["run"]["exit"]["code"] == 6, str(found["run"]))
    expect("after this program the process ran" in programs_before(found)[0], str(programs_before(found)))
    # A part stays in compressed and bundled logs, and is a log itself.
    for verb in (["bundle", "--log"], ["bundle"]):
        packed = os.path.join(before, "packed." + verb[-1])
        subprocess.run([GPUPEAK, *verb, "-q", os.path.join(before, "d.gplog"), "-o", packed], check=True)
        expect(summary(before, "packed." + verb[-1] + "#1")["metrics"]["device.peak_bytes"] == 3 << 20, f"{verb}: the wrapper's peak")
    gate = subprocess.run([GPUPEAK, "check", "--max", "device.peak_bytes=3MiB", os.path.join(before, "d.gplog#1")], check=False,
                          stdout=subprocess.PIPE)
    expect(gate.returncode == 0, f"a gate on a part gives {gate.returncode}")


def old_log(folder):
    """No earlier log is taken for this run's. If nothing is measured, the exit code is still the program's."""
    static = os.path.join(folder, "static")
    source = "int main(void) { return 7; }"
    if subprocess.run(["cc", "-static", "-x", "c", "-", "-o", static], input=source.encode(), stderr=subprocess.PIPE, check=False).returncode:
        raise Skipped("no static C library")
    run(folder, "/bin/true")
    expect(os.path.exists(os.path.join(folder, "d.gplog")), "no log")
    names, said = run(folder, static, code=7)
    expect("d.gplog" not in names, "the old log is still there")
    expect("nothing was measured" in said, said)
    done = subprocess.run([GPUPEAK, "check", "--max", "host.peak_bytes=1TiB", os.path.join(folder, "d.gplog")], stderr=subprocess.PIPE,
                          check=False)
    expect(done.returncode == 3, f"a gate on nothing gives {done.returncode}")
    _, said = run(folder, "/bin/sh", "-c", "exit 5", code=5, out="nowhere/d.gplog")
    expect("Nothing will be recorded" in said.splitlines()[0], said)
    os.mkdir(os.path.join(folder, "true"))
    _, said = run(folder, "/bin/true", out="%n/d.gplog")
    expect("Nothing will" not in said and os.listdir(os.path.join(folder, "true")) == ["d.gplog"], said)
    text = os.path.join(folder, "text")
    with open(text, "w") as file:
        file.write("mine")
    run(folder, "/bin/true", out="text")
    with open(text) as file:
        expect(file.read() == "mine", "a file that is no log was replaced")
    running = subprocess.Popen([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "r.gplog"), "--", "/bin/bash", "-c", "echo; read x"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.stdout.readline()
    _, said = run(folder, "/bin/true", out="r.gplog")
    expect("still runs" in said, said)
    running.communicate(b"\n")
    expect(summary(folder, "r.gplog")["quality"]["log_complete"], "a running program's log was removed")


def children(folder):
    names, said = run(folder, "/bin/bash", "-c", "for i in $(seq 20); do /bin/true; done; true", options=("--children", "all"))
    expect(names == ["d.children", "d.gplog"], str(names))
    count = len(os.listdir(os.path.join(folder, "d.children")))
    expect(count >= 20, f"{count} logs of children")
    expect("logs of child processes in" in said and said.count("also:") == 1, said)
    chosen = os.path.join(folder, "chosen")
    os.mkdir(chosen)
    names, _ = run(chosen, "/bin/bash", "-c", "/bin/true; true", options=("--children", "all"), out="%n.%p.gplog")
    expect(len([name for name in names if name.endswith(".gplog")]) == 2, f"a name for all of them: {names}")
    own = os.path.join(folder, "own")
    os.mkdir(own)
    names, _ = run(folder, "/bin/true", out="own")
    expect(len(os.listdir(own)) == 1, "a folder as output")


def other_run(folder):
    """A log that another run leaves in the folder meanwhile is not taken for this run's."""
    running = subprocess.Popen([GPUPEAK, "run", "-o", os.path.join(folder, "d.gplog"), "--", "/bin/sh", "-c", "echo; read x"], cwd=folder,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.readline()
    run(folder, "/bin/true", out="other.gplog")
    said = running.communicate(b"\n")[1].decode()
    expect("d.gplog" in said and "other.gplog" not in said, said)


def left_early(folder):
    """The duration of a run without an end is its true duration, not the time of its last event."""
    run(folder, "/usr/bin/python3", "-c", "import os, time; time.sleep(1.1); os.kill(os.getpid(), 9)", code=137)
    found = summary(folder)
    expect(not found["quality"]["log_complete"] and found["run"]["duration_ns"] > 1_000_000_000, str(found["run"]))


def killed_launcher(folder):
    """A kill of `run` is meant for the program: the standard output is closed at once, so that nobody waits for its end."""
    running = subprocess.Popen([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "d.gplog"), "--", "sh", "-c", "echo; exec sleep 30"],
                               stdout=subprocess.PIPE)
    running.stdout.readline()
    running.kill()
    running.wait()
    began = time.monotonic()
    running.stdout.read()
    running.stdout.close()
    expect(time.monotonic() - began < 20, "the program went on")


def signals(folder):
    """A signal that is sent to `run`, and would end the program, reaches the program."""
    program = "import signal, sys, time\nfor s in map(int, sys.argv[1:]):\n signal.signal(s, lambda n, _: sys.exit(n))\n" \
              "print(flush=True)\nfor _ in range(300): time.sleep(0.1)"
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGPROF, signal.SIGRTMIN, signal.SIGRTMAX):
        running = subprocess.Popen([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "d.gplog"), "--", "/usr/bin/python3", "-c", program,
                                    str(int(number))], stdout=subprocess.PIPE)
        running.stdout.readline()
        running.send_signal(number)
        expect(running.wait(20) == number, f"{number!r}: exit {running.returncode}")
        running.stdout.close()


def past_handlers(folder):
    """_exit(), with which dash and os._exit leave, is an end. But the _exit() of a vfork child is not the end of the parent, whose memory it shares."""
    run(folder, "/usr/bin/python3", "-c", "import os; os._exit(5)", code=5)
    found = summary(folder)
    expect(found["quality"]["log_complete"] and found["run"]["exit"]["code"] == 5, str(found["quality"]))
    run(folder, "/usr/bin/python3", "-c", "import os, subprocess\ntry: subprocess.run(['/nowhere/x'], close_fds=False)\nexcept OSError: "
        "pass\nx = b'x' * 5000000\nos.kill(os.getpid(), 9)", code=137)
    found = summary(folder)
    expect(not found["quality"]["log_complete"] and found["metrics"]["host.kind.heap.peak_bytes"] > 5000000, str(found["quality"]))


def odd_names(folder):
    """Names reach the terminal only as text, not as control sequences."""
    odd = os.path.join(folder, "a\x1b[31m\nb")
    os.mkdir(odd)
    for command, code in (("/bin/true", 0), (os.path.join(odd, "absent"), 127), ("/bin/bash -c 'true; sleep 1.2; exec true'", 0)):
        _, said = run(odd, *(shlex.split(command) if code == 0 else [command]), code=code, out="%n\x1b.gplog")
        expect("\x1b" not in said and "\\x1b" in said, repr(said))


def becomes_unrecorded(folder):
    """If the process goes on with a program that does not load the library, that is said, with the program's name."""
    _, said = run(folder, "env", "-i", "true", env={"GPUPEAK_KEEP_PRELOAD": "off"})
    expect("not recorded: pid " in said and " true, as it was called in the end" in said, said)
    for command in (("env", "true"), ("true",), ("sh", "-c", "exec true")):
        _, said = run(folder, *command)
        expect("not recorded" not in said, said)


def no_place(folder):
    """If no log can be written, this reason is given, and no other."""
    _, said = run(folder, "/bin/true", out="nowhere/d.gplog")
    expect("Nothing will be recorded" in said and "recording " not in said and "statically linked" not in said, said)
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=False).returncode:
        raise Skipped("tmpfs cannot be mounted here")
    try:
        _, said = run(folder, "/bin/true", out="disk/d.gplog")
        expect("No space left" in said and "recording " not in said and "statically linked" not in said, said)
    finally:
        subprocess.run(["umount", disk], check=False)


def bad_stderr(folder):
    """Standard error closed, full, or without a reader: the program runs and gives its code."""
    out = os.path.join(folder, "d.gplog")
    program = "/bin/sh", "-c", "echo x > ran; exit 3"
    for name, redirection in (("closed", "2>&-"), ("all closed", "<&- >&- 2>&-"), ("full", "2>/dev/full")):
        done = subprocess.run(["bash", "-c", f"\"$@\" {redirection}", "bash", GPUPEAK, "run", "-o", out, "--", *program], cwd=folder, check=False,
                              stdout=subprocess.DEVNULL)
        expect(done.returncode == 3, f"{name}: {done.returncode}")
        expect(os.path.exists(out), f"{name}: no log")
        os.unlink(out)
        os.unlink(os.path.join(folder, "ran"))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([GPUPEAK, "run", "-o", out, "--", *program], cwd=folder, stderr=writer, check=False)
    os.close(writer)
    expect(done.returncode == 3 and os.path.exists(os.path.join(folder, "ran")), f"the reader is gone: {done.returncode}")
    # The program finds its descriptors and signals as without gpupeak.
    look = "ls /proc/self/fd | tr '\\n' ' '; grep SigIgn /proc/self/status"
    for redirection in ("", "2>&-", "<&-"):
        for trap in ("", "trap '' PIPE; "):
            def output(*prefix):
                return subprocess.run(["bash", "-c", f"{trap}exec \"$@\" {redirection}", "bash", *prefix, "/bin/bash", "-c", look], cwd=folder,
                                      stdout=subprocess.PIPE, check=False, stderr=subprocess.DEVNULL, restore_signals=True).stdout
            bare, recorded = output(), output(GPUPEAK, "run", "-q", "-o", out, "--")
            expect(bare == recorded, f"{trap}{redirection}: {bare} is {recorded}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        CASES[sys.argv[5]](folder)


CASES = {case.__name__: case for case in (exec_away, slow_wrapper, wrapper_with_gpu, old_log, children, other_run, left_early, killed_launcher, signals, past_handlers, odd_names, becomes_unrecorded, no_place, bad_stderr)}
run_checks(main)
