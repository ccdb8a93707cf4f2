"""Programs that hold memory longer than they use it: last_use_training.py CASE [mended]. Prints the most that was allocated and reserved.

kept      activations that nobody reads again stay in a list to the step's end
grads     gradients stay from one step to the next: zero_grad(set_to_none=False); mended: they are freed after the update
weights   a second copy of the weights, used once at the begin
"""
import sys

import torch
from torch import nn

CASE, MENDED = sys.argv[1], sys.argv[2:] == ["mended"]
torch.manual_seed(3)


def kept():
    weights = [torch.randn(2048, 2048, device="cuda") for _ in range(4)]
    for _ in range(3):
        list_of, x = [], torch.randn(16384, 2048, device="cuda")
        for weight in weights * 3:
            x = x @ weight
            if not MENDED:
                list_of.append(x)
        x.sum().item()
        del x, list_of


def grads():
    model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(6)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(4):
        out = model(torch.randn(8192, 4096, device="cuda"))
        out.square().mean().backward()
        del out
        optimizer.step()
        optimizer.zero_grad(set_to_none=MENDED)


def weights():
    source = [torch.randn(4096, 4096, device="cuda") for _ in range(8)]
    copies = []
    for i in range(8):
        copies.append(source[i].clone())
        if MENDED:
            source[i] = None
    x = torch.randn(2048, 4096, device="cuda")
    for w in copies * 4:
        x = x @ w
        big = torch.relu(x.repeat(8, 1))
        del big
    torch.cuda.synchronize()


with torch.enable_grad() if CASE == "grads" else torch.no_grad():
    globals()[CASE]()
torch.cuda.synchronize()
print("max_memory_allocated", torch.cuda.max_memory_allocated(), "reserved", torch.cuda.max_memory_reserved())
