"""A torchvision model on the GPU, its steps and layers as NVTX ranges: torch_model.py MODEL infer|train|graph|benchmark.

Prints what PyTorch's own allocator says it took from the driver, and what cudaMemGetInfo says last.
"""
import sys

import torch
import torchvision

name, mode = sys.argv[1:3]
torch.backends.cudnn.benchmark = mode == "benchmark"
nvtx = torch.cuda.nvtx


def push(layer):
    def hook(*_):
        nvtx.range_push(layer)
    return hook


def pop(*_):
    nvtx.range_pop()


with nvtx.range("build"):
    model = getattr(torchvision.models, name)(weights=None).cuda()
for layer, module in model.named_modules():
    if not list(module.children()):
        module.register_forward_pre_hook(push(layer))
        module.register_forward_hook(pop)
images = torch.zeros(8 if mode == "train" else 1, 3, 224, 224, device="cuda")
if mode == "train":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        with nvtx.range("step"):
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
            for _ in range(3):
                with nvtx.range("infer"):
                    model(images)
torch.cuda.synchronize()
free_bytes, total_bytes = torch.cuda.mem_get_info()
print("max_memory_reserved", torch.cuda.max_memory_reserved())
print("in_use", total_bytes - free_bytes)
