"""PyTorch for attach.py: a training. usage: attach_torch.py FOLDER"""
import torch
from attach_steps import run

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(256, 1024, device="cuda")


def step():
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def shrink(held):
    held.clear()
    torch.cuda.empty_cache()


# Each a segment of its own.
run(step, torch.cuda.memory_reserved, torch.cuda.memory_allocated,
    lambda: [torch.zeros(300 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)], shrink)
