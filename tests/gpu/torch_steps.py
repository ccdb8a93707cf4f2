"""Eager PyTorch's ResNet-50 for where.py: COUNT inferences of batch 1, or training steps of batch 8, after some that are not sampled.

usage: torch_steps.py infer|train COUNT
"""
import os
import signal
import sys

import torch
import torchvision

kind, count = sys.argv[1], int(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
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


step = {"infer": infer, "train": train}[kind]
for _ in range(30):
    step()
torch.cuda.synchronize()
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
for _ in range(count):
    step()
torch.cuda.synchronize()
signal.setitimer(signal.ITIMER_PROF, 0)
