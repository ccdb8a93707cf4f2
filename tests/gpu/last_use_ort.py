"""Last use of the blocks of ONNX Runtime's arena on the GPU, for last_use.py: who takes memory there writes it and somebody reads it, so
each block must have been seen used.

What nobody uses: Concat takes a block of 256 bytes for a table of its inputs, and gives the table by value where they are 32 or fewer of
one size (onnxruntime/core/providers/cuda/tensor/concat.cc); cuDNN may ask for a workspace that no kernel of it needs.

A network made here runs as it is written, without optimizations and without one block for all that is in between: each result has a
block of its own, which one node writes and another reads. The models of perf_test run as they usually do.
"""
import glob
import importlib.util
import json
import os
import random
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))
from tiny_onnx import block, integers, node, number, tensor, value  # noqa: E402

MODELS = ("resnet50", "vgg19", "densenet121", "squeezenet")
AS_WRITTEN = ["-o", "0", "-M"]  # no optimization, no memory pattern
RUNS = 5
UNSEEN_SHARE = 0.01  # of a model's bytes: workspaces
OF_CONCAT = "cuda::Concat::"


def one_integer(name, number_):
    return block(1, name) + number(3, number_) + number(20, 2)


def write_network(path):
    """Two branches that come together; nothing that ONNX Runtime does in place."""
    rng = random.Random(1)
    nodes = [node("Conv", ["image", "k1"], "c1", integers("kernel_shape", [3, 3]), integers("pads", [1, 1, 1, 1])),
             node("MaxPool", ["c1"], "p1", integers("kernel_shape", [2, 2]), integers("strides", [2, 2])),
             node("AveragePool", ["c1"], "p2", integers("kernel_shape", [2, 2]), integers("strides", [2, 2])),
             node("Concat", ["p1", "p2"], "both", one_integer("axis", 1)),
             node("Transpose", ["both"], "turned", integers("perm", [0, 2, 3, 1])),
             node("Transpose", ["turned"], "back", integers("perm", [0, 3, 1, 2])),
             node("Conv", ["back", "k2"], "c2", integers("kernel_shape", [3, 3])),
             node("Softmax", ["c2"], "soft", one_integer("axis", 1)),
             node("ReduceMax", ["soft"], "most", integers("axes", [1])),
             node("Mul", ["c2", "most"], "weighed"),
             node("GlobalAveragePool", ["weighed"], "pooled"),
             node("Flatten", ["pooled"], "flat"),
             node("MatMul", ["flat", "w1"], "hidden"),
             node("MatMul", ["hidden", "w2"], "classes")]
    weights = [tensor("k1", [16, 3, 3, 3], rng), tensor("k2", [32, 32, 3, 3], rng), tensor("w1", [32, 64], rng), tensor("w2", [64, 10], rng)]
    graph = (b"".join(block(1, n) for n in nodes) + block(2, "branches") + b"".join(block(5, w) for w in weights) +
             block(11, value("image", [1, 3, 224, 224])) + block(12, value("classes", [1, 10])))
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(7, graph) + block(8, number(2, 13)))


