"""A training that is under way when gpupeak comes, and goes on after it has gone. Prints its loss, which must not depend on it, and what
PyTorch's own counters say of the time between.

usage: attach_torch.py FOLDER: goes on when there is FOLDER/attached, and ends when there is FOLDER/detached
"""
import os
import sys
import time

import torch

folder = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(256, 1024, device="cuda")
steps, losses = 0, []


def step():
    global steps
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    steps += 1
    if steps <= 200:
        losses.append(loss.item())


def until(name):
    while not os.path.exists(os.path.join(folder, name)):
        step()


for _ in range(50):
    step()
before = torch.cuda.memory_reserved()
print("ready", flush=True)
until("attached")
held = [torch.zeros(300 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]  # each a segment of its own
for _ in range(150):
    step()
print("grown", torch.cuda.memory_reserved() - before, flush=True)
del held
torch.cuda.empty_cache()
until("detached")
torch.cuda.synchronize()
print("losses", " ".join(f"{loss:.9g}" for loss in losses[:200]), flush=True)
sys.exit(3)
