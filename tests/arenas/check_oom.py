#!/usr/bin/env python3
"""Staged out-of-memory runs: the sentence names what was staged, with its figures, in every way in which a run can end.

usage: check_oom.py PRELOAD GPUPEAK DRIVER_FOLDER CLIENT TORCH ORT [CASE …]

Each case is a run of oom_client on a simulated card of 1 GiB. Expected: the cause, what the sentence and the advice say,
and figures of the JSON. A cause that was not staged is never named: where none can be proved, it is null.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20
preload, gpupeak, driver, client, torch, ort = sys.argv[1:7]
only = sys.argv[7:]

NVML = {"FAKE_NVML": "on"}
OTHERS = dict(NVML, FAKE_CUDA_OTHERS="700MiB")
# name: (how it ends, environment, cause, in the sentence, in the advice, what else the JSON must have)
CASES = {
    "larger_than_card": ("abort", NVML, "larger_than_card", "more than the card has, 1.00 GiB", "smaller batch", {}),
    "full": ("kill", NVML, "full", "too small for what is in use and 200 MiB more; this process holds 87.9 % of the card, "
             "900 MiB of it by full oom_client.cc:", "larger card", {}),
    "other_process": ("abort", OTHERS, "other_process", "another process holds it: 700 MiB of the card's 1.00 GiB", "nvidia-smi",
                      {"driver_free_bytes": 224 * MIB}),
    "other_process_unknown": ("abort", {"FAKE_NVML": "off", "FAKE_CUDA_OTHERS": "700MiB"}, None,
                              "the cause is not known: what neither this process holds nor is free", "", {}),
    "grow": ("kill", NVML, "growth", "it grows: +20.0 MiB at each step, ", "from one step to the next", {}),
    "small_blocks": ("exit", NVML, "pages_of_small_blocks", "they leave 361 MiB of the driver's 2 MiB pages unused", "one large", {}),
    "driver_pool_fragmented": ("abort", NVML, "fragmented", "the driver's memory pools keep ", "chunks", {}),
    "past_driver_pool": ("abort", NVML, "idle_in_pool", "idle in pools: cudaMallocAsync's keeps ", "cuMemPoolTrimTo", {}),
    "refused_for_nothing": ("abort", dict(NVML, FAKE_CUDA_FAIL="cuMemAlloc:2:2"), None,
                            "the cause is not known: as much was free, but not for this request", "", {}),
    "pinned": ("exit", dict(NVML, FAKE_CUDA_FAIL="cuMemHostAlloc:1:2"), None, "the host's memory was asked for", "", {}),
    "addresses": ("exit", dict(NVML, FAKE_CUDA_FAIL="cuMemAddressReserve:1:2"), None, "addresses were asked for, not memory", "", {}),
    "context": ("abort", dict(NVML, FAKE_CUDA_OTHERS="900MiB", FAKE_CUDA_COSTS="on"), "other_process",
                "another process holds it: 900 MiB of the card's 1.00 GiB", "nvidia-smi", {"requested_bytes": 0}),
    "code": ("abort", dict(NVML, FAKE_CUDA_COSTS="on", FAKE_CUDA_FAIL="cuModuleLoadData:1:2"), None, "the driver does not say how much it needs for itself; 4.00 MiB are free", "",
             {}),
    "many": ("abort", NVML, "idle_in_pool", "PyTorch's pool keeps 600 MiB", "empty_cache", {"requested_bytes": 500 * MIB + 1199}),
    "torch_fragmented": ("kill", NVML, "fragmented",
                         "fragmented: 450 MiB of PyTorch's pool are idle, but in 45 pieces, the largest 10.0 MiB; 124 MiB are free",
                         "expandable_segments:True", {"requested_bytes": 300 * MIB, "driver_free_bytes": 124 * MIB}),
    "torch_expandable_fragmented": ("abort", NVML, "fragmented", "fragmented: 450 MiB of PyTorch's pool are idle, but in 45 pieces",
                                    "fewer different sizes", {"requested_bytes": 300 * MIB}),
    "torch_limit": ("abort", NVML, "own_limit", "PyTorch's own limit, not the card's: it has 300 MiB and did not ask the driver for "
                    "more, so the limit is below 600 MiB (58.6 % of the card); 724 MiB are free", "set_per_process_memory_fraction",
                    {"live_bytes": 300 * MIB}),
    "torch_limit_expandable": ("kill", NVML, "own_limit", "PyTorch's own limit, not the card's: it has 300 MiB",
                               "set_per_process_memory_fraction", {}),
    "torch_set_apart": ("exit", NVML, "set_apart", "PyTorch's pool has 598 MiB idle in one piece and did not use it", "one stream", {}),
    "torch_graph": ("kill", NVML, "graph_pool", "CUDA graphs' memory: 598 MiB of PyTorch's pool are idle, kept for graphs",
                    "share one pool", {}),
    "torch_grow": ("kill", NVML, "growth", "it grows: +26.0 MiB at each iteration, ", "from one iteration to the next", {}),
    "torch_others": ("abort", OTHERS, "other_process", "another process holds it: 700 MiB", "nvidia-smi", {}),
    "torch_larger_than_card": ("abort", NVML, "larger_than_card", "more than the card has, 1.00 GiB", "smaller batch",
                               {"requested_bytes": 2048 * MIB}),
    "torch_full": ("abort", NVML, "full", "too small for what is in use and 200 MiB more", "larger card", {}),
    "workspace": ("abort", NVML, "idle_in_pool", "idle in pools: PyTorch's pool keeps 600 MiB that nobody uses, and this request "
                  "went past it", "empty_cache", {"requested_bytes": 500 * MIB}),
    "together": ("abort", dict(NVML, FAKE_CUDA_OTHERS="300MiB"), "together", "none of them enough alone: 300 MiB of other processes, "
                 "100 MiB idle in pools", "largest part", {}),
    "ort_limit": ("abort", NVML, "own_limit", "ONNX Runtime's own limit of 256 MiB, not the card's: it has 128 MiB", "gpu_mem_limit",
                  {"requested_bytes": 200 * MIB}),
    "ort_fragmented": ("kill", NVML, "fragmented", "of ONNX Runtime's pool are idle, but in ", "kSameAsRequested", {}),
    "ort_host_limit": ("exit", {}, "own_limit", "ONNX Runtime's own limit of 64.0 MiB: it has 32.0 MiB", "max_mem", {}),
}
ENDS = {"exit": 0, "abort": -6, "kill": -9}


def check(name, folder):
    end, environment, cause, sentence, advice, figures = CASES[name]
    log = os.path.join(folder, name + ".gplog")
    ended = subprocess.run(
        [client, name.removesuffix("_unknown"), end, torch, ort], timeout=100,
        env=dict(os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off",
                 FAKE_CUDA_MEMORY="1GiB", **environment))
    assert ended.returncode == ENDS[end], ended
    report = json.loads(subprocess.run([gpupeak, "report", "--json", log], check=True, capture_output=True, text=True).stdout)
    told = [oom for oom in report["oom"] if not oom.get("told_by_pool")]
    assert 0 < len(told) == min(report["oom_count"], 1000), (len(told), report["oom_count"])
    oom = told[-1]
    said = {"why": oom["why"], "help": oom["help"], "causes": oom["causes"]}
    assert oom["cause"] == cause, said
    assert sentence in oom["why"], (sentence, said)
    assert (advice in oom["help"]) and bool(advice) == bool(oom["help"]), (advice, said)
    for field, value in figures.items():
        assert oom[field] == value, (field, oom[field], value)
    text = subprocess.run([gpupeak, "report", log], check=True, capture_output=True, text=True).stdout
    lines = text.split("\n")
    assert sum(line.startswith("why: ") for line in lines) == 1, text
    assert " ".join(oom["why"].split()) in re.sub(r"\s+", " ", text), (oom["why"], text)
    page = os.path.join(folder, name + ".html")
    if subprocess.run([gpupeak, "report", "--html", page, log], check=False, capture_output=True).returncode == 0:  # built with it
        assert oom["why"] in json.dumps(open(page, encoding="utf-8").read(), ensure_ascii=False), "not on the page"
    if cause == "growth":
        steps = int(re.search(r"at each \w+, (\d+) times", oom["why"]).group(1))
        growth = report["growth"][0]
        assert growth["same_each_time"] and growth["steps"] == steps, growth
        assert growth["grown_bytes"] == steps * growth["bytes_each"] == oom["causes"][0]["bytes"], growth
        assert steps >= 15, growth
    print(f"{name}: {oom['why']}" + (f"  →  {oom['help']}" if oom["help"] else ""))


with tempfile.TemporaryDirectory() as folder:
    wrong = []
    for name in only or CASES:
        try:
            check(name, folder)
        except AssertionError as error:
            wrong.append(name)
            print(f"{name}: WRONG: {error}")
    print(f"{len(only or CASES) - len(wrong)} of {len(only or CASES)} right")
    sys.exit(1 if wrong else 0)