def blocks_of(gpupeak, log):
    """Of each block of an arena that was followed: {arena, address, bytes, ns, uses}; and what the log says of itself."""
    live, ended, end, runs = {}, [], None, 0
    dump = subprocess.run([gpupeak, "export", "events", log], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in dump.splitlines():
        if match := re.match(r"\+([\d.]+) .* arena_alloc (\d+) (0x[0-9a-f]+) bytes (\d+) .*?stack (\d+)", line):
            live[match[2], match[3]] = {"address": int(match[3], 16), "bytes": int(match[4]), "ns": int(match[1].replace(".", "")),
                                        "stack": match[5], "in_run": runs}
        elif match := re.search(r" (?:arena_free|used arena) (\d+) (0x[0-9a-f]+).*? count (\d+)", line):
            if (block_ := live.pop((match[1], match[2]), None)) is not None:
                ended.append(dict(block_, uses=int(match[3])))
        elif match := re.search(r" uses_end left_out (\d+) unread (\d+)", line):
            end = {"left_out": int(match[1]), "unread": int(match[2])}
        elif re.search(r" phase_push thread source 3 run\b", line):
            runs += 1
    return ended, end, runs


def site_of(gpupeak, log, block_):
    view = json.loads(subprocess.run([gpupeak, "pools", log, "--json", "--at", f"+{block_['ns']}ns"], stdout=subprocess.PIPE, check=True).stdout)
    return next((b["site"] for pool in view["pools"] for b in pool["blocks"] if b["address"] == block_["address"]), "?")


def libraries(ort):
    """Where ONNX Runtime finds its own and NVIDIA's: those of pip, if they are there."""
    spec = importlib.util.find_spec("nvidia")
    places = [place for root in (spec.submodule_search_locations if spec else ()) for place in glob.glob(os.path.join(root, "*/lib"))]
    return os.pathsep.join([ort, *places, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def one_model(gpupeak, folder, ort, name, model, arguments):
    log, perf_test = os.path.join(folder, f"ort_{name}.gplog"), os.path.join(ort, "onnxruntime_perf_test")
    done = subprocess.run([gpupeak, "run", "--quiet", "--last-use", "--host", "off", "-o", log, "--", perf_test, "-e", "cuda", "-r", str(RUNS), "-I",
                           "-m", "times", *arguments, model], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": libraries(ort)})
    if done.returncode != 0:
        print(f"| {name} | exit code {done.returncode}: {done.stderr.strip()[-150:]} | | | | **wrong** |")
        return False
    blocks, end, runs = blocks_of(gpupeak, log)
    never = [b for b in blocks if b["uses"] == 0]
    whole, unseen = (sum(b["bytes"] for b in some) for some in (blocks, never))
    in_runs = [b for b in blocks if b["in_run"] > 1]  # the first run asks for workspaces that later ones have
    once = [b for b in in_runs if b["uses"] == 1]
    of_stack = {b["stack"]: b for b in never}
    of_stack = {stack: site_of(gpupeak, log, block_) for stack, block_ in of_stack.items()}
    sites = {}
    for block_ in never:
        site = of_stack[block_["stack"]]
        sites[site] = sites.get(site, 0) + block_["bytes"]
    tables = [b for b in never if b["bytes"] == 256 and OF_CONCAT in of_stack[b["stack"]]]
    problems = []
    if end is None or end["unread"] > 0:
        problems.append(f"uses_end: {end}")
    if len(blocks) < 20 or runs < RUNS:
        problems.append(f"{len(blocks)} blocks followed in {runs} runs")
    if name == "network" and (len(never) > len(tables) or len(tables) != runs or len(in_runs) < 8 * (runs - 1)):
        problems.append(f"{len(in_runs)} blocks in {runs - 1} runs, and tables of one Concat")
    if unseen > UNSEEN_SHARE * whole:
        problems.append(f"{unseen / whole:.1%} of the bytes not seen")
    said = "; ".join(f"{size:,} {site}" for site, size in sorted(sites.items(), key=lambda s: -s[1])[:4])
    print(f"| {name} | {len(blocks):,} of {whole:,} bytes | {len(in_runs):,}, {len(once):,} of them once | {len(never):,}, {len(tables):,} of them tables of Concat | {unseen:,} | {said} "
          f"| {'**' + '; '.join(problems) + '**' if problems else ''} |", flush=True)
    return not problems


def models(gpupeak, folder, ort):
    print("\n| ONNX Runtime | blocks of the arena | in later runs | not seen used | bytes of them | by site | |\n|---|---|---|---|---|---|---|")
    network = os.path.join(folder, "network.onnx")
    write_network(network)
    fine = one_model(gpupeak, folder, ort, "network", network, AS_WRITTEN)
    for model in MODELS:
        path = os.path.join(ort, f"models/light_{model}.onnx")
        fine &= one_model(gpupeak, folder, ort, model, path, [])
        fine &= one_model(gpupeak, folder, ort, f"{model}, as written", path, AS_WRITTEN)
    return fine
