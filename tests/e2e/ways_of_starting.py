"""Ways in which programs start programs: for each, which processes of the run are recorded, what the first line says, and that output and exit code
are the program's. argv: … USE_GPU START_PROGRAMS FOLDER_OF_THE_DRIVER [WAY…]

Each way starts use_gpu, which holds 3 MiB of GPU 0, once or several times. It is "recorded" where the run's sum has it, "found" where it can have
no log and the first line says so. Of the ways to start `run` itself ($RUN, which is empty without it), use_gpu's signals are compared, too."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, Skipped, run_checks

USE_GPU, START, DRIVER = sys.argv[3:6]
TIMES = int(sys.argv[7]) if sys.argv[6:7] == ["--times"] else 1  # each way so often
WANTED = sys.argv[8 if sys.argv[6:7] == ["--times"] else 6:]
HOLD = ["500"]  # milliseconds: `run` looks five times a second, and takes two looks to be sure
ENVIRONMENT = dict({k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}, LD_LIBRARY_PATH=DRIVER)
PYTHON = sys.executable

MULTIPROCESSING = """
import ctypes, multiprocessing, sys
def work(_=None):
    cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) == 0
    cuda.cuMemFree_v2(address)
if __name__ == "__main__":
    if sys.argv[1] == "pool":
        import concurrent.futures
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            pool.submit(work).result()
    else:
        multiprocessing.set_start_method(sys.argv[1])
        process = multiprocessing.Process(target=work)
        process.start()
        process.join()
        assert process.exitcode == 0
    print("used")
    sys.exit(7)
