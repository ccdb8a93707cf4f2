#!/usr/bin/env python3
"""What it costs to see inside PyTorch's pool: latency of ResNet-50, eager, beside PyTorch's own memory history.

usage: pool_cost.py GPUPEAK [ROUNDS]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)

Each way runs once a round, in turn; prints a Markdown row a way: the median of the rounds' ratios to the native run of the
same round, and their spread. An inference has batch 1, a training step batch 8.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {  # name: (environment, record_memory_history's stacks)
    "native": (None, None),
    "host off, pools off": ({"GPUPEAK_POOLS": "off"}, None),
    "host off, without Python lines": ({"GPUPEAK_PYTHON": "off"}, None),
    "host off": ({}, None),
    "PyTorch's history, Python stacks": (None, "python"),
    "PyTorch's history, all stacks": (None, "all"),
}


def client(stacks):
    import torch
    import torchvision

    if stacks != "none":
        torch.cuda.memory._record_memory_history(context="all", stacks=stacks)
    model = torchvision.models.resnet50(weights=None).cuda()
    image = torch.zeros(1, 3, 224, 224, device="cuda")
    batch = torch.zeros(8, 3, 224, 224, device="cuda")
    label = torch.zeros(8, dtype=torch.long, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def infer():
        with torch.no_grad():
            model(image)

    def train():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), label).backward()
        optimizer.step()

    for step, count in ((infer, 300), (train, 60)):
        for _ in range(count // 6):
            step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        print((time.perf_counter() - began) / count * 1e3)


def measure(preload, folder, way):
    environment, stacks = WAYS[way]
    more = {}
    if environment is not None:
        more = {"LD_PRELOAD": preload, "GPUPEAK_HOST": "off", "GPUPEAK_SUMMARY": "off",
                "GPUPEAK_OUT": os.path.join(folder, "cost.gplog"), **environment}
    done = subprocess.run([sys.executable, __file__, "--client", stacks or "none"], env={**os.environ, **more}, check=True,
                          stdout=subprocess.PIPE, text=True)
    return [float(line) for line in done.stdout.split()]


def main(gpupeak, rounds):
    preload = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(gpupeak))), "lib/gpupeak/libgpupeak.so")
    times = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for way in WAYS:
                times[way].append(measure(preload, folder, way))
                print(way, times[way][-1], file=sys.stderr, flush=True)
    print("| ResNet-50, eager | inference | training step |")
    print("|---|---|---|")
    for way in WAYS:
        cells = []
        for column in (0, 1):
            if way == "native":
                cells.append(f"{statistics.median(t[column] for t in times[way]):.2f} ms")
                continue
            ratios = [t[column] / n[column] for t, n in zip(times[way], times["native"])]
            cells.append(f"{statistics.median(ratios):.3f}× ({min(ratios):.3f} to {max(ratios):.3f})")
        print(f"| {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(sys.argv[2])
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9)
