#!/usr/bin/env python3
"""Ten questions that people ask of PyTorch scripts whose memory grows, or seems to, each with a known answer.

usage: growth_questions.py PREFIX [CASE …]      (PREFIX: an installed gpupeak; needs a GPU and PyTorch, no network)

Each case is a program of its own under `gpupeak run`, four at a time. It prints what its framework's own counters say.
Checked in the JSON and on the screen of `report`: what grows is named with the line of this file that made it, in bytes a
step within 2 % of the framework's; of what does not grow nothing is said. Prints a Markdown row a case; exit code 1 if any
is wrong. FAKE_C10_CUDA=LIBRARY and PYTHONPATH=tests/e2e/fake_torch_pool/site-packages: on the simulated driver.
"""
import concurrent.futures
import ctypes
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from growth import STEPS, layers, train

MIB = 1 << 20
CASES = {}


# ---- the programs: each returns what the framework's counters say ------------------------------------------------------
def case(function):
    CASES[function.__name__] = function
    return function


def step(torch, net, kept):
    with torch.no_grad():
        net(rows(torch, 256))
    kept.append(torch.empty(MIB // 4, device="cuda"))  # grows in step()


def net_of(torch, count=6, size=1024):
    return layers(torch, count, size)


def rows(torch, count, columns=1024):
    return torch.randn(count, columns, device="cuda")


@case
def losses_keep_graphs(torch):
    """a list of losses for the plot keeps each step's graph"""
    net, losses = net_of(torch), []

    def step_of(_step):
        losses.append(net(rows(torch, 512)).relu().mean())  # grows here
    return train(torch, step_of)


@case
def cache_fills(torch):
    """a cache of masks by length is full after 32 of them"""
    net, masks = net_of(torch), {}
    for step in range(200):
        length = step * 7 % 32
        if length not in masks:
            masks[length] = rows(torch, 512)
        with torch.no_grad():
            net(rows(torch, 256))
    return 0


@case
def optimizer_states(torch):
    """Adam takes twice the parameters' size at its first step"""
    net = net_of(torch, 8, 2048)
    adam = torch.optim.Adam(net.parameters())

    def step_of(_step):
        adam.zero_grad()
        net(rows(torch, 64, 2048)).mean().backward()
        adam.step()
    train(torch, step_of)
    ctypes.CDLL(None).gpupeak_api_mark(b"trained")
    return 2 * 4 * sum(one.numel() for one in net.parameters())


@case
def loader_workers(torch):
    """the workers of a DataLoader keep each sample that they have read"""
    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            self.seen = []

        def __len__(self):
            return 80

        def __getitem__(self, index):
            bytearray(4 * MIB)  # what it decodes
            self.seen.append(bytearray(MIB))  # grows here
            return index
    for _ in torch.utils.data.DataLoader(Samples(), num_workers=2, batch_size=1):
        rows(torch, 256)
    return MIB


@case
def growing_lengths(torch):
    """each step's sequence is longer than the one before: the peak rises, nothing is kept"""
    net = net_of(torch)
    for step in range(STEPS):
        net(rows(torch, 64 * (step + 1))).mean().backward()
    return torch.cuda.max_memory_reserved()


@case
def hooks_keep_outputs(torch):
    """forward hooks append each layer's output to a list"""
    net, outputs = net_of(torch), []
    for layer in net:
        layer.register_forward_hook(lambda _layer, _inputs, out: outputs.append(out.detach()))

    def step_of(_step):
        with torch.no_grad():
            net(rows(torch, 512))  # grows here
    return train(torch, step_of)


@case
def counted_steps(torch):
    """--phase 'step=step#': each of 60 calls of step() keeps 1 MiB"""
    net, kept = net_of(torch), []
    return train(torch, lambda _step: step(torch, net, kept))


@case
def ages_of_blocks(torch):
    """what lives at the peak, by how many steps ago it was allocated: 4 MiB of each"""
    net, kept = net_of(torch), []

    def step_of(_step):
        with torch.no_grad():
            net(rows(torch, 256))
        kept.append(torch.empty(MIB, device="cuda"))  # grows here
    return train(torch, step_of)


@case
def warms_up(torch):
    """buffers of each of eight shapes come in the first steps, then nothing is kept any more"""
    net, buffers = net_of(torch), {}
    for step in range(100):
        shape = step % 8 if step < 50 else step * 5 % 8
        if shape not in buffers:
            buffers[shape] = torch.empty(MIB, device="cuda")
        net(rows(torch, 64 * (shape + 1))).mean().backward()
    return 0


@case
def fragmentation(torch):
    """a block of 33 MiB in each segment of 64 MiB leaves 31 MiB that the next request does not fit into"""
    kept, idle = [], 0
    for _ in range(8):
        whole = torch.empty(64 * MIB // 4, device="cuda")
        idle = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        del whole
        kept.append(torch.empty(33 * MIB // 4, device="cuda"))
    return idle


# ---- what gpupeak says of them -----------------------------------------------------------------------------------------
def line_of(name):
    """The number of the line that grows, or None."""
    lines, first = inspect.getsourcelines(step if name == "counted_steps" else CASES[name])
    return next((first + i for i, line in enumerate(lines) if "# grows" in line), None)


class Answer:
    def __init__(self, gpupeak, name, log, truth):
        self.gpupeak, self.name, self.log, self.truth, self.wrong = gpupeak, name, log, truth, []
        self.read()

    def read(self):
        self.report = self.json("report")
        self.screen = self.text("report")

    def text(self, *command):
        return subprocess.run([self.gpupeak, *command, self.log], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    def json(self, *command):
        return json.loads(self.text(*command, "--json"))

    def expect(self, condition, message):
        if not condition:
            self.wrong.append(message)

    def grown(self, side):
        """By how much it grows a step; it must be the framework's figure, at the line, on the screen too."""
        found = [row for row in self.report["growth"] if row["side"] == side]
        each = sum(row["grown_bytes"] / (row["last"] - row["first"]) for row in found)
        here = f"{os.path.basename(__file__)}:{line_of(self.name)}"
        self.expect(found and here in found[0]["site"], f"not at {here}: {[row['site'] for row in found]}")
        self.expect(abs(each - self.truth) <= self.truth / 50, f"{each:.0f} bytes a step")
        said = re.sub(r"\s+", " ", self.screen)
        self.expect(re.search(r"grows by [^.]*|at each", said) and here in said, "not on the screen")
        return f"{each:.0f} a step, {found[0]['last'] - found[0]['first']} steps" if found else "nothing"

    def steady(self, side="device"):
        found = [row for row in self.report["growth"] if row["side"] == side]
        self.expect(not found, f"said to grow: {[row['text'] for row in found]}")
        self.expect(f"{side} memory grows" not in self.screen, "the screen says that it grows")
        return "does not grow"

    def pool(self):
        return next(pool for pool in self.report["arenas"] if pool.get("device") == 0)


def answer_of(name, answer):
    """The text of the row; what is wrong is in the answer."""
    if name == "optimizer_states":
        tags = {tag["name"]: tag["bytes"] for tag in answer.json("tags", "--scope", "device:0", "--at", "trained")["tags"]}
        held = tags.get("optimizer state", 0)
        answer.expect(abs(held - answer.truth) <= answer.truth / 50, f"tags: {tags}")
        return f"{answer.steady()}; optimizer state {held}"
    if name == "loader_workers":
        workers = [one["pid"] for one in answer.report["whole_run"]["processes"] if not one["started"]]
        answer.expect(len(workers) == 2, f"workers {workers}")
        texts, run = [], answer.log
        for pid in workers:
            answer.log = f"{run}#{pid}"
            answer.read()
            texts.append(answer.grown("host"))
        return "; ".join(texts)
    if name == "growing_lengths":
        reserved = answer.pool()["reserved_peak_bytes"]
        answer.expect(reserved == answer.truth, f"reserved {reserved}")
        return f"{answer.steady()}; reserved at most {reserved}"
    if name == "counted_steps":
        counts = [phase["count"] for phase in answer.json("phases")["phases"] if phase["name"] == "step"]
        answer.expect(sum(counts) == STEPS, f"calls: {counts}")
        answer.expect(all(row["phase"] == "step" for row in answer.report["growth"] if row["side"] == "device"), "of another phase")
        return f"{sum(counts)} of {STEPS} calls; {answer.grown('device')}"
    if name == "ages_of_blocks":
        scope = next(one for one in answer.json("report", "--at", "peak")["scopes"] if one["scope"].startswith("device"))
        found = {row["text"]: row["site_bytes"] for row in scope["ages"]["rows"]}
        for text, steps in (("2 to 3 steps ago", 2), ("4 to 7 steps ago", 4), ("8 to 15 steps ago", 8), ("16 to 31 steps ago", 16)):
            answer.expect(found.get(text) == steps * answer.truth, f"{text}: {found}")
        return f"{found.get('16 to 31 steps ago')} from 16 to 31 steps ago; {answer.grown('device')}"
    if name == "fragmentation":
        idle = answer.pool()["at_device_peak"]["idle_in_holes_bytes"]
        answer.expect(idle == answer.truth, f"in holes {idle}")
        return f"{answer.steady()}; {idle} idle in holes"
    return answer.grown("device") if line_of(name) else answer.steady()


def row_of(gpupeak, name, folder):
    log = os.path.join(folder, f"{name}.gplog")
    options = ["--phase", "step=step#"] if name == "counted_steps" else []
    began = time.monotonic()
    ran = subprocess.run([gpupeak, "run", "-q", *options, "-o", log, "--", sys.executable, __file__, "--as", name], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
    if ran.returncode != 0:
        return f"| {name} | | | | **exit code {ran.returncode}**: {ran.stdout[-300:]!r} |", False
    took = time.monotonic() - began
    answer = Answer(gpupeak, name, log, float(ran.stdout.split()[-1]))
    try:
        said = answer_of(name, answer)
    except (KeyError, IndexError, StopIteration, subprocess.SubprocessError) as error:
        said = ""
        answer.wrong.append(repr(error))
    verdict = "right" if not answer.wrong else "**wrong**: " + "; ".join(answer.wrong).replace("|", "¦")
    return f"| {CASES[name].__doc__} | {answer.truth:.0f} | {said} | {took:.1f} s | {verdict} |", not answer.wrong


def main():
    gpupeak = os.path.abspath(sys.argv[1])
    if os.path.isdir(gpupeak):
        gpupeak = os.path.join(gpupeak, "bin/gpupeak")
    began = time.monotonic()
    print("| question | by PyTorch | by gpupeak | run | |\n|---|---|---|---|---|", flush=True)
    good = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        for text, right in pool.map(lambda name: row_of(gpupeak, name, folder), sys.argv[2:] or CASES):
            print(text, flush=True)
            good.append(right)
    print(f"{sum(good)} of {len(good)} right, in {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(good) else 1)


if sys.argv[1:2] == ["--as"]:
    import torch as installed
    print(CASES[sys.argv[2]](installed))
elif len(sys.argv) < 2:
    sys.exit(__doc__)
else:
    main()
