"""The programs of default_run.sh, by default and without gpupeak: default_run.py GPUPEAK ONNXRUNTIME_FOLDER [PROGRAM…]"""
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from installed import has, nvidia_folders

HERE = os.path.dirname(os.path.abspath(__file__))
GPUPEAK, ORT, *WANTED = sys.argv[1:]
ROUNDS = int(os.environ.get("ROUNDS", "5"))
MOST = float(os.environ.get("SECONDS_MOST", "540"))
OUT = os.environ.get("OUT", "")
LLAMA = os.environ.get("LLAMA_FOLDER", "")
BEGAN = time.monotonic()
COUNTED = "as it was counted"
EXIT_NS = 4096 + 3864  # where a log that is not packed has the time at which `run` saw the program's end

TORCH_OOM = """
import torch
kept = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
"""
TORCH_TRAIN = """
import torch
from torch import nn

def train(width, steps):
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4096, width, device="cuda")).square().mean().backward()
        optimizer.step()
    return sum(p.sum().item() for p in model.parameters())

print(train(1024, 20), train(4096, 20))
"""
LLAMA_HF = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16)
model = LlamaForCausalLM(config).to(torch.bfloat16).cuda().eval()
tokens = torch.randint(0, 32000, (2, 64), device="cuda")
with torch.no_grad():
    print(model.generate(tokens, max_new_tokens=32, do_sample=False, pad_token_id=0).shape)
"""


def programs(folder):
    """By name: the command, and what it needs of the environment."""
    found = {}
    python = sys.executable
    if ORT:
        libraries = {"LD_LIBRARY_PATH": ":".join([ORT, *nvidia_folders()])}
        for model in ("vgg19", "resnet50"):
            found[f"ort_{model}"] = ([f"{ORT}/onnxruntime_perf_test", "-e", "cuda", "-r", "300", "-I", "-m", "times",
                                      f"{ORT}/models/light_{model}.onnx"], libraries)
    if has("torch"):
        found["torch_oom"] = ([python, "-c", TORCH_OOM], {})
        found["torch_train"] = ([python, "-c", TORCH_TRAIN], {})
    if has("torch") and has("transformers"):
        found["hf_llama"] = ([python, "-c", LLAMA_HF], {"HF_HUB_OFFLINE": "1"})
    if has("flax"):
        found["flax"] = ([python, f"{HERE}/flax_train.py"], {})
    if LLAMA:
        model = os.path.join(folder, "tiny.gguf")
        subprocess.run([python, "-c", "import sys, tiny_llama; tiny_llama.write(sys.argv[1])", model], cwd=f"{HERE}/../e2e", check=True)
        found["llama.cpp"] = ([f"{LLAMA}/node", f"{HERE}/llama_cuda.js", f"{LLAMA}/ll", model], {"LD_LIBRARY_PATH": ":".join(nvidia_folders())})
    unknown = set(WANTED) - set(found)
    if unknown:
        sys.exit(f"cannot run {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return {name: found[name] for name in (WANTED or found)}


class Run:
    """One, with an empty cache of names."""

    def __init__(self, command, more, log=None):
        with tempfile.TemporaryDirectory() as cache:
            variables = os.environ | more | {"XDG_CACHE_HOME": cache}
            with open(os.devnull) as nothing:
                begin = time.monotonic_ns()
                done = subprocess.run(([GPUPEAK, "run", "-o", log, "--"] if log else []) + command, env=variables, stdin=nothing, capture_output=True,
                                      text=True, errors="replace")
                end = time.monotonic_ns()
        self.seconds = (end - begin) / 1e9
        self.code = done.returncode
        self.said = done.stderr
        p50 = re.search(r"P50 Latency: ([0-9.e-]+) s", done.stdout)
        self.p50_ms = float(p50[1]) * 1e3 if p50 else None
        self.after = self.log_bytes = None
        if log:
            self.log_bytes = os.path.getsize(log)
            with open(log, "rb") as file:
                if file.read(8) == b"GPPKLOG1":
                    file.seek(EXIT_NS)
                    exit_ns = struct.unpack("<Q", file.read(8))[0]
                    self.after = (end - exit_ns) / 1e9 if exit_ns else None


def own_lines(text):
    """What gpupeak has said at the end: the program may have said much before."""
    begins = [match.start() for match in re.finditer(r"^gpupeak: ", text, re.M)]
    return text[begins[1] if len(begins) > 1 else begins[0]:] if begins else text[-2000:]


def spread(values, digits=2):
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def show(name, run):
    text = own_lines(run.said)
    print(f"== {name}: exit code {run.code}, log of {run.log_bytes / (1 << 20):.1f} MiB\n{text}", flush=True)
    if OUT:
        os.makedirs(OUT, exist_ok=True)
        with open(os.path.join(OUT, f"{name}.screen"), "w", encoding="utf-8") as file:
            file.write(text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        chosen = programs(folder)
        runs = {name: [] for name in chosen}
        longest = {}
        for name, (command, more) in chosen.items():  # files of libraries come into memory
            longest[name] = 2 * Run(command, more).seconds
        for number in range(ROUNDS):
            for name, (command, more) in chosen.items():
                if time.monotonic() - BEGAN + 1.2 * longest[name] > MOST:
                    continue
                log = os.path.join(folder, f"{name}.gplog")
                ways = (None, log) if number % 2 == 0 else (log, None)
                pair = {way: Run(command, more, way) for way in ways}
                runs[name].append((pair[None], pair[log]))
                longest[name] = max(longest[name], sum(run.seconds for run in pair.values()))
                if len(runs[name]) == 1:
                    show(name, pair[log])
    print("| program | rounds | native s | gpupeak run s | ratio | P50 native ms | P50 ms | ratio | s after the end | log MiB | screen | exit codes |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, pairs in runs.items():
        if not pairs:
            print(f"| {name} | 0: no time was left |" + " |" * 10)
            continue
        native, ours = zip(*pairs)
        ratio = [b.seconds / a.seconds for a, b in pairs]
        p50 = [b.p50_ms / a.p50_ms for a, b in pairs if a.p50_ms and b.p50_ms]
        cut = sum(COUNTED in run.said for run in ours)
        codes = "same" if all(a.code == b.code for a, b in pairs) else f"{sorted({a.code for a, _ in pairs})} against {sorted({b.code for _, b in pairs})}"
        print(f"| {name} | {len(pairs)} | {spread(r.seconds for r in native)} | {spread(r.seconds for r in ours)} | {spread(ratio, 3)} | "
              f"{spread((r.p50_ms for r in native), 3)} | {spread((r.p50_ms for r in ours), 3)} | {spread(p50, 3)} | {spread(r.after for r in ours)} | "
              f"{spread((r.log_bytes / (1 << 20) for r in ours), 1)} | {'complete' if cut == 0 else f'as counted in {cut}'} | {codes} |")


main()
