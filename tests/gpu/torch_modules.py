#!/usr/bin/env python3
"""run --torch-modules on the GPU: modules add up to PyTorch's pool, nothing of the training changes, and what it costs.

usage: torch_modules.py GPUPEAK [CASE …]      (GPUPEAK: bin/gpupeak of an installed build; no network is used)
  resnet50, transformer, llama (with transformers), checkpointed, parallel (two streams of work in threads), compiled, cost

A case runs a training with and without the option: losses and gradients must be equal to the bit. Behind the second step's forward pass, in the middle
of its backward pass and at its end it notes what PyTorch's allocator has in use; there the modules' bytes and what is idle must add up to what
the driver has handed out, and what is not idle to what PyTorch has in use. Prints a Markdown row a case. `cost` has processes with and without
take turns. Exit code 1 on any difference.
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.abspath(__file__)
CASES = ("resnet50", "transformer", "llama", "checkpointed", "parallel", "compiled")
MARKS = ("forward", "middle", "last")  # "end" is the end of the run


# ---- the measured program ---------------------------------------------------------------------------------------------
def models():
    import torch
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inside, channels, stride=1):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inside, channels, 1, bias=False), nn.BatchNorm2d(channels)
            self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
            self.conv3, self.bn3 = nn.Conv2d(channels, 4 * channels, 1, bias=False), nn.BatchNorm2d(4 * channels)
            self.relu, self.downsample = nn.ReLU(inplace=True), None
            if stride != 1 or inside != 4 * channels:
                self.downsample = nn.Sequential(nn.Conv2d(inside, 4 * channels, 1, stride, bias=False), nn.BatchNorm2d(4 * channels))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            y += x if self.downsample is None else self.downsample(x)
            return self.relu(y)

    class ResNet50(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.relu = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
            self.maxpool, inside = nn.MaxPool2d(3, 2, 1), 64
            for number, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
                layer = []
                for i in range(blocks):
                    layer.append(Bottleneck(inside, channels, 2 if i == 0 and number > 1 else 1))
                    inside = 4 * channels
                setattr(self, f"layer{number}", nn.Sequential(*layer))
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, 1000)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(6))

        def forward(self, x):
            from torch.utils.checkpoint import checkpoint
            for block in self.blocks:
                x = x + checkpoint(block, x, use_reentrant=False)
            return x

    def transformer():
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True), 6)

    def llama():
        from transformers import LlamaConfig, LlamaForCausalLM
        return LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8,
                                            num_key_value_heads=8, vocab_size=8192))

    return {"resnet50": ResNet50, "parallel": ResNet50, "compiled": transformer, "transformer": transformer, "llama": llama,
            "checkpointed": Checkpointed}


def make(case):
    """(model, function that gives a batch, function from a model's output to the loss)"""
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    model = models()[case]().cuda()
    if case in ("resnet50", "parallel"):
        labels = torch.zeros(8, dtype=torch.long, device="cuda")
        return model, lambda: torch.randn(8, 3, 224, 224, device="cuda"), lambda y: torch.nn.functional.cross_entropy(y, labels)
    if case == "llama":
        return model, lambda: torch.randint(0, 8192, (4, 256), device="cuda"), lambda y: y.logits.float().pow(2).mean()
    width = 1024 if case == "checkpointed" else 512
    return model, lambda: torch.randn(4, 256, width, device="cuda"), lambda y: y.float().pow(2).mean()


def client(case, out_path):
    import torch

    try:
        api_mark = ctypes.CDLL(None).gpupeak_api_mark
        api_mark.argtypes = [ctypes.c_char_p]
    except AttributeError:
        def api_mark(_name):
            pass
    marks = {}

    def note(name):
        stats = torch.cuda.memory_stats(0)
        api_mark(name.encode())
        marks[name] = {"in_use": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"]}

    model, batch, loss_of = make(case)
    if case == "compiled":
        model = torch.compile(model)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    halfway = list(model.parameters())[len(list(model.parameters())) // 2]

    def step(number):
        optimizer.zero_grad()
        output = model(batch())
        if number == 1:
            note("forward")
            handle = halfway.register_hook(lambda _: note("middle"))
        loss = loss_of(output)
        loss.backward()
        if number == 1:
            handle.remove()
        optimizer.step()
        losses.append(loss.item().hex())

    for number in range(4):
        step(number)
        if number == 1:
            note("last")
    if case == "parallel":
        helpers = [threading.Thread(target=lambda: model(batch()).sum().item()) for _ in range(4)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
    gradients = [p.grad.double().sum().item().hex() for p in model.parameters()]
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump({"marks": marks, "losses": losses, "gradients": gradients, "torch": torch.__version__,
                   "device": torch.cuda.get_device_name(0), "most": torch.cuda.max_memory_allocated(),
                   "modules": [name for name, one in model.named_modules() if name and type(one).forward is not torch.nn.Module.forward]}, file)


# ---- what both say ----------------------------------------------------------------------------------------------------
ENV = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def tags_at(gpupeak, log, mark):
    return json.loads(subprocess.run([gpupeak, "tags", "--json", "--scope", "device:0", "--top", "1000000", "--at", mark, log],
                                     stdout=subprocess.PIPE, check=True).stdout)


def compare(gpupeak, case, folder):
    command = [sys.executable, HERE, "--client", case]
    native, ours, log = (os.path.join(folder, name) for name in ("native.json", "ours.json", "a.gplog"))
    for options, out in (([], native), ([gpupeak, "run", "--host", "off", "--torch-modules", "-o", log, "--"], ours)):
        done = subprocess.run([*options, *command, out], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400,
                              check=False)
        if done.returncode != 0:
            return f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['?'])[-1][:160]}", "", ""
    with open(native, encoding="utf-8") as file:
        without = json.load(file)
    with open(ours, encoding="utf-8") as file:
        told = json.load(file)
    said = [line.strip() for line in done.stderr.splitlines() if "modules" in line or "compile" in line]
    problems, shares = [], []
    if (told["losses"], told["gradients"]) != (without["losses"], without["gradients"]):
        problems.append(f"losses {told['losses']} not {without['losses']}")
    if told["most"] != without["most"]:
        problems.append(f"PyTorch's own peak is {told['most']} with, {without['most']} without")
    for mark in MARKS:
        view, theirs = tags_at(gpupeak, log, mark), told["marks"][mark]
        idle = sum(entry["bytes"] for entry in view["entries"] if entry["tag"].startswith("idle in"))
        beside = view["bytes"] - theirs["reserved"]  # what libraries took from the driver themselves
        layers = {layer["name"]: layer["bytes"] for layer in view["layers"]}
        by_module = sum(size for name, size in layers.items() if name in told["modules"])
        if sum(layers.values()) != view["bytes"] or view["bytes"] - idle - beside != theirs["in_use"]:
            problems.append(f"{mark}: {sum(layers.values())} of {view['bytes']}, idle {idle}, beside {beside}; PyTorch says {theirs}")
        shares.append(f"{mark} {by_module / 2**20:.1f} of {theirs['in_use'] / 2**20:.1f}")
        if case != "compiled" and by_module == 0:
            problems.append(f"{mark}: nothing is a module's")
    if case == "compiled" and not any("torch.compile" in line for line in said):
        problems.append("nothing is said of torch.compile")
    return "; ".join(problems), ", ".join(shares), "; ".join(said)


# ---- what it costs ----------------------------------------------------------------------------------------------------
def answer(case):
    """Each line is answered with the milliseconds of a step: infer or train."""
    import torch

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
    model, batch, loss_of = make(case)
    optimizer, data = torch.optim.SGD(model.parameters(), lr=0.01), batch()

    def infer():
        with torch.no_grad():
            model(data[:1])

    def train():
        optimizer.zero_grad()
        loss_of(model(data)).backward()
        optimizer.step()

    for line in sys.stdin:
        step, count = {"infer": (infer, 20), "train": (train, 8)}[line.strip()]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        print((time.perf_counter() - began) / count * 1e3, flush=True)


def cost(gpupeak, folder, rounds=30):
    rows = []
    for case in ("resnet50", "transformer"):
        workers = {}
        for way, options in (("native", None), ("host off", []), ("host off, modules", ["--torch-modules"])):
            command = [sys.executable, HERE, "--answer", case]
            if options is not None:
                command = [gpupeak, "run", "-q", "--host", "off", "-o", os.path.join(folder, way + ".gplog"), *options, "--", *command]
            workers[way] = subprocess.Popen(command, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        times = {way: {"infer": [], "train": []} for way in workers}
        ways = list(workers)
        for step in ("infer", "train"):
            for i in range(rounds + 1):
                for way in ways[i % 3:] + ways[:i % 3]:
                    print(step, file=workers[way].stdin, flush=True)
                    took = float(workers[way].stdout.readline())
                    if i > 0:  # the first is not counted
                        times[way][step].append(took)
        for worker in workers.values():
            worker.stdin.close()
            worker.wait(timeout=60)
        for way in ways[1:]:
            cells = []
            for step in ("infer", "train"):
                low, middle, high = statistics.quantiles([a / b for a, b in zip(times[way][step], times["native"][step])], n=4)
                cells.append(f"{middle:.3f}× ({low:.3f} to {high:.3f}) of {statistics.median(times['native'][step]):.2f} ms")
            rows.append(f"| {case}, {way} | {' | '.join(cells)} |")
    return rows


def main(gpupeak, cases):
    failed = False
    if set(cases) != {"cost"}:
        print("| --torch-modules | MiB of modules, of what PyTorch has in use | what run says | |\n|---|---|---|---|")
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            if case == "cost":
                print("\n| --torch-modules | inference, batch 1 | training step |\n|---|---|---|")
                print("\n".join(cost(gpupeak, folder)), flush=True)
                continue
            problems, shares, said = compare(gpupeak, case, folder)
        if case == "llama" and "No module named 'transformers'" in problems:
            problems, shares = "", "transformers is not here"
        failed = failed or bool(problems)
        print(f"| {case} | {shares} | {said} | {'**' + problems + '**' if problems else 'good'} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        client(*sys.argv[2:])
    elif sys.argv[1] == "--answer":
        answer(sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2:] or [*CASES, "cost"])
