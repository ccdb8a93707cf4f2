"""The Python module `gpupeak`: what it tells of a program on the simulated driver while that runs, against what the program itself has
allocated and against its log; that it does nothing without the preload; and what it reads from a log. With each Python at hand, from 3.8 on.

usage: python_module.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER SOURCE live|absent|read
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../e2e"), os.path.join(HERE, "../python")]
from common import GPUPEAK, environment, expect, run_checks  # noqa: E402
from driver_calls import DRIVER_CALLS  # noqa: E402
from python_log import find_pythons  # noqa: E402

DRIVER, SOURCE, CASE = sys.argv[3:6]
MODULE = os.path.join(SOURCE, "tools/python")
MIB = 1 << 20

CLIENT = DRIVER_CALLS + """
import json, threading
import gpupeak

libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

truth = {}
assert gpupeak.active(warn=True)
with gpupeak.phase("outer") as outer:
    free(alloc(10 * MIB))
    with gpupeak.phase("inner") as inner:
        kept = alloc(4 * MIB)
        free(alloc(2 * MIB))
        libc.free(libc.malloc(50 * MIB))
        truth["while open"] = inner.peak("device:0")
    with gpupeak.phase("second") as second:
        pass
    with gpupeak.phase("by another thread") as threads:
        thread = threading.Thread(target=lambda: free(alloc(20 * MIB)))
        thread.start(); thread.join()
    with gpupeak.phase("gives back") as back:
        free(kept)
for name, one in dict(outer=outer, inner=inner, second=second, threads=threads, back=back).items():
    truth[name] = [one.start("device:0"), one.peak("device:0"), one.end("device:0"), one.growth("device:0"), one.peak("device:0.linear"),
                   one.peak("host.heap") - one.start("host.heap")]
truth["scopes"] = outer.scopes()
truth["run"] = [gpupeak.usage("device:0").peak_bytes, gpupeak.usage("device:0").window_peak_bytes, gpupeak.usage()["device:0"].live_bytes]
gpupeak.reset()
free(alloc(MIB))
with gpupeak.phase("after the reset"): pass
truth["window"] = [gpupeak.usage("device:0").peak_bytes, gpupeak.usage("device:0").window_peak_bytes, gpupeak.usage("host.pinned").live_bytes]

@gpupeak.phase("decorated")
def decorated(size):
    "doc"
    return alloc(size)
decorated(MIB)
decorated(MIB)
assert decorated.__doc__ == "doc" and decorated.__name__ == "decorated"
with gpupeak.tag("weights"):
    pool = alloc(64 * MIB)
with gpupeak.Arena("mine", pool, 64 * MIB) as arena:
    arena.allocated(pool, 3 * MIB, "first")
    arena.freed(pool)
    arena.allocated(pool, MIB)
    arena.reset()
gpupeak.mark("here")
try:
    with gpupeak.phase("fails"):
        raise KeyError
except KeyError:
    pass
truth["unknown"] = []
for name in "device", "device:99", "host", "device:0.managed":
    try:
        gpupeak.usage(name)
    except ValueError:
        truth["unknown"].append(name)
print(json.dumps(truth))
"""

ABSENT = """
import json, warnings
import gpupeak
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    gpupeak.active()
    for _ in range(3):
        gpupeak.active(warn=True)
with gpupeak.phase("p") as phase, gpupeak.tag("t"), gpupeak.Arena("a", 4096, 4096) as arena:
    arena.allocated(4096, 1); arena.freed(4096); arena.reset()
gpupeak.mark("m"); gpupeak.reset()
@gpupeak.phase("d")
def f(a, b=2): return a + b
refused = 0
async def coroutine(): pass
def generator(): yield
for function in coroutine, generator:
    try:
        gpupeak.phase("x")(function)
    except TypeError:
        refused += 1
print(json.dumps([gpupeak.active(), [str(w.message) for w in caught], phase.peak("device:0"), phase.growth("host.heap"), phase.scopes(),
                  gpupeak.usage(), gpupeak.usage("host.heap"), f(1), refused]))
"""

READ = """
import json, sys
import gpupeak
run = gpupeak.read(sys.argv[1])
sums = {peak.scope: [peak.bytes, sum(row["bytes"] for row in run.rows(peak.scope))] for peak in run.peaks}
few = gpupeak.read(sys.argv[1], top=1)
errors = []
for path in sys.argv[2], sys.argv[3]:
    try:
        gpupeak.read(path)
    except gpupeak.GpupeakError as error:
        errors.append(str(error))
try:
    run.rows("device:7")
except KeyError as error:
    errors.append(str(error))
print(json.dumps([sums, len(few.peak("device:0").holders), sum(r["bytes"] for r in few.rows("device:0")),
                  errors, [p.name for p in run.phases], run.exit, run.quality.exact,
                  [d.total_bytes for d in run.devices], run.peak("device:9"), gpupeak.library()]))
