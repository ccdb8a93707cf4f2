"""A torchvision model on the GPU: torch_model.py MODEL infer|train|graph|benchmark.

Prints what PyTorch's own allocator says it took from the driver, and what cudaMemGetInfo says last.
"""
import sys

import torch
import torchvision

name, mode = sys.argv[1:3]
torch.backends.cudnn.benchmark = mode == "benchmark"
model = getattr(torchvision.models, name)(weights=None).cuda()
images = torch.zeros(8 if mode == "train" else 1, 3, 224, 224, device="cuda")
if mode == "train":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), torch.zeros(8, dtype=torch.long, device="cuda")).backward()
        optimizer.step()
else:
    model.eval()
    with torch.no_grad():
        if mode == "graph":
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                model(images)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = model(images)
            graph.replay()
        else:
            model(images)
torch.cuda.synchronize()
free_bytes, total_bytes = torch.cuda.mem_get_info()
print("max_memory_reserved", torch.cuda.max_memory_reserved())
print("in_use", total_bytes - free_bytes)
