#!/usr/bin/env python3
"""What grows at each step of real programs without phases, and what does not.

usage: growth.py PREFIX [CASE …]      (PREFIX: an installed gpupeak; needs a GPU and PyTorch, CuPy and JAX where they are)

Each case is a program of its own under `gpupeak run`. It prints how many bytes more its framework's own counter has after
each step. Checked: the rows of `growth` in `report --json` add up to that within 2 %, the first names the function that
keeps the blocks, and programs that do not grow have no row. Prints a Markdown row a case; exit code 1 if any is wrong.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

STEPS = 60


def layers(torch, count, size):
    return torch.nn.Sequential(*[torch.nn.Linear(size, size) for _ in range(count)]).cuda()


def train(torch, step_of):
    """Bytes a step by PyTorch's counter, of the second half."""
    half = 0
    for step in range(STEPS):
        step_of(step)
        torch.cuda.synchronize()
        if step == STEPS // 2 - 1:
            half = torch.cuda.memory_allocated()
    return (torch.cuda.memory_allocated() - half) / (STEPS - STEPS // 2)


def trained(keep):
    import torch  # pylint: disable=import-outside-toplevel,import-error
    net, kept = layers(torch, 8, 1024), []
    adam = torch.optim.Adam(net.parameters())

    def step_of(step):
        adam.zero_grad()
        out = net(torch.randn(512, 1024, device="cuda"))
        loss = out.relu().mean()
        loss.backward()
        adam.step()
        keep(torch, kept, step, out, loss)
    return train(torch, step_of)


def keeps_outputs():
    def keep(_torch, kept, _step, out, _loss):
        kept.append(out.detach()[:256].clone())
    return trained(keep)


def keeps_a_hundredth():
    def keep(torch, kept, _step, _out, _loss):
        kept.append(torch.zeros(1 << 20, device="cuda"))
    return trained(keep)


def keeps_now_and_then():
    def keep(torch, kept, step, _out, _loss):
        if step % 2 == 0:
            kept.append(torch.zeros(2 << 20, device="cuda"))
    return trained(keep)


def keeps_losses():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    net, kept = layers(torch, 8, 2048), []
    return train(torch, lambda _step: kept.append(net(torch.randn(1024, 2048, device="cuda")).relu().mean()))


def keeps_keys():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    net, keys = layers(torch, 4, 1024), []

    def step_of(_step):
        with torch.no_grad():
            keys.append(net(torch.randn(256, 1024, device="cuda")))
            torch.stack(keys[-4:]).softmax(-1)
    return train(torch, step_of)


def trains():
    return trained(lambda *_: None)


def accumulates():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    net = layers(torch, 8, 1024)
    return train(torch, lambda _step: net(torch.randn(512, 1024, device="cuda")).mean().backward())


def one_pass():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    layers(torch, 30, 2048)(torch.randn(2048, 2048, device="cuda")).sum().backward()
    return 0


def infers():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    net = torch.nn.Sequential(*[torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(20)]).cuda()

    def step_of(_step):
        with torch.no_grad():
            net(torch.randn(8, 32, 64, 64, device="cuda"))
    return train(torch, step_of)


def loads():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    sizes = [(1024, 1024)] * 40 + [(4096, 1024)] * 20 + [(1024, 4096)] * 13
    weights = [torch.randn(size).cuda() for size in sizes]
    x = torch.randn(64, 1024, device="cuda")
    for _ in range(20):
        x = torch.relu(x @ weights[0])
    return 0


def fills_a_cache():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    cache = {}
    for step in range(4 * STEPS):
        cache.setdefault(step % 25, torch.empty(1 << 20, device="cuda"))
        torch.empty(1 << 21, device="cuda").fill_(step)
    return 0


def has_many_sizes():
    import torch  # pylint: disable=import-outside-toplevel,import-error
    for step in range(STEPS):
        some = torch.randn(1024 * (1 + step * 37 % 64), 256, device="cuda")
        (some @ some.T[:, :128]).sum().item()
    return 0


def keeps_with_cupy():
    import cupy  # pylint: disable=import-outside-toplevel,import-error
    kept = []
    for step in range(STEPS):
        some = cupy.random.rand(512, 1024)
        kept.append(some[:128] * step)
        del some
    return 128 * 1024 * 8


def keeps_with_jax():
    import jax  # pylint: disable=import-outside-toplevel,import-error
    import jax.numpy as jnp  # pylint: disable=import-outside-toplevel,import-error
    once = jax.jit(lambda x: (x @ x.T).sum(axis=0) + x[0, 0])
    kept = []
    for step in range(STEPS):
        x = jnp.full((1024, 1024), step, jnp.float32)
        kept.append(jnp.outer(once(x), jnp.ones(256)))
        x.delete()
    jax.block_until_ready(kept)
    return 1024 * 256 * 4


# name: (what must be in the first row; None: it does not grow, the module it needs)
CASES = {
    "keeps_outputs": ("growth.py", "torch"), "keeps_a_hundredth": ("growth.py", "torch"),
    "keeps_now_and_then": ("growth.py", "torch"), "keeps_losses": ("growth.py", "torch"),
    "keeps_keys": ("growth.py", "torch"), "keeps_with_cupy": ("growth.py", "cupy"),
    "keeps_with_jax": ("growth.py", "jax"), "trains": (None, "torch"), "accumulates": (None, "torch"),
    "one_pass": (None, "torch"), "infers": (None, "torch"), "loads": (None, "torch"),
    "fills_a_cache": (None, "torch"), "has_many_sizes": (None, "torch"),
}

# CuPy's own pool tells nobody what it gives and takes back: a step that takes only new memory looks like loading.
NOT_SAID = {"keeps_with_cupy"}


def check(gpupeak, name, log):
    """The case's row, and whether it is right."""
    named, module = CASES[name]
    if importlib.util.find_spec(module) is None:
        return f"| {name} | no {module} here | | | |", True
    ran = subprocess.run([gpupeak, "run", "-q", "-o", log, "--", sys.executable, __file__, "--as", name], capture_output=True,
                         text=True, check=True, timeout=120, env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    truth = float(ran.stdout.split()[-1])
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], capture_output=True, check=True).stdout)
    rows = [row for row in report["growth"] if row["side"] == "device"]
    said = sum(row["grown_bytes"] / (row["last"] - row["first"]) for row in rows)
    first = rows[0]["site"] if rows else ""
    right = not rows if named is None else abs(said - truth) <= truth / 50 and named in first
    if name in NOT_SAID and not rows:
        return f"| {name} | {truth:.0f} | not said | | | |", True
    return (f"| {name} | {truth:.0f} | {said:.0f} | {rows[0]['last'] - rows[0]['first'] if rows else ''} | {first[-60:]} "
            f"| {'right' if right else '**wrong**'} |"), right


def main():
    gpupeak = os.path.join(os.path.abspath(sys.argv[1]), "bin/gpupeak")
    print("| program | bytes a step, by its framework | by gpupeak | steps | first row | |\n|---|---|---|---|---|---|")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or CASES:
            text, right = check(gpupeak, name, os.path.join(folder, f"{name}.gplog"))
            print(text, flush=True)
            good &= right
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as"]:
        print(globals()[sys.argv[2]]())
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        main()
