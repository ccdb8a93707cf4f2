#!/usr/bin/env python3
"""run --torch-modules: the modules' memory adds up to the peak, the program behaves as without it, and modules that cannot be named are reported.

usage: torch_modules.py LIBGPUPEAK GPUPEAK CASE
  fake     a PyTorch of a few lines, whose modules say themselves what they hold
  start    what Python's start is like, and what is said where no hooks could be set
  pytorch  a training with PyTorch on the CPU; exit code 77: it is not here (Debian: python3-torch)
"""
import json
import os
import subprocess
import sys

from common import GPUPEAK, Skipped, environment, expect, expect_phases_add_up, report, run_case

CASE = sys.argv[3]
FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_torch")
PYTHON = "/usr/bin/python3"

NET = """
import torch
from torch.nn import Module

class Layer(Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
    def forward(self, tensor):
        return torch.Tensor(self.size, (tensor,))

class Net(Module):
    def __init__(self):
        super().__init__()
        for i in range(5):
            setattr(self, f"layer{i}", Layer((i + 1) << 20))
    def forward(self, tensor):
        kept = [tensor]
        for layer in self._modules.values():
            kept.append(layer(kept[-1]))
        return kept

out = Net()(torch.Tensor(100, requires_grad=True))
gradients = torch.Tensor(1 << 20, (out[-1],)).backward()
"""
TRAINING = """
import sys, torch
from torch import nn
torch.manual_seed(3)
torch.set_num_threads(1)

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.relu, self.conv2 = nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 3, padding=1)
    def forward(self, x):
        y = self.conv2(self.relu(self.bn1(self.conv1(x))))
        y += x
        return self.relu(y)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.layer1, self.fc = nn.Conv2d(3, 16, 3, padding=1), nn.Sequential(Block(16), Block(16)), nn.Linear(16, 10)
    def forward(self, x):
        x = torch.utils.checkpoint.checkpoint(self.layer1, self.stem(x)) if "checkpoint" in sys.argv else self.layer1(self.stem(x))
        return self.fc(x.mean((2, 3)))

import torch.utils.checkpoint
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
images, labels = torch.randn(4, 3, 128, 128), torch.zeros(4, dtype=torch.long)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), [p.grad.double().sum().item().hex() for p in model.parameters()])
"""


