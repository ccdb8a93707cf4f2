"""An eager ResNet-50 that takes its turns: for each line "infer N" or "train N" on standard input N steps, then their time in s."""
import sys
import time

import torch
from torch_resnet50 import steps

all_steps = steps()
print("ready", flush=True)
for line in sys.stdin:
    name, count = line.split()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(int(count)):
        all_steps[name]()
        torch.cuda.synchronize()
    print(time.perf_counter() - began, flush=True)
