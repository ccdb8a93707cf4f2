"""Of programs without phases it is said whether they grow, by how much at each step, and by whose call; of those that only load, fill
a cache or give back what they took, nothing is. argv: LIBRARY GPUPEAK PROGRAM FOLDER_OF_LIBCUDA"""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

from common import environment, expect, gpupeak, record, report, run_checks

CLIENT, DRIVER = sys.argv[3:5]
MIB = 1 << 20

# By the programs of grows.c: of each call that keeps blocks the bytes a step.
GROW = {
    "half_percent": {"keep": 64 * MIB // 200},
    "ten_steps": {"keep": MIB},
    "fifth": {"keep": 13 * MIB},
    "worker": {"keep": 13 * MIB},
    "two_kept": {"keep": 6 * MIB, "keep_too": MIB},
    "every_third": {"keep": MIB},
    "uneven": {"keep": 3 * MIB},
    "threads": {"keep": 4 * 2 * MIB},  # a step of each of four
    "pool": {"keep_from_pool": 2 * MIB},
    "created": {"keep_created": 2 * MIB},
    "frees_all": {"keep": 2 * MIB},
}
DO_NOT = ["steady", "loaded", "loaded_then_steps", "loaded_then_used", "loaded_large_first", "cache", "slower_cache", "generations",
          "replaced", "rise_and_fall"]
ON_HOST = GROW.keys() - {"pool", "created"}
PYTHON_ON_HOST = """
def train():
    kept = []
    for step in range(30):
        bytearray(8 << 20)
        kept.append(bytearray(2 << 20))
held = bytearray(64 << 20)
train()
"""
ODD = """
import time
kept = None
def step(i):
    global kept
    block = bytearray(3 << 20)
    if i == 20: kept = block
    time.sleep(0.005)
for i in range(60): step(i)
time.sleep(2)  # so that the kept block is far older than one whose step had to wait for a processor
held = bytearray(32 << 20)
"""
PYTHON = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def ok(result): assert result == 0, result
context, device = ctypes.c_void_p(), ctypes.c_int()
ok(cuda.cuInit(0)); ok(cuda.cuDeviceGet(ctypes.byref(device), 0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
ok(cuda.cuCtxSetCurrent(context))
def take(mebibytes):
    at = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mebibytes << 20)))
    return at
def compute():
    ok(cuda.cuMemFree_v2(take(8)))
def train():
    kept = []
    for step in range(30):
        compute()
        kept.append(take(2))
    for block in kept:
        ok(cuda.cuMemFree_v2(block))
