"""Median time of an eager ResNet-50's inference and training step, in ms, after some to warm up."""
import statistics
import time

import torch
from torch_resnet50 import steps

for name, step in steps().items():
    count = 300 if name == "infer" else 60
    times = []
    for i in range(count):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    print(f"{name} {statistics.median(times[count // 3:]) * 1e3:.4f} ms")
