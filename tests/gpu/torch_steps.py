"""Eager PyTorch's ResNet-50 for where.py: COUNT inferences or training steps, after some that are not sampled.

usage: torch_steps.py infer|train COUNT
"""
import os
import signal
import sys

import torch

from torch_resnet50 import steps

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])  # threads that come after this, too
step, count = steps()[sys.argv[1]], int(sys.argv[2])
for _ in range(30):
    step()
torch.cuda.synchronize()
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
for _ in range(count):
    step()
torch.cuda.synchronize()
signal.setitimer(signal.ITIMER_PROF, 0)