take(64)
train()
"""


def growth_of(log):
    return report(log)["growth"]


def log_of(folder, name, *command, options=()):
    log = os.path.join(folder, f"{name}.%n.gplog")
    record(log, *command, options=options, LD_LIBRARY_PATH=DRIVER)
    logs = sorted(os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(f"{name}."))
    return logs[0 if options else -1]  # of a program that forks the child's: with --children all both have one


def expect_growth(name, log, wanted):
    rows = growth_of(log)
    found = {(wanted.keys() & set(row["site"].split())).pop(): row["bytes_each"] for row in rows if wanted.keys() & set(row["site"].split())}
    expect(found.keys() == wanted.keys() and len(rows) == len(wanted), f"{name} grows by {found}, not by {wanted}: {rows}")
    for site, each in wanted.items():
        expect(abs(found[site] - each) <= each / 50, f"{name} grows by {found[site]} bytes a step, not by {each}: {rows}")
    code, text = gpupeak("report", "--at", "peak", "--json", log)
    expect(code == 0, f"{name}: {text}")
    for scope in json.loads(text[text.index("{") :])["scopes"]:
        of_ages = [row["bytes"] for row in scope["ages"]["rows"]]
        expect(sum(of_ages) + scope["ages"]["other_bytes"] == scope["bytes"], f"{name}: {scope}")
    text = gpupeak("leaks", log)[1]
    expect("grew" in text, f"{name}: leaks says nothing of it: {text}")
    code, text = gpupeak("check", "--max-growth", "0", log)
    expect(code == 1 and next(iter(wanted)) in text, f"{name}: check says {text}")
    expect(f"FAIL  {rows[0]['side']}.step_growth_bytes" in text, text)
    code, text = gpupeak("watch", "--max-growth", "0", log)
    expect(code == 1 and next(iter(wanted)) in text, f"{name}: watch says {text}")


def ages(folder, log):
    """When what was live was allocated: in steps where there are steps, and what is far older than others of its call."""
    text = gpupeak("report", "--at", "peak", "--json", log)[1]
    scope = json.loads(text[text.index("{") :])["scopes"][0]
    rows = {row["text"]: row for row in scope["ages"]["rows"]}
    expect(scope["ages"]["step"] == "step", scope["ages"])
    expect(sum(row["bytes"] for row in rows.values()) + scope["ages"]["other_bytes"] == scope["bytes"], scope["ages"])
    expect(rows["before the first step"]["site_bytes"] // MIB == 64, rows)
    for text, steps in (("in this step", 1), ("1 step ago", 1), ("2 to 3 steps ago", 2), ("4 to 7 steps ago", 4), ("8 to 15 steps ago", 8)):
        expect(rows[text]["bytes"] >= steps * 2 * MIB and (steps < 2 or rows[text]["site_bytes"] // MIB == steps * 2), f"{text}: {rows}")
    expect(not scope["ages"]["odd"], scope["ages"]["odd"])
    text = gpupeak("report", "--at", "peak", log)[1]
    expect(re.search(r"16.0 MiB.* 8  8 to 15 steps ago: 16.0 MiB by train <string>:6", text), text)
    log = log_of(folder, "odd", sys.executable, "-c", ODD)
    text = gpupeak("report", "--at", "peak", log)[1]
    expect(re.search(r"odd: 3.00 MiB in 1 block by step <string>:6.* old; \d+ others of this call lived", text.replace("\n", " ")), text)
    expect(re.search(r"32.0 MiB.* 1  less than 1 ms ago: 32.0 MiB by <module> <string>:11", text), text)


def watched(folder):
    """`watch` ends while the program runs on, and `top` says the same as the screen."""
    log = os.path.join(folder, "watched.gplog")
    program = subprocess.Popen([sys.executable, "-c", PYTHON + "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment(folder, True, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off", LD_LIBRARY_PATH=DRIVER))
    program.stdout.readline()
    code, text = gpupeak("watch", "--max-growth", "1MiB", log)
    expect(code == 1 and "train" in text and program.poll() is None, text)
    code, text = gpupeak("watch", "--max-growth", "1MiB", "--max", "device.peak_bytes=1MiB", log)
    expect(code == 1 and "device.peak_bytes of GPU 0" in text, text)
    code, text = gpupeak("top", "--once", log)
    expect("grows by 2.00 MiB a step" in text, text)
    program.communicate(b"\n")
    code, text = gpupeak("watch", "--max-growth", "2MiB", log)
    expect(code == 0 and "pass  device.step_growth_bytes" in text, text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, wanted in GROW.items():
            expect_growth(name, log_of(folder, name, CLIENT, name), wanted)
        expect_growth("python", log_of(folder, "python", sys.executable, "-c", PYTHON), {"train": 2 * MIB})
        watched(folder)
        for where in ("heap", "small", "mapped"):
            size = 64 if where == "small" else 1
            for name in sorted(ON_HOST):
                wanted = {site: each // size for site, each in GROW[name].items()}
                log = log_of(folder, f"{name}_{where}", CLIENT, name, where, options=["--children", "all"])
                expect_growth(f"{name} {where}", log, wanted)
        log = log_of(folder, "python_on_host", sys.executable, "-c", PYTHON_ON_HOST)
        expect_growth("python", log, {"train": 2 * MIB})
        text = gpupeak("top", "--once", log)[1]
        expect("grows by 2.00 MiB a step" in text and "(train <string>:6)" in text, text)
        ages(folder, log)
        text = gpupeak("leaks", "--scope", "host", log)[1]
        peak = text[text.index("LIVE AT THE PEAK") :]  # Python's end freed what it kept
        expect("train" in peak and "58.0 MiB" in peak, text)
        expect(json.loads(gpupeak("leaks", "--json", "--scope", "host", log)[1])["scopes"][0]["at_peak"]["bytes"] > 120 * MIB, text)
        text = gpupeak("report", log)[1]
        expect("it grows by 2.00 MiB a step" in text and "(train <string>:6)" in text and "report --at +" in text, text)
        for name, where in itertools.product(DO_NOT, ("", "heap", "small", "mapped")):
            if name == "loaded_then_used" and where:
                continue  # the device's uses of a block say that it is used
            log = log_of(folder, name + where, CLIENT, name, *([where] if where else []))
            rows = growth_of(log)
            expect(rows == [], f"{name} is said to grow: {rows}")
            code, text = gpupeak("check", "--max-growth", "0", log)
            expect(code == 0, f"{name}: check says {text}")
            code, text = gpupeak("watch", "--max-growth", "0", log)
            expect(code == 0, f"{name}: watch says {text}")


run_checks(main)
