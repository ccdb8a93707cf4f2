"""What grows is told in programs of other kinds than grows.py's: C++, frameworks' pools, pools of workers, an attached server, node, and
steps of a few milliseconds; where collectors of garbage free later, or files are read, nothing is.
argv: LIBRARY GPUPEAK CASE PROGRAM FOLDER_OF_LIBCUDA ORT XLA TORCH (the stand-ins' libraries)"""
import os
import re
import shutil
import subprocess
import sys

from common import GPUPEAK, environment, expect, gpupeak, record, report, run_case, write

CASE, CLIENT, DRIVER, ORT, XLA, TORCH = sys.argv[3:9]
HERE = os.path.dirname(os.path.abspath(__file__))
KIB, MIB = 1 << 10, 1 << 20

# By the programs of grows_more.cc: the call that keeps, and bytes a step.
CPP = {
    "cycles": ("keep_cycle", 64 * KIB),
    "arrays": ("keep_array", 40 * KIB),
    "map": ("keep_in_map", 4 * KIB),  # 8 of them a step: of several blocks each is taken for a step where another call comes as often
    "short_steps": ("keep_record", KIB),
    "requests_leak": ("keep_array", 20 * KIB),
    "threads": ("main", 16 * 64 * KIB),  # a step of each
    "free_threads": ("main", 8 * 64 * KIB),  # which do not wait for each other
}
CPP_DO_NOT = ["requests", "lru"]

STAND_IN = """
import ctypes, sys
POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t
class Ledger(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("in_use", "reserved", "peak")]
"""
ORT_RUNS = STAND_IN + """
class Ort(ctypes.Structure):
    _fields_ = [("make", ctypes.CFUNCTYPE(POINTER, ctypes.c_bool, ctypes.c_int64)), ("destroy", ctypes.CFUNCTYPE(None, POINTER)),
                ("alloc", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)), ("alloc_on_stream", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)),
                ("reserve", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)), ("free", ctypes.CFUNCTYPE(None, POINTER, POINTER)),
                ("ledger", ctypes.CFUNCTYPE(Ledger, POINTER))]
library = ctypes.CDLL(sys.argv[1])
class Base(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(POINTER, ctypes.c_uint32)), ("get_version", POINTER)]
library.OrtGetApiBase.restype = ctypes.POINTER(Base)
library.OrtGetApiBase().contents.get_api(15)
library.fake_ort.restype = ctypes.POINTER(Ort)
ort = library.fake_ort().contents
arena = ort.make(True, 1 << 30)
weights = [ort.alloc(arena, 4 << 20) for _ in range(8)]
def keep():
    return ort.alloc(arena, 512 << 10)
def session_run(kept):
    scratch = ort.alloc(arena, 3 << 20)
    if sys.argv[2] == "leaks": kept.append(keep())
    ort.free(arena, scratch)
def main():
    kept, half = [], 0
    for step in range(40):
        session_run(kept)
        if step == 19: half = ort.ledger(arena).in_use
    print((ort.ledger(arena).in_use - half) // 20)
main()
"""
XLA_RUNS = STAND_IN + """
class Xla(ctypes.Structure):
    _fields_ = [("alloc", ctypes.CFUNCTYPE(POINTER, SIZE)), ("alloc_with", ctypes.CFUNCTYPE(POINTER, SIZE, ctypes.c_bool)),
                ("free", ctypes.CFUNCTYPE(None, POINTER)), ("clear", ctypes.CFUNCTYPE(None)), ("ledger", ctypes.CFUNCTYPE(Ledger))]
library = ctypes.CDLL(sys.argv[1])
library.GetPjrtApi.restype = POINTER
library.GetPjrtApi()
library.fake_xla.restype = ctypes.POINTER(Xla)
xla = library.fake_xla().contents
weights = [xla.alloc(2 << 20) for _ in range(8)]
def keep():
    return xla.alloc(256 << 10)
def step(kept):
    scratch = xla.alloc(3 << 20)
    if sys.argv[2] == "leaks": kept.append(keep())
    xla.free(scratch)
def main():
    kept, half = [], 0
    for number in range(40):
        step(kept)
        if number == 19: half = xla.ledger().in_use
    print((xla.ledger().in_use - half) // 20)
main()
"""
POOL = """
import multiprocessing
kept = []
def work(_):
    bytearray(8 << 20)
    kept.append(bytearray(1 << 20))  # line 5
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(work, range(120), chunksize=1)
        pool.close()
        pool.join()
"""
SERVER = """
import sys
sessions, model = [], bytearray(32 << 20)
def handle(request):
    scratch = bytearray(4 << 20)
    if request == "login": sessions.append(bytearray(512 << 10))
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(40): handle(line.strip())
    print("done", flush=True)
"""
CYCLES = """
class Node: pass
def step():
    for _ in range(200):
        a, b = Node(), Node()
        a.other, b.other, a.payload = b, a, bytearray(4 << 10)
held = bytearray(16 << 20)
for _ in range(150): step()
"""
NODE_LEAKS = """
const kept = [], model = Buffer.alloc(64 << 20, 1);
function step() { Buffer.alloc(4 << 20, 1); kept.push(Buffer.alloc(1 << 20, 1)); }
let count = 0;
const timer = setInterval(() => { step(); if (++count == 100) clearInterval(timer); }, 4);
"""
NODE_COLLECTS = """
let live = [];
function step(i) { live = []; for (let k = 0; k < 2000; ++k) live.push({i, k, text: "some text " + i + k, more: [i, k]}); }
for (let i = 0; i < 400; ++i) step(i);
"""
JAVA_COLLECTS = """
public class Collects {
  static byte[][] live;
  static void step(int i) { live = new byte[64][]; for (int k = 0; k < 64; ++k) live[k] = new byte[16384 + i]; }
  public static void main(String[] none) { for (int i = 0; i < 2000; ++i) step(i); }
}
"""


