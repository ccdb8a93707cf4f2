#!/usr/bin/env python3
"""What recording costs eager PyTorch, beside its own memory history: latency of ResNet-50's inference and training step.

usage: torch_cost.py GPUPEAK [ROUNDS [WAY …]]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)

All ways are processes that live at the same time and take turns, a fifth of a second each, on the same processors: a shared machine's
speed changes by half within seconds, which hits all of them alike. Each round begins with another way. Prints a Markdown row a way:
the median of the ratios to the native turn of the same round, and their quartiles. An inference has batch 1, a training step batch 8.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

HOST_OFF = {"GPUPEAK_HOST": "off"}
WAYS = {  # name: (environment, record_memory_history's stacks)
    "native": (None, None),
    "host off, pools off": ({**HOST_OFF, "GPUPEAK_POOLS": "off"}, None),
    "host off, without Python lines": ({**HOST_OFF, "GPUPEAK_PYTHON": "off"}, None),
    "host off": (HOST_OFF, None),
    "counters": ({"GPUPEAK_HOST": "counters"}, None),
    "sampled": ({"GPUPEAK_HOST": "sampled"}, None),
    "auto": ({"GPUPEAK_HOST": "auto"}, None),
    "full, pools off": ({"GPUPEAK_HOST": "full", "GPUPEAK_POOLS": "off"}, None),
    "full": ({"GPUPEAK_HOST": "full"}, None),
    "PyTorch's history, Python stacks": (None, "python"),
    "PyTorch's history, all stacks": (None, "all"),
}
STEPS = {"infer": 40, "train": 10}  # of a turn


def client(stacks):
    """Answers each line, infer or train, with the milliseconds of one."""
    import torch

    from torch_resnet50 import steps

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])  # threads that come after this, too
    if stacks != "none":
        torch.cuda.memory._record_memory_history(context="all", stacks=stacks)
    functions = steps()
    for line in sys.stdin:
        step, count = functions[line.strip()], STEPS[line.strip()]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        print((time.perf_counter() - began) / count * 1e3, flush=True)


class Worker:
    def __init__(self, preload, folder, way):
        environment, stacks = WAYS[way]
        more = {}
        if environment is not None:
            more = {"LD_PRELOAD": preload, "GPUPEAK_SUMMARY": "off", "GPUPEAK_OUT": os.path.join(folder, f"{way}.gplog"), **environment}
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--client", stacks or "none"],
                                        env={**os.environ, **more}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, step):
        print(step, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)


def main(gpupeak, rounds, ways):
    preload = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(gpupeak))), "lib/gpupeak/libgpupeak.so")
    ways = ["native", *(way for way in ways if way != "native")]
    times = {way: {step: [] for step in STEPS} for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        workers = {way: Worker(preload, folder, way) for way in ways}
        for step in STEPS:
            for worker in workers.values():
                worker.ask(step)  # the first is not counted
            for i in range(rounds):
                first = i % len(ways)
                for way in ways[first:] + ways[:first]:
                    times[way][step].append(workers[way].ask(step))
        for way, worker in workers.items():
            assert worker.end() == 0, way
    print(f"| ResNet-50, eager, {rounds} rounds | inference | training step |\n|---|---|---|")
    for way in ways:
        cells = []
        for step in STEPS:
            if way == "native":
                cells.append(f"{statistics.median(times[way][step]):.2f} ms")
                continue
            ratios = [ours / native for ours, native in zip(times[way][step], times["native"][step])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells.append(f"{middle:.3f}× ({low:.3f} to {high:.3f})")
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(sys.argv[2])
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60, sys.argv[3:] or list(WAYS))
