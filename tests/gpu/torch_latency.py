"""Latency of ResNet-50, batch 1, eager: the mean of 300 inferences after 50, in milliseconds."""
import time

import torch
import torchvision

model = torchvision.models.resnet50(weights=None).cuda().eval()
image = torch.zeros(1, 3, 224, 224, device="cuda")


def infer(count):
    began = time.perf_counter()
    for _ in range(count):
        model(image)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count * 1e3


with torch.no_grad():
    infer(50)
    print("latency_ms", infer(300))