def rows_of(log, side):
    return [row for row in report(log)["growth"] if row["side"] == side]


def expect_grows(name, log, site, each, side="host"):
    rows = rows_of(log, side)
    said = sum(row["grown_bytes"] / (row["last"] - row["first"]) for row in rows)
    error = sum(row.get("error_bytes", 0) / (row["last"] - row["first"]) for row in rows)
    expect(rows and site in rows[0]["site"], f"{name}: {site} is not said to grow: {rows}")
    expect(abs(said - each) <= each / 50 + error, f"{name} grows by {said} bytes a step, not by {each}: {rows}")


def expect_does_not(name, log):
    rows = report(log)["growth"]
    expect(rows == [], f"{name} is said to grow: {rows}")


def cpp(folder):
    for name, (site, each) in CPP.items():
        log = os.path.join(folder, f"{name}.gplog")
        record(log, CLIENT, name)
        expect_grows(name, log, site, each)
    for name in CPP_DO_NOT:
        log = os.path.join(folder, f"{name}.gplog")
        record(log, CLIENT, name)
        expect_does_not(name, log)
    words = write(folder, "words", "".join(f"line {i} of a file, with a word that is kept and others that are not\n" for i in range(20_000)))
    log = os.path.join(folder, "reads.gplog")
    record(log, CLIENT, "reads_words", words)
    expect_does_not("reads_words", log)


def pools(folder):
    """ONNX Runtime's and XLA's, on the simulated GPU, by the ledgers of the stand-ins."""
    for kind, program, library in (("ort", ORT_RUNS, ORT), ("xla", XLA_RUNS, XLA)):
        for what in ("leaks", "keeps_nothing"):
            log = os.path.join(folder, f"{kind}_{what}.gplog")
            each = int(record(log, sys.executable, "-c", program, library, what, options=["--host", "off"], LD_LIBRARY_PATH=DRIVER))
            if what == "leaks":
                expect_grows(f"{kind}", log, "keep <string>", each, "device")
            else:
                expect_does_not(f"{kind} {what}", log)