def run(folder, *command, env=None, options=("--torch-modules", "--host", "full")):
    """Returns (the messages of `run`, standard output, the log)."""
    log = os.path.join(folder, "a.gplog")
    done = subprocess.run([GPUPEAK, "run", *options, "-o", log, "--", *command], env={**environment(folder, False), **(env or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"{command} gives {done.returncode}: {done.stderr}")
    return done.stderr, done.stdout, log


def layers_of(log):
    """Bytes at the heap's peak by module; they add up to it."""
    view = json.loads(subprocess.run([GPUPEAK, "tags", "--json", "--scope", "host/heap", log], stdout=subprocess.PIPE, check=True).stdout)
    layers = {layer["name"]: layer["bytes"] for layer in view["layers"]}
    expect(sum(layers.values()) == view["bytes"], f"the layers sum to {sum(layers.values())}, the peak is {view['bytes']}")
    return layers


def tags_text(log):
    return subprocess.run([GPUPEAK, "tags", "--scope", "host/heap", log], stdout=subprocess.PIPE, text=True, check=True).stdout


def fake(folder):
    said, _, log = run(folder, sys.executable, "-c", NET, env={"PYTHONPATH": FAKE})
    layers = layers_of(log)
    for i in range(5):
        book = 2 * ((i + 1) << 20)  # its tensor and the gradient
        expect(book <= layers.get(f"layer{i}", 0) < book + (16 << 10), f"layer{i} holds {layers.get(f'layer{i}')}, its book says {book}")
    expect("modules of PyTorch 2.9.0+fake by name: 6 modules, 18 calls of hooks, which took" in said, said)
    expect("by layer   " in tags_text(log), tags_text(log))
    summary = report(log)
    expect_phases_add_up(summary)
    phases = {(p["name"], p["parent"]) for p in summary["phases"]}
    expect({("Net", "main"), ("layer0", "Net"), ("backward", "main"), ("layer0", "backward")} <= phases, f"{phases}")


def start(folder):
    look = "import sys, os; print(sys.path, [type(f).__name__ for f in sys.meta_path if 'Finder' not in type(f).__name__], sys.flags)"
    own = os.path.join(folder, "own")
    os.mkdir(own)
    with open(os.path.join(own, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write("import sys; print('own', __name__, sys.modules['sitecustomize'].__file__)\n")
    for env, command in (({}, ["-c", look]), ({"PYTHONPATH": own}, ["-c", look]), ({"PYTHONPATH": own}, ["-c", "import sitecustomize"])):
        native = subprocess.run([sys.executable, *command], env={**environment(folder, False), **env}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=False)
        said, out, _ = run(folder, sys.executable, *command, env=env)
        expect(out == native.stdout, f"{out}\nwithout:\n{native.stdout}")
        expect("PyTorch was not imported" in said, said)
    with open(os.path.join(own, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write("import no_such_module\n")
    native = subprocess.run([sys.executable, "-c", "pass"], env={**environment(folder, False), "PYTHONPATH": own}, stderr=subprocess.PIPE,
                            text=True, check=False)
    said, _, _ = run(folder, sys.executable, "-c", "pass", env={"PYTHONPATH": own})
    expect("no_such_module" in native.stderr and native.stderr in said, f"{said}\nwithout:\n{native.stderr}")
    for flag in ("-I", "-E", "-S"):
        said, _, _ = run(folder, sys.executable, flag, "-c", "pass")
        expect("no Python began that reads PYTHONPATH" in said, said)
    said, _, log = run(folder, sys.executable, "-S", "-c", NET, env={"PYTHONPATH": FAKE})
    expect("no Python began that reads PYTHONPATH" in said and "layer0" not in layers_of(log), said)
    text = tags_text(log)
    expect("by layer   " not in text and "by phase   " not in text and "the program names no phases" in text, text)
    next_step = subprocess.run([GPUPEAK, "report", "--short", log], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect("by layer" not in next_step, next_step)
    said, _, _ = run(folder, sys.executable, "-c", NET + "import os; os._exit(0)", env={"PYTHONPATH": FAKE})
    expect("modules of PyTorch 2.9.0+fake by name; what hooks took is not known" in said, said)
    left = [name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if name.startswith("gpupeak-torch-")]
    expect(not left, f"{left} is left")
    said, _, _ = run(folder, sys.executable, "-c", NET, env={"PYTHONPATH": FAKE}, options=("--torch-modules", "-q"))
    expect(said == "", said)


def pytorch(folder):
    if subprocess.run([PYTHON, "-c", "import torch"], env=environment(folder, False), stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skipped("no PyTorch here")
    for argument in ("", "checkpoint"):
        native = subprocess.run([PYTHON, "-c", TRAINING, argument], env=environment(folder, False), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=True)
        said, out, log = run(folder, PYTHON, "-c", TRAINING, argument)
        expect(out == native.stdout, f"losses and gradients are not the same:\n{out}\nwithout:\n{native.stdout}")
        expect("modules of PyTorch" in said, said)
        layers, image = layers_of(log), 4 * 16 * 128 * 128 * 4
        print(layers)
        held = ["stem", "layer1.0.conv1", "layer1.0.bn1"] if argument == "" else ["stem"]
        for name in held:
            expect(layers.get(name, 0) >= image, f"{name} holds {layers.get(name)}: less than its output, {image}")
        summary = report(log)
        expect_phases_add_up(summary)
        counts = {(p["name"], p["parent"]): p["count"] for p in summary["phases"]}
        expect(counts.get(("layer1.0.conv2", "backward")) == 3 and counts.get(("stem", "Net")) == 3, f"{counts}")


run_case({case.__name__: case for case in (fake, start, pytorch)}[CASE])