"""
RANKS = """
import os, subprocess, sys
both = [subprocess.Popen(sys.argv[1:], env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in (0, 1)]
sys.exit(max(process.wait() for process in both))
"""

SIGNALS = """#!/bin/sh
grep -E '^Sig(Blk|Ign)' /proc/self/status
exec {}
"""
OWN_ENVIRONMENT = """
import os, subprocess, sys
kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
sys.exit(subprocess.run(sys.argv[1:], env=dict(kept, MASTER_PORT="29500")).returncode)
"""

BEFORE = """
import ctypes, os, signal, sys
what = sys.argv[1]
if what == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
elif what == "handled":
    signal.signal(signal.SIGCHLD, lambda *_: None)
elif what == "blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
elif what == "all_blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
elif what == "all_ignored":
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
        signal.signal(number, signal.SIG_IGN)
elif what == "subreaper":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
os.execvp(sys.argv[2], sys.argv[2:])
"""
EXPECT = "log_user 1; spawn -noecho {*}$argv; expect eof; exit [lindex [wait] 3]"
PTY = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""


def ways_to_run(file):
    """Ways to start `run`. What it says goes into a file, since some have one stream for all."""
    program = f"{file('program.sh', SIGNALS.format(USE_GPU), 0o755)}"
    one = f"exec $RUN {program} 2>said"
    makefile, before, terminal = file("Makefile.run", f"all: a b\na:\n\t@$$RUN {program} 2>said; true\nb:\n\t@true\n"), file("before.py", BEFORE), file("terminal.py", PTY)
    sh = ["sh", "-c", one]
    found = {
        "in a shell's background": (["bash"], ["bash", "-c", f"$RUN {program} 2>said & wait $!"]),
        "in a background with job control": (["bash"], ["bash", "-mc", f"$RUN {program} 2>said & wait $!"]),
        "in a pipe": (["bash"], ["bash", "-o", "pipefail", "-c", f"$RUN {program} 2>said | cat"]),
        "nohup": (["nohup"], ["nohup", *sh]),
        "setsid": (["setsid"], ["setsid", "-w", *sh]),
        "timeout": (["timeout"], ["timeout", "60", *sh]),
        "timeout --foreground": (["timeout"], ["timeout", "--foreground", "60", *sh]),
        "nice, ionice": (["nice", "ionice"], ["nice", "ionice", "-c3", *sh]),
        "make -j": (["make"], ["make", "-j2", "-s", "-f", makefile]),
        "xargs -P": (["xargs"], ["sh", "-c", f"printf '0\\n' | xargs -P2 -n1 sh -c '$RUN {program} 2>said'; test $? = 123 && exit 7"]),
        "cron's environment": (["env"], ["sh", "-c", f'exec env -i HOME=/ LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin RUN="$RUN" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" sh -c "{one}"']),
        "script": (["script"], ["script", "-qec", one, "/dev/null"]),
        "expect": (["expect"], ["expect", "-c", EXPECT, *sh]),
        "a terminal, as ssh -t has it": ([], [PYTHON, terminal, *sh]),
        "standard input closed": ([], ["sh", "-c", one + " <&-"]),
        "few descriptors": ([], ["sh", "-c", "ulimit -n 24; " + one]),
        "no core files, small stack": ([], ["sh", "-c", "ulimit -c 0; ulimit -s 512; " + one]),
        "process 1": (["unshare", "root"], ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *sh]),
        "a namespace of users": (["unshare"], ["unshare", "--user", "--map-root-user", *sh]),
    }
    for what in ("ignored", "handled", "blocked"):
        found[f"SIGCHLD {what}"] = ([], [PYTHON, before, what, *sh])
    for what, name in (("all_blocked", "all signals blocked"), ("all_ignored", "all signals ignored"), ("subreaper", "a subreaper")):
        found[name] = ([], [PYTHON, before, what, *sh])
    return {f"run: {name}": (needs, command, "recorded") for name, (needs, command) in found.items()}


def ways(folder):
    """name: (what must be there, command, expectation)"""
    def file(name, text, mode=0o644):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, mode)
        return path
    workers, ranks, own_environment = file("workers.py", MULTIPROCESSING), file("ranks.py", RANKS), file("own_environment.py", OWN_ENVIRONMENT)
    makefile = file("Makefile", f"all: a b\na b:\n\t@{USE_GPU}; true\n")
    script = file("script", f"#!{USE_GPU}\n", 0o755)
    shell_script = file("script.sh", f"#!/bin/sh\n{USE_GPU}\n", 0o755)
    loader = next((p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p)), "")
    held = " ".join([USE_GPU, *HOLD])
    static = os.path.join(folder, "static")  # made if there is a static C library
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start_programs.c")
    subprocess.run(["cc", "-static", "-pthread", source, "-o", static], stderr=subprocess.DEVNULL, check=False)
    return ways_to_run(file) | {
        "itself": ([], [USE_GPU], "recorded"),
        "sh -c": (["sh"], ["sh", "-c", f"{USE_GPU}; exit $?"], "recorded"),
        "sh -c exec": (["sh"], ["sh", "-c", f"exec {USE_GPU}"], "recorded"),
        "bash -c": (["bash"], ["bash", "-c", f"x=$({USE_GPU}); c=$?; echo $x; exit $c"], "recorded"),
        "bash, in the background": (["bash"], ["bash", "-c", f"{USE_GPU} & wait $!"], "recorded"),
        "zsh -c": (["zsh"], ["zsh", "-c", f"{USE_GPU}; exit $?"], "recorded"),
        "busybox sh": (["busybox"], ["busybox", "sh", "-c", f"{USE_GPU}; exit $?"], "recorded"),
        "#! line": ([], [script], "recorded"),
        "#! shell": ([], [shell_script], "recorded"),
        "xargs -P": (["xargs"], ["sh", "-c", f"printf '0\\n0\\n' | xargs -P2 -n1 {USE_GPU}; test $? = 123 && exit 7"], "recorded"),
        "make -j": (["make"], ["make", "-j2", "-s", "-f", makefile], "recorded"),
        "parallel": (["parallel"], ["parallel", "-j2", USE_GPU, ":::", "0", "0"], "recorded"),
        "mpirun": (["mpirun"], ["mpirun", "--allow-run-as-root", "--oversubscribe", "-q", "-n", "2", USE_GPU], "recorded"),
        "ranks, as torchrun starts them": ([], [PYTHON, ranks, USE_GPU], "recorded"),
        "a launcher with an environment of its own": ([], [PYTHON, own_environment, *held.split()], "either"),
        "multiprocessing fork": ([], [PYTHON, workers, "fork"], "recorded"),
        "multiprocessing spawn": ([], [PYTHON, workers, "spawn"], "recorded"),
        "multiprocessing forkserver": ([], [PYTHON, workers, "forkserver"], "recorded"),
        "concurrent.futures": ([], [PYTHON, workers, "pool"], "recorded"),
        "prefork": ([], [START, "prefork", USE_GPU], "recorded"),
        "daemon": ([], [START, "daemon", USE_GPU], "recorded"),
        "setsid": (["setsid"], ["setsid", "-w", USE_GPU], "recorded"),
        "fork": ([], [START, "fork", USE_GPU], "recorded"),
        "vfork": ([], [START, "vfork", USE_GPU], "recorded"),
        "clone": ([], [START, "clone", USE_GPU], "recorded"),
        "posix_spawn with file actions": ([], [START, "spawn", USE_GPU], "recorded"),
        "posix_spawn, environment cleaned": ([], [START, "spawn_cleaned", USE_GPU, *HOLD], "either"),
        "posix_spawn, LD_PRELOAD replaced": ([], [START, "spawn_replaced", USE_GPU, *HOLD], "either"),
        "execve, environment cleaned": ([], [START, "fork", START, "exec_cleaned", USE_GPU, *HOLD], "either"),
        "exec from a thread": ([], [START, "fork", START, "thread", USE_GPU], "recorded"),
        "env -i": (["env"], ["env", "-i", USE_GPU, *HOLD], "either"),
        "env -i in a child": (["env"], ["sh", "-c", f"env -i {held}; exit $?"], "either"),
        "sudo -u": (["sudo"], ["sudo", "-n", "-u", "nobody", USE_GPU, *HOLD], "either"),
        "su": (["su", "root"], ["su", "nobody", "-s", "/bin/sh", "-c", held], "either"),
        "setpriv": (["setpriv", "root"], ["setpriv", "--reuid=65534", "--clear-groups", USE_GPU, *HOLD], "either"),
        "unshare --pid": (["unshare", "root"], ["unshare", "--fork", "--pid", USE_GPU, *HOLD], "either"),
        "chroot": (["chroot", "root"], ["chroot", "/", USE_GPU], "recorded"),
        "a static launcher": ([static], [static, "fork", USE_GPU], "recorded"),
        "a static launcher, vfork": ([static], [static, "vfork", USE_GPU], "recorded"),
        "timeout": (["timeout"], ["timeout", "60", USE_GPU], "recorded"),
        "nice, taskset, stdbuf": (["nice", "taskset", "stdbuf"], ["nice", "taskset", "-c", "0", "stdbuf", "-oL", USE_GPU], "recorded"),
        "nohup": (["nohup"], ["nohup", USE_GPU], "recorded"),
        "script": (["script"], ["script", "-qec", USE_GPU, "/dev/null"], "recorded"),
        "strace -f": (["strace"], ["strace", "-f", "-o", "/dev/null", USE_GPU], "recorded"),
        "gdb --args": (["gdb"], ["gdb", "-q", "-batch", "-nx", "-ex", "set startup-with-shell off", "-ex", "run", "-ex", "quit $_exitcode", "--args", USE_GPU], "recorded"),
        "ld.so PROGRAM": ([loader], [loader, USE_GPU], "recorded"),
        "perl": (["perl"], ["perl", "-e", f"exit(system('{USE_GPU}') >> 8)"], "recorded"),
        "node": (["node"], ["node", "-e", f"process.exit(require('child_process').spawnSync('{USE_GPU}', {{stdio: 'inherit'}}).status)"], "recorded"),
    }


def is_there(need):
    if need == "root":
        return os.geteuid() == 0
    return bool(need) and (os.path.exists(need) if "/" in need else shutil.which(need) is not None)


def without_pids(text):
    return re.sub(r"\b(process|pid) \d+|0x[0-9a-f]+|LWP \d+", "", text)


def check(folder, name, command, expected):
    """Tries one way. Returns what is wrong, or the result."""
    native = subprocess.run(command, env=dict(ENVIRONMENT, RUN=""), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if "used" not in native.stdout:
        return None, f"it does not work here: {(native.stderr or native.stdout).strip()[-80:]}"
    place = tempfile.mkdtemp(dir=folder)
    os.chmod(place, 0o777)
    log = os.path.join(place, "d.gplog")
    run, said = [GPUPEAK, "run", "-o", log, "--"], os.path.join(folder, "said")
    done = subprocess.run(command if name.startswith("run: ") else [*run, *command], env=dict(ENVIRONMENT, RUN=" ".join(run)), cwd=folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if name.startswith("run: "):
        with open(said, encoding="utf-8") as file:
            done.stderr = file.read()
    if without_pids(done.stdout) != without_pids(native.stdout):
        return False, f"prints {done.stdout!r}, not {native.stdout!r}"
    if done.returncode != native.returncode:
        return False, f"ends with {done.returncode}, not {native.returncode}"
    first = next((line for line in done.stderr.splitlines() if line.startswith("gpupeak: ") and not line.startswith(("gpupeak: recording ", "gpupeak: reading "))), "")
    report = subprocess.run([GPUPEAK, "report", "--json", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if report.returncode != 0:
        return False, f"no report: {report.stderr.decode()}{done.stderr}"
    whole = json.loads(report.stdout)["whole_run"]
    times = native.stdout.count("used")
    peaks = [process["device_peak_bytes"] for process in whole["processes"] if process["device_peak_bytes"]]
    recorded = peaks == [3 << 20] * times and re.search(r"peak [369]\.00 MiB of 80\.0 GiB on GPU 0", first)
    found = [process for process in whole["not_recorded"] if process["used_gpu"] or process["went_on"]]
    if recorded and expected != "found":
        complete = "complete" if whole["complete"] else "NOT COMPLETE"
        return complete == "complete", f"recorded, {complete}: {first}"
    if found and expected != "recorded" and first.startswith("gpupeak: not recorded: pid "):
        return not whole["complete"], f"found: {first}"
    return False, f"{peaks} {whole['not_recorded']}: {done.stderr}"


def main():
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    wrong, done = [], 0
    try:
        for name, (needs, command, expected) in ways(folder).items():
            if WANTED and name not in WANTED:
                continue
            missing = [need for need in needs if not is_there(need)]
            good, what = (None, f"{', '.join(missing)} is not here") if missing else check(folder, name, command, expected)
            for again in range(2, TIMES + 1):
                if not good:
                    break
                good, what = check(folder, name, command, expected)
                what = f"{again} times, {what}"
            done += good is not None
            print(f"{'skipped' if good is None else 'ok' if good else 'WRONG':8} {name}: {what}", flush=True)
            if good is False:
                wrong.append(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not done:
        raise Skipped("none of the ways is here")
    print(f"{done} ways, {len(wrong)} of them wrong")
    sys.exit(1 if wrong else 0)


run_checks(main)