def workers(folder):
    """A pool of workers, as `run` records them by default: each of which has its log."""
    log = os.path.join(folder, "pool.gplog")
    record(log, sys.executable, write(folder, "pool.py", POOL))
    own = [os.path.join(folder, "pool.children", name) for name in sorted(os.listdir(os.path.join(folder, "pool.children")))]
    grow = [each for each in own if rows_of(each, "host")]
    expect(len(grow) == 3, f"{len(grow)} of {len(own)} workers are said to grow")
    for each in grow:
        expect_grows("worker", each, "work pool.py:6", MIB)
    text = gpupeak("report", log)[1]
    expect("grows by 1.00 MiB a step" in text and "by work pool.py:6" in text, text)
    log = os.path.join(folder, "beside.gplog")
    program = POOL.replace("    with", "    import ctypes\n    cuda, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint64()\n    cuda.cuInit(0)\n"
                           "    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0)\n    cuda.cuCtxSetCurrent(at)\n"
                           "    cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(300 << 20))\n    with")
    record(log, sys.executable, write(folder, "beside.py", program), LD_LIBRARY_PATH=DRIVER)
    text = gpupeak("report", log)[1]
    expect("300 MiB of GPU 0" in text and re.search(r"work beside.py:6; it grows by 1.00 MiB a step", text), text)
    growths = [process["growth"] for process in report(log)["whole_run"]["processes"]]
    told = [growth[0] for growth in growths if growth]
    expect(told and all(abs(each["bytes_each"] - MIB) < MIB / 50 and each["site"] == "work beside.py:6" for each in told), f"{growths}")


def server(folder):
    """Attached while it runs; then it does the same without keeping anything."""
    program = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(folder, False), text=True)
    program.stdout.readline()
    for what in ("login", "look"):
        log = os.path.join(folder, f"{what}.gplog")
        code, text = gpupeak("attach", str(program.pid), "-o", log)
        expect(code == 0, text)
        for _ in range(2):
            program.stdin.write(what + "\n")
            program.stdin.flush()
            program.stdout.readline()
        code, text = gpupeak("detach", str(program.pid))
        expect(code == 0, text)
        if what == "login":
            expect_grows("server", log, "handle <string>:6", 512 * KIB)
            expect("grows by 512 KiB a step" in gpupeak("report", log)[1], gpupeak("report", log)[1])
        else:
            expect_does_not("server", log)
    program.communicate()


def collectors(folder):
    log = os.path.join(folder, "cycles.gplog")
    record(log, sys.executable, "-c", CYCLES)
    expect_does_not("cycles of Python", log)
    if shutil.which("node"):
        log, said = os.path.join(folder, "node.gplog"), 0
        for _ in range(6):  # its compiler's threads allocate as they like: sometimes nothing is said
            record(log, "node", write(folder, "leaks.js", NODE_LEAKS))
            if rows_of(log, "host"):
                expect_grows("node", log, "uv__run_timers", MIB)
                said += 1
        expect(said >= 3, f"{said} of 6 runs of node are said to grow")
        record(log, "node", write(folder, "collects.js", NODE_COLLECTS))
        expect_does_not("node", log)
    if shutil.which("javac"):
        log = os.path.join(folder, "java.gplog")
        subprocess.run(["javac", "-d", folder, write(folder, "Collects.java", JAVA_COLLECTS)], check=True)
        record(log, "java", "-Xmx256m", "-cp", folder, "Collects")
        expect_does_not("java", log)


def questions(_folder):
    """Those of tests/gpu, with a PyTorch of a few lines over the stand-in for its pool; calls are counted from Python 3.12 on."""
    sys.path.append(os.path.join(HERE, "../python"))
    from python_log import find_pythons  # pylint: disable=import-outside-toplevel
    python = next((path for version in ("3.13", "3.12") for path in find_pythons(version)), None)
    env = environment("", False) | {"FAKE_C10_CUDA": TORCH, "LD_LIBRARY_PATH": DRIVER, "PYTHONPATH": os.path.join(HERE, "fake_torch_pool/site-packages")}
    cases = [] if python else ["losses_keep_graphs", "cache_fills", "optimizer_states", "loader_workers", "growing_lengths", "hooks_keep_outputs",
                               "ages_of_blocks", "warms_up", "fragmentation"]
    done = subprocess.run([python or sys.executable, os.path.join(HERE, "../gpu/growth_questions.py"), GPUPEAK, *cases], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == 0, done.stdout)
    print(done.stdout)


run_case({each.__name__: each for each in (cpp, pools, workers, server, collectors, questions)}[CASE])
