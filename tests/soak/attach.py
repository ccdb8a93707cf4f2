#!/usr/bin/env python3
"""Attaches to programs and leaves them again, many times each, and prints a table of what came of it.

usage: attach.py GPUPEAK FOLDER ROUNDS [--seconds S] [--onnxruntime ONNXRUNTIME_FOLDER] [NAME…]

FOLDER: of the programs that CMake makes of attach_programs.cc; ROUNDS: for each program, fewer if S seconds are over. Each tenth round the
command is interrupted (SIGINT or SIGKILL) at a random moment. A program is harmed if it ends, does not end when it is to, or has another
output or exit code than by itself.
"""
import argparse
import collections
import importlib.util
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("gpupeak")
parser.add_argument("folder")
parser.add_argument("rounds", type=int)
parser.add_argument("--seconds", type=float, default=float("inf"))
parser.add_argument("--onnxruntime", default="", help="has onnxruntime_perf_test, the CUDA provider, models/light_resnet50.onnx")
parser.add_argument("names", nargs="*")
options = parser.parse_intermixed_args()
GPUPEAK, FOLDER, ROUNDS, NAMES, END = options.gpupeak, options.folder, options.rounds, options.names, time.monotonic() + options.seconds
PROGRAMS = os.path.join(FOLDER, "soak_attach_programs")
PERF_TEST = "onnxruntime_perf_test"  # goes on for as long as it was told to, whatever its input is
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# The end of each program in Python, which has threads that work while `on`.
WORK_UNTIL_INPUT_ENDS = """
[t.start() for t in threads]
print("works", flush=True)
sys.stdin.read()
on = False
[t.join() for t in threads]
print("wrong", wrong)
sys.exit(7)
"""
PYTHON = """
import json, sys, threading
wrong, on = 0, True
def work():
    global wrong
    while on:
        data = [dict(a=i, b=str(i)) for i in range(300)]
        wrong += json.loads(json.dumps(data)) != data
threads = [threading.Thread(target=work) for _ in range(4)]
""" + WORK_UNTIL_INPUT_ENDS
NODE = """
let on = true, wrong = 0
function step() {
  const data = Array.from({length: 500}, (_, i) => ({i, s: 'x' + i}))
  if (JSON.stringify(JSON.parse(JSON.stringify(data))) !== JSON.stringify(data)) ++wrong
  if (on) setImmediate(step); else { console.log('wrong', wrong); process.exitCode = 7 }
}
console.log('works'); step()
process.stdin.on('data', () => {}).on('end', () => { on = false })
"""
PERL = """$| = 1; print "works\\n"; my ($wrong, $bits) = (0, '');
vec($bits, 0, 1) = 1;
while (1) {
  my %h; $h{$_} = "v$_" for 1 .. 500;
  for (1 .. 500) { $wrong++ if $h{$_} ne "v$_" }
  if (select(my $ready = $bits, undef, undef, 0) > 0) { last unless sysread(STDIN, my $b, 10) }
}
print "wrong $wrong\\n"; exit 7;"""
JAVA = """
import java.util.*;
public class Work {
  static volatile boolean on = true;
  static volatile int wrong = 0;
  public static void main(String[] a) throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 3; ++t) {
      Thread one = new Thread(() -> {
        while (on) { Map<Integer, String> m = new HashMap<>(); for (int i = 0; i < 500; ++i) m.put(i, "v" + i);
          for (int i = 0; i < 500; ++i) if (!m.get(i).equals("v" + i)) ++wrong; } });
      one.start(); threads.add(one);
    }
    System.out.println("works");
    while (System.in.read() >= 0) {}
    on = false;
    for (Thread t : threads) t.join();
    System.out.println("wrong " + wrong);
    System.exit(7);
  }
}"""
GO = """
package main
import ("fmt"; "io"; "os"; "strconv"; "sync"; "sync/atomic")
func main() {
  var on, wrong atomic.Int64
  on.Store(1)
  var all sync.WaitGroup
  for t := 0; t < 3; t++ { all.Add(1); go func() { defer all.Done()
    for on.Load() == 1 { m := map[int]string{}; for i := 0; i < 500; i++ { m[i] = strconv.Itoa(i) }
      for i := 0; i < 500; i++ { if m[i] != strconv.Itoa(i) { wrong.Add(1) } } } }() }
  fmt.Println("works")
  io.ReadAll(os.Stdin)
  on.Store(0)
  all.Wait()
  fmt.Println("wrong", wrong.Load())
  os.Exit(7)
}"""
# Cycles of memory that Boehm's collector frees, which stops all threads by signals.
GUILE = """
(use-modules (ice-9 threads))
(define on #t) (define wrong 0)
(define (work) (let loop () (when on
  (let ((v (map (lambda (i) (cons i (make-string 50 #\\a))) (iota 500))))
    (for-each (lambda (p i) (unless (and (= (car p) i) (= 50 (string-length (cdr p)))) (set! wrong (+ wrong 1)))) v (iota 500)))
  (loop))))
(define threads (list (call-with-new-thread work) (call-with-new-thread work)))
(display "works\\n") (force-output)
(let loop () (unless (eof-object? (read-char)) (loop)))
(set! on #f) (for-each join-thread threads)
(display "wrong ") (display wrong) (newline) (exit 7)"""
# Memory from the driver and back to it all the time, and a pool.
TORCH = """
import sys, threading, torch
on, wrong = True, 0
def work(pooled):
    global wrong
    with torch.cuda.stream(torch.cuda.Stream()):
        while on:
            a = torch.full((1 << 18,), 2.0, device="cuda")
            wrong += (a * a).sum().item() != 4 << 18
            del a
            if not pooled:
                torch.cuda.empty_cache()
torch.zeros(1, device="cuda")
threads = [threading.Thread(target=work, args=(pooled,)) for pooled in (False, False, True)]
""" + WORK_UNTIL_INPUT_ENDS
# Contexts, blocks, modules of the driver API, by itself.
DRIVER = """
import ctypes, sys, threading
cuda, on, wrong = ctypes.CDLL("libcuda.so.1"), True, 0
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
def work():
    global wrong
    cuda.cuCtxSetCurrent(context)
    stream, address = ctypes.c_void_p(), ctypes.c_uint64()
    while on:
        wrong += cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) != 0
        wrong += cuda.cuStreamCreate(ctypes.byref(stream), 1) != 0
        wrong += cuda.cuMemsetD8Async(address, 7, ctypes.c_size_t(3 << 20), stream) != 0
        got = ctypes.create_string_buffer(16)
        wrong += cuda.cuStreamSynchronize(stream) != 0
        wrong += cuda.cuMemcpyDtoH_v2(got, address, ctypes.c_size_t(16)) != 0
        wrong += got.raw != bytes([7]) * 16
        wrong += cuda.cuStreamDestroy_v2(stream) != 0 or cuda.cuMemFree_v2(address) != 0
threads = [threading.Thread(target=work) for _ in range(2)]
""" + WORK_UNTIL_INPUT_ENDS
# Sessions that begin and end, and run.
ONNXRUNTIME = """
import sys, threading
import numpy, onnxruntime
sys.path.insert(0, sys.argv[1])
import tiny_onnx
tiny_onnx.write(sys.argv[2])
on, wrong = True, 0
data = {"image": numpy.ones((1, 3, 224, 224), numpy.float32)}
def session():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(sys.argv[2], options, providers=onnxruntime.get_available_providers())
first = session()
wanted = first.run(None, data)[0]
def work():
    global wrong
    while on:
        wrong += not numpy.allclose(session().run(None, data)[0], wanted, 1e-3)
threads = [threading.Thread(target=work) for _ in range(2)]
""" + WORK_UNTIL_INPUT_ENDS
BASH = 'echo works; wrong=0; while :; do x=$(echo $((RANDOM % 10 + 5)) | cat); [ "$x" -ge 5 ] || wrong=1; read -t 0; got=$?; ' \
       'if [ $got = 0 ]; then read -r line || break; fi; done; echo wrong $wrong; exit 7'


