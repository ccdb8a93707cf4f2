#!/usr/bin/env python3
"""Out-of-memory runs staged with real PyTorch on a real GPU: gpupeak must name what was staged.

usage: oom.py GPUPEAK [CASE …]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)

Each case is a program of its own under `gpupeak run --host off` that runs out of memory for a known reason and lets the
error end it (some by SIGKILL). Checked: the cause in `report --json`, that the sentence has the figures that prove it, and
that the summary at the exit says the same. Prints a Markdown row a case; exit code 1 if any is wrong.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

GIB = 1 << 30
MIB = 1 << 20
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}

# name: (environment, cause, words of the sentence, words of the advice, how it ends)
CASES = {
    "larger_than_card": ({}, "larger_than_card", "more than the card has", "smaller batch", "error"),
    "full": ({}, "full", "too small for what is in use", "larger card", "error"),
    "full_killed": ({}, "full", "too small for what is in use", "larger card", "kill"),
    "fragmented": ({}, "fragmented", "are idle, but in", "expandable_segments", "error"),
    "fragmented_expandable": (EXPANDABLE, "fragmented", "are idle, but in", "fewer different sizes", "error"),
    "fraction": ({}, "own_limit", "PyTorch's own limit, not the card's", "set_per_process_memory_fraction", "error"),
    "fraction_expandable": (EXPANDABLE, "own_limit", "PyTorch's own limit, not the card's", "set_per_process_memory_fraction", "error"),
    "other_process": ({}, "other_process", "another process holds it", "nvidia-smi", "error"),
    "growth": ({}, "growth", "it grows: ", "from one step to the next", "error"),
    "growth_killed": (EXPANDABLE, "growth", "it grows: ", "from one step to the next", "kill"),
    "graph_pool": ({}, "graph_pool", "CUDA graphs' memory", "share one pool", "error"),
    "set_apart": ({}, "set_apart", "in one piece and did not use it", "one stream", "error"),
    "workspace": ({}, "idle_in_pool", "PyTorch's pool keeps", "empty_cache", "error"),
    "went_on": ({}, "full", "too small for what is in use", "larger card", "went_on"),
}


# ---- the programs -----------------------------------------------------------------------------------------------------
def free_bytes(torch):
    return torch.cuda.mem_get_info(0)[0]


def block(torch, size):
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


def ballast(torch, leave):
    """All of the card but so many bytes, in one segment."""
    return block(torch, (free_bytes(torch) - leave) // (2 * MIB) * 2 * MIB)


def half_used(torch, count, size):
    """Blocks of which every second is given back: what is idle lies between."""
    blocks = [block(torch, size) for _ in range(2 * count)]
    kept = blocks[::2]
    del blocks
    return kept


def client(case, end):
    import torch

    kept = []
    torch.cuda.init()
    block(torch, MIB)
    total = torch.cuda.get_device_properties(0).total_memory

    def step_marks():
        import contextlib
        import ctypes

        push = ctypes.CDLL(None).gpupeak_api_phase_push
        push.argtypes = [ctypes.c_char_p]
        pop = ctypes.CDLL(None).gpupeak_api_phase_pop

        @contextlib.contextmanager
        def step():
            push(b"step")
            try:
                yield
            finally:
                pop()
        return step

    def run():
        if case == "larger_than_card":
            block(torch, 2 * total)
        elif case in ("full", "full_killed", "went_on"):
            kept.append(ballast(torch, 2 * GIB))
            kept.append(block(torch, 4 * GIB))
        elif case in ("fragmented", "fragmented_expandable"):
            kept.append(ballast(torch, 5 * GIB))
            # Blocks of 9 MiB lie two in a segment of 20; with expandable segments in one range, and what is between
            # two of them is no whole page of 20 MiB.
            kept.append(half_used(torch, 180, 9 * MIB))
            block(torch, 2.2 * GIB)
        elif case.startswith("fraction"):
            torch.cuda.set_per_process_memory_fraction(2 * GIB / total)
            kept.append(block(torch, GIB))
            block(torch, 1.5 * GIB)
        elif case == "other_process":
            block(torch, free_bytes(torch) - 500 * MIB + 8 * GIB)
        elif case.startswith("growth"):
            step = step_marks()
            kept.append(ballast(torch, 6 * GIB))
            while True:
                with step():
                    activations = block(torch, 300 * MIB)
                    kept.append(block(torch, 200 * MIB))
                    del activations
        elif case == "graph_pool":
            kept.append(ballast(torch, 6 * GIB))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                big = block(torch, 4 * GIB)
                big.fill_(1)
                small = block(torch, 30 * MIB)
                del big
            kept.extend([graph, small])
            block(torch, 3 * GIB)
        elif case == "set_apart":
            kept.append(ballast(torch, 6 * GIB))
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                big = block(torch, 4 * GIB)
                del big
                kept.append(block(torch, 30 * MIB))  # lies in that segment, which so cannot be given back
            block(torch, 3 * GIB)
        elif case == "workspace":
            import ctypes

            kept.append(ballast(torch, 6 * GIB))
            big = block(torch, 5 * GIB)
            del big  # idle in PyTorch's pool, which a call of the runtime does not reach
            runtime = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line)
            at = ctypes.c_void_p()
            result = ctypes.CDLL(runtime).cudaMalloc(ctypes.byref(at), ctypes.c_size_t(3 * GIB))
            assert result == 2, result
            raise torch.cuda.OutOfMemoryError("cudaMalloc")
        else:
            raise SystemExit(f"no case {case}")

    try:
        run()
    except torch.cuda.OutOfMemoryError as error:
        print(f"staged: {str(error)[:300]}", flush=True)
        if end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if end == "went_on":
            return
        os._exit(3)
    raise SystemExit("nothing was refused")


def hold(size):
    import torch

    kept = block(torch, float(size))
    print("holding", kept.numel(), flush=True)
    sys.stdin.readline()


# ---- what is said -----------------------------------------------------------------------------------------------------
def other_process():
    """Another process that holds 10 GiB until it is told to end."""
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hold", str(10 * GIB)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("holding"), "the other process got no memory"
    return process


def check(gpupeak, name, folder):
    environment, cause, sentence, advice, end = CASES[name]
    log = os.path.join(folder, name + ".gplog")
    holder = other_process() if name == "other_process" else None
    try:
        done = subprocess.run([gpupeak, "run", "--host", "off", "-o", log, "--", sys.executable, os.path.abspath(__file__),
                               "--client", name, end], env=dict(os.environ, COLUMNS="2000", **environment), capture_output=True,
                              text=True, timeout=300)
    finally:
        if holder is not None:
            holder.communicate("end\n")
    wanted = {"error": 3, "kill": 128 + signal.SIGKILL, "went_on": 0}[end]
    if done.returncode != wanted:
        return [f"exit code {done.returncode}, not {wanted}: {(done.stdout + done.stderr).strip()[-300:]}"], ""
    view = subprocess.run([gpupeak, "report", "--json", log], capture_output=True, text=True)
    if view.returncode != 0:
        return [f"gpupeak report: {view.stderr.strip()[:160]}"], ""
    report = json.loads(view.stdout)
    told = [oom for oom in report["oom"] if not oom.get("told_by_pool")]
    if not told:
        return ["no failed allocation in the log"], ""
    oom = told[-1]
    problems = []
    if oom["cause"] != cause:
        problems.append(f"cause {oom['cause']}, not {cause} ({oom['causes']})")
    if sentence not in oom["why"]:
        problems.append(f"the sentence lacks \"{sentence}\"")
    if advice not in oom["help"]:
        problems.append(f"the advice lacks \"{advice}\": {oom['help']}")
    if not re.search(r"\d", oom["why"]):
        problems.append("no figure")
    if not oom.get("driver_free_bytes") and cause != "own_limit":
        problems.append("what the driver had free is not known")
    if name != "workspace" and "refused_by" not in oom:
        problems.append("the pool's refusal was not seen")
    said = re.sub(r"\s+", " ", done.stderr)
    if "why: " + re.sub(r"\s+", " ", oom["why"])[:60] not in said:
        problems.append(f"the summary at the exit says otherwise: {said[:300]}")
    if problems:
        problems.append(f"PyTorch said: {done.stdout.strip()[:300]}")
        problems.append(f"figures: {json.dumps({k: v for k, v in oom.items() if k not in ('holders', 'why', 'help')})[:900]}")
    return problems, oom["why"]


def main():
    gpupeak, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CASES)
    failures = 0
    print("| staged | cause | sentence | verdict |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.environ.get("OUT") or temporary
        for name in names:
            try:
                problems, why = check(gpupeak, name, folder)
            except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError, AssertionError) as error:
                problems, why = [str(error)[:160]], ""
            print(f"| {name} | {CASES[name][1]} | {why} | {'right' if not problems else '**WRONG**'} |", flush=True)
            for problem in problems:
                print(f"|   | | {problem} | |", flush=True)
            failures += bool(problems)
    print(f"\n{len(names) - failures} of {len(names)} right")
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--hold"]:
        hold(sys.argv[2])
    else:
        sys.exit(main())