"""


def pythons():
    found = [path for version in ("3.8", "3.14", "3.13") for path in find_pythons(version)[:1]][:2]
    return [*found, sys.executable]


def python(path, text, folder, *arguments, log=None):
    env = {**environment(folder, False), "PYTHONPATH": MODULE, "LD_LIBRARY_PATH": DRIVER, "GPUPEAK_COMMAND": GPUPEAK,
           "PYTHONDONTWRITEBYTECODE": "1"}
    launcher = [GPUPEAK, "run", "-q", "-o", log, "--"] if log else []
    done = subprocess.run([*launcher, path, "-c", text, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"{path}: {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def check_live(path, folder):
    log = os.path.join(folder, "live.gplog")
    truth = python(path, CLIENT, folder, log=log)
    for name, figures in {"outer": [0, 24, 0, 0, 24], "inner": [0, 6, 4, 4, 6], "second": [4, 4, 4, 0, 4], "threads": [4, 24, 4, 0, 24],
                          "back": [4, 4, 0, -4, 4]}.items():
        expect([f / MIB for f in truth[name][:5]] == figures, f"{path}: {name}: {truth[name]}, not {figures} MiB")
    for name in "outer", "inner":
        expect(50 * MIB <= truth[name][5] < 51 * MIB, f"{name}: of the heap {truth[name][5]}")
    expect(truth["second"][5] < MIB, f"second: of the heap {truth['second'][5]}")
    expect(truth["while open"] == 6 * MIB, f"while it is open: {truth['while open']}")
    expect(truth["run"] == [24 * MIB, 24 * MIB, 0] and truth["window"] == [24 * MIB, MIB, 0], f"{truth['run']} {truth['window']}")
    expect(truth["scopes"] == ["device:0", "device:0.linear", "host.heap", "host.pinned", "host.registered", "managed"], truth["scopes"])
    expect(len(truth["unknown"]) == 4, f"not refused: {truth['unknown']}")

    sys.path.insert(0, MODULE)
    os.environ["GPUPEAK_COMMAND"] = GPUPEAK
    import gpupeak
    run = gpupeak.read(log)
    in_log = {phase.name: phase for phase in run.phases}
    for name, ours in {"outer": "outer", "inner": "inner", "by another thread": "threads", "gives back": "back"}.items():
        expect(in_log[name].metrics["device.peak_bytes"] == truth[ours][1], f"the log's {name}: {in_log[name].metrics}")
    names = sorted(in_log)
    options = [word for name in names for word in ("--within", name)]
    held = json.loads(subprocess.run([GPUPEAK, "report", "--held", "--json", "--top", "2", *options, "--at", "0", "--within", "absent", log],
                                     stdout=subprocess.PIPE, check=True).stdout)["moments"]
    for name, moment in zip(names, held):  # two ways to the same figure
        expect(moment["bytes"] == in_log[name].metrics["device.peak_bytes"], f"held within {name}: {moment}, {in_log[name].metrics}")
        expect(sum(row["bytes"] for row in moment["holders"]) + moment["other_bytes"] == moment["bytes"], f"{moment}")
    expect([moment["bytes"] for moment in held[len(names):]] == [None, None], f"{held[len(names):]}")
    expect(in_log["decorated"].count == 2 and in_log["fails"].count == 1, f"{in_log.keys()}")
    expect([mark["name"] for mark in run.json["marks"]] == ["here"], run.json["marks"])
    mine = [arena for arena in run.arenas if arena.name == "mine"]
    expect(len(mine) == 1 and mine[0].peak_bytes == 3 * MIB, f"{run.arenas}")
    tags = subprocess.run([GPUPEAK, "tags", "--json", log], stdout=subprocess.PIPE, check=True).stdout
    expect(b'"weights"' in tags, tags.decode())


def check_absent(path, folder):
    active, warned, *figures = python(path, ABSENT, folder)
    expect(not active and len(warned) == 1 and "gpupeak run" in warned[0], f"{path}: {active} {warned}")
    expect(figures == [None, None, [], {}, None, 3, 2], f"{path}: {figures}")


def check_read(path, folder):
    log, torn = os.path.join(folder, "live.gplog"), os.path.join(folder, "torn.gplog")
    if not os.path.exists(log):
        python(path, CLIENT, folder, log=log)
        with open(torn, "w", encoding="utf-8") as file:
            file.write("this is no log")
    sums, few, few_sum, errors, phases, end, exact, totals, none, library = python(
        path, READ, folder, log, torn, os.path.join(folder, "absent.gplog"))
    expect(sums["device:0"] == [66 * MIB, 66 * MIB], f"{sums}")
    expect(all(peak == rows for peak, rows in sums.values()), f"{sums}")
    expect(few == 1 and few_sum == 66 * MIB, f"{few} {few_sum}")
    expect("torn.gplog" in errors[0] and "absent.gplog" in errors[1] and "device:0" in errors[2], f"{errors}")
    expect("outer" in phases and end == {"kind": "exit", "code": 0} and exact and totals == [80 << 30] and none is None,
           f"{phases} {end} {exact} {totals} {none}")
    expect(os.path.basename(library) == "libgpupeak.so" and os.path.exists(library), library)


def main():
    check = {"live": check_live, "absent": check_absent, "read": check_read}[CASE]
    with tempfile.TemporaryDirectory() as folder:
        for path in pythons():
            check(path, folder)
    print(f"{CASE}: {', '.join(pythons())}")


run_checks(main)
