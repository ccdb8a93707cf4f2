#!/usr/bin/env python3
"""PyTorch on the CPU: the built-in rules find its gradients, activations and convolutions, and each backward pass.

usage: pytorch.py LIBGPUPEAK GPUPEAK
Exit code 77: no PyTorch here (Debian: python3-torch).
"""
import json
import os
import subprocess
import tempfile

from common import GPUPEAK, Skipped, environment, expect, expect_phases_add_up, run_checks

PYTHON = "/usr/bin/python3"
PROGRAM = """
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.zeros(4, 3, 112, 112), torch.zeros(4, dtype=torch.long)
for _ in range(2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
"""


def main():
    environ = dict(environment("", False), **{k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"})
    if subprocess.run([PYTHON, "-c", "import torch"], env=environ, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("no PyTorch here")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        done = subprocess.run([GPUPEAK, "run", "-q", "--host", "full", "-o", log, "--", PYTHON, "-c", PROGRAM], env=environ, check=False)
        expect(done.returncode == 0, f"the program gives {done.returncode}")
        for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):  # the command has libraries of its own
            os.environ.pop(name, None)
        view = json.loads(subprocess.run([GPUPEAK, "tags", "--json", "--scope", "host/heap", log], stdout=subprocess.PIPE,
                                         check=True).stdout)
        tags = {tag["name"]: tag["bytes"] for tag in view["tags"]}
        print(tags)
        expect("pytorch" in view["rules"]["sets"], f"rules {view['rules']}")
        expect(sum(tags.values()) == view["bytes"], f"the tags sum to {sum(tags.values())}, the peak is {view['bytes']}")
        image = 4 * 64 * 112 * 112 * 4
        expect(tags.get("gradients", 0) >= image, "no gradient of an activation")
        expect(tags.get("activations", 0) + tags.get("convolutions", 0) >= image, "activations are missing")
        # Large blocks have lines of Python: here the weights of the second convolution and of both linear layers.
        large = 4 * (64 * 64 * 9 + 1024 * 2048 + 2048 * 10)
        expect(tags.get("parameters") == tags.get("optimizer state") == large, f"weights and their momentum are {large} each")
        expect(tags.get("operator registry", 0) > 2**20, "no operators")
        expect(tags["Others"] + tags["PyTorch"] < view["bytes"] / 2, "half of the bytes have no tag of their own")
        summary = json.loads(subprocess.run([GPUPEAK, "report", "--json", "--rules", "pytorch", log], stdout=subprocess.PIPE,
                                            check=True).stdout)
        expect_phases_add_up(summary)
        backward = next(p for p in summary["phases"] if p["name"] == "backward")
        expect(backward["count"] == 2 and backward["metrics"]["host.peak_bytes"] >= 2 * image, f"backward: {backward}")


run_checks(main)