def written(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def programs(folder):
    """Name, command, variables. What this machine does not have is left out."""
    found = {what: ([PROGRAMS, what], {}) for what in ("threads", "throws", "opens", "spawns", "forks", "vforks", "events", "ring", "coroutines",
                                                            "signals", "confined", "stopped", "traced")}
    for library in ("jemalloc.so.2", "tcmalloc.so.4", "mimalloc.so.2", "tbbmalloc_proxy.so.2"):
        path = f"{LIBRARIES}/lib{library}"
        if os.path.exists(path):
            found[f"threads, {library.split('.')[0]} preloaded"] = ([PROGRAMS, "threads"], {"LD_PRELOAD": path})
            found[f"opens, {library.split('.')[0]} preloaded"] = ([PROGRAMS, "opens"], {"LD_PRELOAD": path})
    for way, linked in (("linked", "soak_attach_jemalloc"), ("in the program's file", "soak_attach_jemalloc_static")):
        for what in ("threads", "opens"):
            if os.path.exists(os.path.join(FOLDER, linked)):
                found[f"{what}, jemalloc {way}"] = ([os.path.join(FOLDER, linked), what], {})
    found["python3, four threads"] = (["python3", "-c", PYTHON], {})
    found["bash, with children"] = (["bash", "-c", BASH], {})
    if shutil.which("node"):
        found["node"] = (["node", "-e", NODE], {})
    if shutil.which("perl"):
        found["perl"] = (["perl", "-e", PERL], {})
    if shutil.which("guile"):
        found["guile, two threads"] = (["guile", "--no-auto-compile", "-c", GUILE], {})
    if shutil.which("ffmpeg"):
        video = "exec ffmpeg -nostats -loglevel quiet -f lavfi -i testsrc2 -c:v mpeg4 -f null -"
        found["ffmpeg"] = (["sh", "-c", f"echo works; {video}"], {})
    for name, program in (("PyTorch", TORCH), ("the driver", DRIVER)):
        if os.path.exists("/dev/nvidia0"):
            found[name] = (["python3", "-c", program], {})
    if importlib.util.find_spec("onnxruntime"):
        found["ONNX Runtime"] = (["python3", "-c", ONNXRUNTIME, os.path.join(HERE, "../e2e"), os.path.join(folder, "tiny.onnx")], {})
    if options.onnxruntime:
        words = f"{options.onnxruntime}/onnxruntime_perf_test -e cuda -t 100000 -I -m duration {options.onnxruntime}/models/light_resnet50.onnx"
        found[PERF_TEST] = (["sh", "-c", f"echo works; exec {words} >/dev/null 2>&1"], {})
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", folder, written(folder, "Work.java", JAVA)], check=True)
        found["java, three threads"] = (["java", "-cp", folder, "Work"], {})
    if shutil.which("go"):
        source, binary = written(folder, "work.go", GO), os.path.join(folder, "work")
        environment = {**os.environ, "GOCACHE": os.path.join(folder, "go"), "GO111MODULE": "off"}
        for name, linking in (("go", []), ("go with C", ["-ldflags=-linkmode=external"])):
            if subprocess.run(["go", "build", *linking, "-o", binary + name, source], env=environment, capture_output=True, check=False).returncode == 0:
                found[name] = ([binary + name], {})
    return found


class Run:
    """The program at work."""

    def __init__(self, command, variables, ignores_input):
        self.ignores_input = ignores_input
        self.process = subprocess.Popen(command, env={**os.environ, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()

    def end(self):
        """What it printed and its exit code; None: it does not end."""
        if self.ignores_input:
            self.process.terminate()
        try:
            rest, _ = self.process.communicate("q\n", timeout=60)  # q ends ffmpeg, which goes on without input
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None
        return self.first + rest, self.process.returncode


def one_command(seconds, *words):
    """Exit code, what it said, and how long it took. `seconds`: it is interrupted then; None: it is not."""
    begin = time.monotonic()
    process = subprocess.Popen([GPUPEAK, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(random.choice((signal.SIGINT, signal.SIGKILL)))
        said, _ = process.communicate()
    return process.returncode, said, time.monotonic() - begin


def look_at(folder, name, command, variables):
    """A row of the table, and what went wrong in words."""
    alone = Run(command, variables, name == PERF_TEST)
    time.sleep(0.5)
    wanted = alone.end()
    program, counts, took, why, harm = Run(command, variables, name == PERF_TEST), collections.Counter(), [], collections.Counter(), []
    pid = str(program.process.pid)
    for turn in range(ROUNDS):
        if time.monotonic() > END:
            break
        log = os.path.join(folder, "a.gplog")
        interrupted = random.uniform(0.001, 0.2) if turn % 10 == 9 else None
        code, said, seconds = one_command(interrupted, "attach", "--wait", "0.5", "-o", log, pid)
        took.append(seconds)
        if program.process.poll() is not None:
            harm.append(f"ended in turn {turn}: {program.process.returncode} {said}")
            break
        counts["attached" if code == 0 else "interrupted" if interrupted else "refused" if code == 2 else "failed"] += 1
        if code not in (0, 2) and not interrupted:
            harm.append(f"turn {turn}: attach {code} {said}")
        if code == 2:
            why[re.sub(r"\d+", "N", said.strip().split(": ", 1)[-1])[:90]] += 1
        if code == 0 or interrupted:
            time.sleep(random.uniform(0, 0.03) if code == 0 else 0.3)  # a killed command's child goes on
            for _ in range(200):  # a thread that cannot be stopped now can a moment later
                code, said, _ = one_command(None, "detach", pid)
                if code != 2 or "not attached" in said:
                    break
                time.sleep(0.01)
            if code not in (0, 2) and not interrupted:
                harm.append(f"turn {turn}: detach {code} {said}")
            if turn % 10 == 0 and code == 0:
                code, said, _ = one_command(None, "report", "--json", log)
                if code != 0 or '"GP005"' in said or '"GP028"' in said:
                    harm.append(f"turn {turn}: report {code} {said[:200]}")
        if os.path.exists(log):
            os.remove(log)
    found = program.end()
    if found != wanted:
        harm.append(f"by itself {wanted}, attached to {found}")
    ms = statistics.median(took) * 1000
    print(f"| {name} | {sum(counts.values())} | {counts['attached']} | {counts['refused']} | {counts['interrupted']} | {len(harm)} | {ms:.0f} |", flush=True)
    for text, count in why.most_common(2):
        print(f"<!-- {name}: refused {count}: {text} -->", flush=True)
    for text in harm[:3]:
        print(f"<!-- {name}: HARM {text} -->", flush=True)
    return sum(counts.values()), len(harm)


def main():
    print("| program | rounds | attached | refused | interrupted | harmed | attach, ms (median) |\n|---|---|---|---|---|---|---|")
    rounds = harmed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, variables) in programs(folder).items():
            if NAMES and name not in NAMES:
                continue
            more, harms = look_at(folder, name, command, variables)
            rounds, harmed = rounds + more, harmed + harms
    print(f"\n{rounds} rounds, harmed {harmed}")
    sys.exit(harmed > 0)


main()
