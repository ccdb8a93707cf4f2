"""Programs in PyTorch whose memory can really be changed: whatif_torch.py MODEL. CHANGE (in the environment): the change that is made."""
import os
import sys

import torch
from torch import nn

CHANGE = os.environ.get("CHANGE", "")
BATCH = 64
torch.manual_seed(7)


def make_extra(shape):
    """What the source could do without."""
    return None if CHANGE == "without" else torch.empty(shape, device="cuda")


def make_input(*shape):
    return torch.empty(BATCH // 2 if CHANGE == "half" else BATCH, *shape, device="cuda")


def keep_activations(x, weights):
    """What grows with the batch, and nothing else: all are kept, as an inference with hooks does."""
    kept = []
    for weight in weights:
        x = torch.relu(x @ weight)
        kept.append(x)
    return kept


def train(model, make_batch, steps=3, shape=(8, 1024, 1024)):
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        extra = make_extra(shape)
        optimizer.zero_grad()
        output = model(make_batch())
        output = output[0] if isinstance(output, tuple) else output
        output.square().mean().backward()
        optimizer.step()
        del extra


def conv():
    layers, channels = [], 3
    for width in (32, 64, 96, 128, 160):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    train(nn.Sequential(*layers), lambda: make_input(3, 160, 160))


def mlp():
    train(nn.Sequential(*[layer for width in (1000, 1500, 2100, 900) for layer in (nn.LazyLinear(width), nn.GELU())]), lambda: make_input(40, 777))


def lstm():
    train(nn.LSTM(300, 500, num_layers=3, batch_first=True), lambda: make_input(120, 300))


def transformer():
    layer = nn.TransformerEncoderLayer(384, 6, 1500, batch_first=True)
    train(nn.TransformerEncoder(layer, 5), lambda: make_input(130, 384))


def resnet():
    import torchvision

    train(torchvision.models.resnet18(weights=None), lambda: make_input(3, 144, 144))


def unet():
    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 24), (24, 48), (48, 96))])
            self.up = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1) for a, b in ((96 + 48, 48), (48 + 24, 24))])

        def forward(self, x):
            kept = []
            for layer in self.down:
                x = torch.relu(layer(x))
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = nn.functional.interpolate(x, scale_factor=2)
            for layer, beside in zip(self.up, reversed(kept[:-1])):
                x = nn.functional.interpolate(x, scale_factor=2)
                x = torch.relu(layer(torch.cat([x, beside], 1)))
            return x

    train(Unet(), lambda: make_input(3, 96, 96))


def kept():
    with torch.no_grad():
        weights = [torch.empty(1500, 1500, device="cuda") for _ in range(6)]
        weights[0] @ weights[1]  # the workspace of products does not grow with the batch
        for _ in range(3):
            extra = make_extra((40, 1024, 1024))
            activations = keep_activations(make_input(100, 1500), weights)
            del extra, activations


globals()[sys.argv[1]]()
torch.cuda.synchronize()
print("max_memory_reserved", torch.cuda.max_memory_reserved())
